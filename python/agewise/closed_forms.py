"""Closed forms of participation under a policy: the document of ``agewise theory``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from agewise import _agewise
from agewise.checks import document, finite, max_age_or_auto, names
from agewise.lookup import by_name
from agewise.settings import warn_of_max_age


@dataclass(frozen=True, eq=False)
class PolicyTheory:
    """One policy in its steady state. X is the number of rounds between two selections of a
    client.
    """

    policy: str
    summary: str
    #: The weighting that Sigma assumes.
    weighting: str
    #: p_0, p_1, ... if the policy is a single age law.
    probabilities: NDArray[np.float64] | None
    #: The share of clients of each age, if the policy is a single age law.
    steady_state: NDArray[np.float64] | None
    mean_interval: float
    var_interval: float
    #: The longest possible X; None if there is no bound.
    longest_wait: int | None
    #: The sum over clients of the variance of their weight; None if no closed form is known.
    sigma: float | None
    #: Sigma given that the cohort is not empty.
    sigma_given_nonempty: float | None
    #: Theorem 5 as the paper prints it, without a term for an empty cohort.
    sigma_as_printed: float | None
    #: False if sizes were grouped into classes to compute Sigma.
    sigma_exact: bool
    cohort_mean: float
    cohort_sd: float
    #: The probability of an empty cohort.
    empty_probability: float
    #: sqrt(Var Y)/T for windows of T rounds.
    window_sd: dict[int, float]
    #: How long clients stay in step, if the policy is a single age law: `forgetting_rounds` (None
    #: if they always do), `meet_again`, `cohort_correlation` and `greatest_probability`.
    phases: dict[str, float | None] | None
    #: Values of X, and the probability of each.
    intervals: NDArray[np.uint64]
    interval_probabilities: NDArray[np.float64]
    #: Round, mean, standard deviation, 2.5% and 97.5% quantile of the cohort size after a cold
    #: start, if requested.
    cold_start: NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class Theory:
    """Several policies, shown as a figure in a notebook."""

    clients: int
    cohort: int
    max_age: int
    sizes: str
    #: 1/m - 1/n: no policy with m clients on average and equal weights has a smaller Sigma.
    sigma_floor: float
    policies: list[PolicyTheory]
    #: The document of ``agewise theory --json``.
    json: str
    #: The laws and the distributions of X, as SVG.
    figure: str

    def __getitem__(self, policy: str) -> PolicyTheory:
        """A policy by its name with options, in any spelling.

        >>> theory()["random"].longest_wait is None
        True
        """
        return by_name(self.policies, policy)

    def __repr__(self) -> str:
        entries = ", ".join(entry.policy for entry in self.policies)
        return f"Theory({self.clients} clients, {self.cohort} per round: {entries})"

    def _repr_html_(self) -> str:
        return self.figure


def theory(
    *,
    clients: int = 100,
    cohort: int = 15,
    max_age: int | str = "auto",
    policies: Sequence[str] | None = None,
    sizes: str | ArrayLike = "equal",
    weighting: str | None = None,
    empty_cohort: str = "force-one",
    seed: int = 0,
    cold_start: int = 0,
) -> Theory:
    """Closed forms of participation under each policy. The default is all policies with closed
    forms that need no options. A policy without closed forms is a ValueError.

    ``sizes`` is a distribution (``equal``, ``zipf:2.0``, ``lognormal:1.0``) drawn with ``seed``, or
    a list. ``cold_start`` is a number of rounds: with it, the result has the cohort sizes of age
    laws in these rounds if all ages begin at 0.

    >>> found = theory(policies=["random", "oldest-first"])
    >>> [(entry.policy, round(entry.var_interval, 2)) for entry in found.policies]
    [('random', 37.78), ('oldest-first', 0.22)]
    >>> theory(clients=10**9, cohort=10**6)["markov-optimal"].longest_wait
    1000
    """
    distribution = sizes if isinstance(sizes, str) else "equal"
    text, distributions, figure = _agewise.theory(
        document(
            {
                "clients": clients,
                "cohort": cohort,
                "max_age": max_age_or_auto(max_age),
                "policies": names("policies", policies),
                "sizes": distribution,
                "size_list": None if isinstance(sizes, str) else finite("sizes", sizes),
                "weighting": weighting,
                "empty_cohort": empty_cohort,
                "seed": seed,
                "cold_start": cold_start,
            }
        )
    )
    found = json.loads(text)
    for entry in found["policies"]:
        warn_of_max_age(entry["policy"], clients, cohort, max_age)
    entries = zip(found.pop("policies"), distributions, strict=True)
    return Theory(
        **found,
        policies=[_policy(entry, *intervals) for entry, intervals in entries],
        json=text,
        figure=figure,
    )


def _policy(
    entry: dict[str, object], x: NDArray[np.uint64], p: NDArray[np.float64]
) -> PolicyTheory:
    def array(value: object) -> NDArray[np.float64] | None:
        return None if value is None else np.asarray(value, dtype=np.float64)

    cold = entry.pop("cold_start", [])
    rounds = [list(row.values()) for row in cold] if isinstance(cold, list) else []
    windows = entry.pop("window_sd")
    assert isinstance(windows, dict)
    fields: dict[str, object] = entry | {
        "probabilities": array(entry["probabilities"]),
        "steady_state": array(entry["steady_state"]),
        "window_sd": {int(length): sd for length, sd in windows.items()},
        "intervals": x,
        "interval_probabilities": p,
        "cold_start": np.asarray(rounds, dtype=np.float64).reshape(-1, 5),
    }
    return PolicyTheory(**fields)  # type: ignore[arg-type]
