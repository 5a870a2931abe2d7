"""The selection simulator: how policies load their clients, from 100 clients to 10^8."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from agewise import _agewise
from agewise.checks import document, finite, names
from agewise.lookup import by_name


@dataclass(frozen=True, eq=False)
class PolicyLoad:
    """One policy: means over seeds, beside the closed forms where there are any. What is not known is None."""

    policy: str
    weighting: str
    sigma: float | None
    sigma_theory: float | None
    mean_interval: float | None
    var_interval: float | None
    var_interval_theory: float | None
    cohort_mean: float
    cohort_sd: float
    cohort_min: int
    cohort_max: int
    jain: float | None
    never_selected: float
    longest_wait: int
    mean_covariance: float | None
    window_sd: dict[int, float]
    window_sd_theory: dict[int, float]
    window_sd_half_width: dict[int, float]
    #: Half the width of the 95% interval of each mean, with two seeds or more.
    half_width: dict[str, float]
    #: Clients selected, by seed and round.
    selected: NDArray[np.uint64]
    #: Clients that reported, by seed and round.
    reported: NDArray[np.uint64]
    #: Every X that was seen, and how often, over all seeds.
    intervals: NDArray[np.uint64]
    interval_counts: NDArray[np.uint64]


@dataclass(frozen=True, eq=False, repr=False)
class Simulation:
    """Policies side by side."""

    clients: int
    cohort: int
    max_age: int
    rounds: int
    seeds: int
    policies: list[PolicyLoad]
    #: The document of ``agewise simulate --json``.
    json: str

    def __getitem__(self, policy: str) -> PolicyLoad:
        """A policy by its name with options, however it is written."""
        return by_name(self.policies, policy)


    def __repr__(self) -> str:
        entries = ", ".join(entry.policy for entry in self.policies)
        size = f"{self.clients} clients, {self.cohort} per round, {self.rounds} rounds"
        return f"Simulation({size}, {self.seeds} seeds: {entries})"


def simulate(
    *,
    clients: int | None = None,
    cohort: int | None = None,
    max_age: int | None = None,
    rounds: int | None = None,
    warmup: int | None = None,
    policies: Sequence[str] | None = None,
    sizes: str | ArrayLike | None = None,
    weighting: str | None = None,
    start: str | None = None,
    empty_cohort: str | None = None,
    seed: int | None = None,
    seeds: int | None = None,
    availability: str | None = None,
    dropout: float | None = None,
    join: float | None = None,
    leave: float | None = None,
    calibrate: bool | None = None,
    progress: Callable[[int], object] | None = None,
) -> Simulation:
    """Plays policies without training. What is not given is as in ``agewise simulate``, whose help explains the words.

    Nobody trains here, so a policy that looks at losses or updates is a ValueError; :func:`agewise.compare` plays those.

    ``progress`` is called with the number of rounds that were just played, from several threads. Other Python threads run
    meanwhile. An exception in it, or Ctrl-C, ends the simulation.

    >>> found = simulate(policies=["random", "oldest-first"], rounds=200, seeds=2)
    >>> found["oldest-first"].longest_wait
    7
    >>> found["random"].reported.shape
    (2, 200)
    >>> simulate(rounds=0)
    Traceback (most recent call last):
        ...
    ValueError: rounds = 0: expected a whole number from 1 to 10000000
    """
    text, played = _agewise.simulate(
        document(
            {
                "clients": clients,
                "cohort": cohort,
                "max_age": max_age,
                "rounds": rounds,
                "warmup": warmup,
                "policies": names("policies", policies),
                "sizes": sizes if isinstance(sizes, str) else None,
                "size_list": None
                if sizes is None or isinstance(sizes, str)
                else finite("sizes", sizes),
                "weighting": weighting,
                "start": start,
                "empty_cohort": empty_cohort,
                "seed": seed,
                "seeds": seeds,
                "availability": availability,
                "dropout": dropout,
                "join": join,
                "leave": leave,
                "calibrate": calibrate,
            }
        ),
        progress,
    )
    found = json.loads(text)
    entries = zip(found.pop("policies"), played, strict=True)
    return Simulation(
        **found, policies=[_policy(entry, *arrays) for entry, arrays in entries], json=text
    )


def _policy(entry: dict[str, object], *arrays: NDArray[np.uint64]) -> PolicyLoad:
    for key in ["window_sd", "window_sd_theory", "window_sd_half_width"]:
        windows = entry[key]
        assert isinstance(windows, dict)
        entry[key] = {int(length): value for length, value in windows.items()}
    selected, reported, intervals, counts = arrays
    fields: dict[str, object] = entry | {
        "selected": selected,
        "reported": reported,
        "intervals": intervals,
        "interval_counts": counts,
    }
    return PolicyLoad(**fields)  # type: ignore[arg-type]
