"""Experiments that compare policies, with training (:func:`compare`) or without
(:func:`simulate`).
"""

from __future__ import annotations

import base64
import html
import json
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from agewise import _agewise
from agewise.checks import document, finite, names, shown, within
from agewise.lookup import by_name

#: The progress callback of a comparison: policy, seed, finished rounds, and the accuracy if it was
#: evaluated in the last of them.
Progress = Callable[[str, int, int, "float | None"], object]

#: The progress callback of a simulation: the number of rounds finished since the last call.
RoundsPlayed = Callable[[int], object]


@dataclass(frozen=True)
class Preset:
    """A predefined comparison."""

    name: str
    about: str
    #: Its parameters, as arguments of :func:`compare`.
    params: dict[str, Any]


def presets() -> list[Preset]:
    """All predefined comparisons: the paper's experiments, and its Theorem 1.

    >>> "paper-mnist-iid-steps" in [preset.name for preset in presets()]
    True
    """
    return [Preset(name, about, json.loads(params)) for name, about, params in _agewise.presets()]


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds, and the half-width of its 95% confidence interval (None with one seed)."""

    mean: float
    half_width: float | None


@dataclass(frozen=True, eq=False)
class PolicyResult:
    """One policy of an experiment: means over seeds, and closed forms if there are any. Unknown
    values are None.
    """

    policy: str
    weighting: str
    start: str
    #: The aggregation rule; None without training.
    aggregation: str | None
    #: The number of finished runs.
    runs: int
    #: All means, by their names in summary.json.
    means: dict[str, Estimate]
    cohort_min: int | None
    cohort_max: int | None
    longest_wait: int | None
    #: sqrt(Var Y)/T for windows of T rounds.
    window_sd: dict[int, Estimate]
    sigma_theory: float | None
    var_interval_theory: float | None
    window_sd_theory: dict[int, float]
    #: For each target the median number of rounds with its interval, and how many runs reached it.
    rounds_to: list[dict[str, Any]]
    #: The number of selected clients by seed and round; 0 after the end of a run.
    selected: NDArray[np.uint64]
    #: The number of clients that reported, by seed and round.
    reported: NDArray[np.uint64]
    #: The observed values of X over all seeds, and the count of each.
    intervals: NDArray[np.uint64]
    interval_counts: NDArray[np.uint64]

    def mean(self, name: str) -> float | None:
        """A mean over seeds by its name in summary.json; None if unknown.

        >>> simulate(policies=["oldest-first"], rounds=50)["oldest-first"].mean("cohort_mean")
        15.0
        """
        known = self.means.get(name)
        return None if known is None else known.mean

    @property
    def mean_interval(self) -> float | None:
        """E[X]; X is the number of rounds between two selections of a client."""
        return self.mean("mean_interval")

    @property
    def var_interval(self) -> float | None:
        """Var[X]."""
        return self.mean("var_interval")

    @property
    def sigma(self) -> float | None:
        """The sum of the variances of the weights."""
        return self.mean("sigma")

    @property
    def mean_covariance(self) -> float | None:
        """The mean covariance of two clients' weights."""
        return self.mean("mean_covariance")

    @property
    def cohort_mean(self) -> float | None:
        """The mean number of reports per round."""
        return self.mean("cohort_mean")

    @property
    def cohort_sd(self) -> float | None:
        """The standard deviation of the reports per round."""
        return self.mean("cohort_sd")

    @property
    def jain(self) -> float | None:
        """Jain's index: 1 if all clients take part equally often."""
        return self.mean("jain")

    @property
    def never_reached(self) -> float | None:
        """The number of clients that never reported."""
        return self.mean("never_reached")

    @property
    def final_accuracy(self) -> float | None:
        """The test accuracy of the last model; None without training or if runs stop at a
        target.
        """
        return self.mean("final_accuracy")


class ExperimentResult:
    """The results of an experiment, shown as a table and figures in a notebook."""

    #: Its folder with config.toml, rounds.csv, summary.json, figures and report.html; None if it
    #: was not saved.
    folder: Path | None
    #: Its parameters.
    params: dict[str, Any]
    #: Whether all runs are finished.
    finished: bool
    #: The contents of summary.json.
    summary: dict[str, Any]
    #: The contents of summary.json as text; the command prints the same with ``--json``.
    json: str
    #: A one-line description of the experiment.
    title: str
    #: The columns of the summary table, and one row for each policy.
    columns: list[str]
    rows: list[list[str]]
    #: The findings, in a few sentences.
    verdict: str
    #: A warning about the validity of the results, if there is one.
    caution: str | None
    #: The results of each policy.
    policies: list[PolicyResult]

    def __init__(self, job: _agewise.Job, outcome: _agewise.Outcome) -> None:
        self._outcome = outcome
        self.folder = None if job.path is None else Path(job.path)
        self.params = json.loads(job.params)
        self.finished = outcome.finished
        self.json = outcome.summary
        self.summary = json.loads(outcome.summary)
        table = json.loads(outcome.table)
        self.title = table["title"]
        self.columns = table["columns"]
        self.rows = table["rows"]
        self.verdict = table["verdict"]
        self.caution = table["caution"]
        self.policies = [
            _policy(entry, *outcome.arrays(place))
            for place, entry in enumerate(self.summary["policies"])
        ]

    @cached_property
    def figures(self) -> dict[str, str]:
        """The figures as SVG, by the question that each answers; drawn on first access."""
        return dict(self._outcome.figures())

    @property
    def report(self) -> Path | None:
        """The path of the HTML report; None if the experiment was not saved."""
        return None if self.folder is None else self.folder / "report.html"

    def __getitem__(self, policy: str) -> PolicyResult:
        """A policy by its name with options, in any spelling."""
        return by_name(self.policies, policy)

    def __repr__(self) -> str:
        entries = ", ".join(entry.policy for entry in self.policies)
        return f"ExperimentResult({self.title}: {entries})"

    def __str__(self) -> str:
        table = [self.columns, *self.rows]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines = [
            "  ".join(
                cell.ljust(width) if place == 0 else cell.rjust(width)
                for place, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in table
        ]
        notes = [self.caution] if self.caution else []
        return "\n".join([self.title, *lines, *notes, self.verdict])

    def _repr_html_(self) -> str:
        """A table and the figures, self-contained: without scripts and style sheets."""
        cell = "padding:2px 8px;border-bottom:1px solid #8886;white-space:nowrap;text-align:"

        def row(tag: str, cells: list[str]) -> str:
            sides = ["left"] + ["right"] * (len(cells) - 1)
            inner = "".join(
                f'<{tag} style="{cell}{side}">{html.escape(text)}</{tag}>'
                for text, side in zip(cells, sides, strict=True)
            )
            return f"<tr>{inner}</tr>"

        def figure(place: int, question: str, svg: str) -> str:
            data = base64.b64encode(svg.encode()).decode()
            picture = (
                f'<img alt="{html.escape(question)}" '
                f'style="max-width:100%;background:#fff" src="data:image/svg+xml;base64,{data}">'
            )
            # The first two figures are the most important; the others are collapsed.
            shown = " open" if place < 2 else ""
            return f"<details{shown}><summary>{html.escape(question)}</summary>{picture}</details>"

        notes = [note for note in (self.caution, self.verdict) if note]
        report = "" if self.report is None else html.escape(str(self.report))
        parts = [
            f"<p><b>{html.escape(self.title)}</b></p>",
            '<div style="overflow-x:auto"><table style="border-collapse:collapse;font-size:90%">',
            row("th", self.columns),
            *(row("td", cells) for cells in self.rows),
            "</table></div>",
            *(f"<p>{html.escape(note)}</p>" for note in notes),
            *(figure(place, *drawn) for place, drawn in enumerate(self.figures.items())),
            f"<p>Full report: <code>{report}</code></p>" if report else "",
        ]
        return "<div>" + "".join(parts) + "</div>"


def compare(
    *,
    preset: str | None = None,
    out: str | PathLike[str] | None = None,
    force: bool = False,
    data_folder: str | PathLike[str] | None = None,
    threads: int | None = None,
    progress: Progress | bool = True,
    **params: Any,
) -> ExperimentResult:
    """Trains with several policies and compares them, like ``agewise compare``.

    The defaults are six policies, 12 seeds and the digits inside the package, which takes about two
    minutes. ``params`` have the names of the keys of configuration files (docs/compare.md), without
    tables: for example ``policies``, ``seeds``, ``data``, ``partition``, ``model``, ``local_work``,
    ``rounds``, ``targets``, ``availability``, ``dropout``, ``failing``, ``join``, ``leave``,
    ``calibrate``, ``backoff``, and ``aggregate`` for an aggregation rule. With ``preset``,
    parameters that are not given are those of the preset. The run is saved in ``out`` (the default
    is a new folder in ``runs``), with the same bytes as by the command. A folder that exists is an
    error without ``force=True``.

    ``progress`` is True for lines on stderr, False for no output, or a function. An exception in
    it, or Ctrl-C, ends the comparison between two rounds; :func:`resume_run` continues it.

    >>> import tempfile
    >>> found = compare(
    ...     policies=["random", "oldest-first"], seeds=2, rounds=3, model="softmax", targets=[0.5],
    ...     dropout=0.1, out=tempfile.mkdtemp(), force=True, progress=False,
    ... )
    >>> [row[0] for row in found.rows], found.finished, found.report.exists()
    (['random', 'oldest-first'], True, True)
    """
    _threads(threads)
    params = {key: value for key, value in params.items() if value is not None}
    named: dict[str, Any] = {}
    if preset is not None:
        known = {entry.name: entry.params for entry in presets()}
        if preset not in known:
            raise ValueError(f"preset = {preset}: expected one of {', '.join(known)}")
        named = known[preset]
    _progress(progress)
    policies = names("policies", params.get("policies"))
    if policies is not None:
        params["policies"] = policies
    job = _agewise.Job(document(named | params), True, True, out, force, data_folder)
    return _play(job, threads, progress)


def simulate(
    *,
    clients: int | None = None,
    cohort: int | None = None,
    max_age: int | str | None = None,
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
    failing: float | None = None,
    join: float | None = None,
    leave: float | None = None,
    calibrate: bool | None = None,
    backoff: bool | None = None,
    out: str | PathLike[str] | None = None,
    force: bool = False,
    threads: int | None = None,
    progress: RoundsPlayed | None = None,
) -> ExperimentResult:
    """Simulates the selection of policies without training. The parameters and their defaults are
    those of ``agewise simulate``, whose help explains them.

    A policy that looks at losses or updates needs training, so it is a ValueError; use
    :func:`compare`. The run is saved only if ``out`` is given.

    ``progress`` is called from several threads with the number of rounds finished since its last
    call. Other Python threads run during a simulation. An exception in ``progress``, or Ctrl-C,
    ends the simulation.

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
    _threads(threads)
    is_distribution = sizes is None or isinstance(sizes, str)
    params = {
        "clients": clients,
        "cohort": cohort,
        "max_age": max_age,
        "rounds": rounds,
        "warmup": warmup,
        "policies": names("policies", policies),
        "sizes": sizes if is_distribution else None,
        "size_list": None if is_distribution else finite("sizes", sizes),  # type: ignore[arg-type]
        "weighting": weighting,
        "start": start,
        "empty_cohort": empty_cohort,
        "seed": seed,
        "seeds": seeds,
        "availability": availability,
        "dropout": dropout,
        "failing": failing,
        "join": join,
        "leave": leave,
        "calibrate": calibrate,
        "backoff": backoff,
    }
    job = _agewise.Job(document(params), False, out is not None, out, force, None)
    before: dict[tuple[int, int], int] = {}

    def on_progress(policy: int, seed: int, rounds: int, score: float | None) -> None:
        if progress is not None:
            more = rounds - before.get((policy, seed), 0)
            before[policy, seed] = rounds
            if more:
                progress(more)

    for cost in job.max_age_costs():
        warnings.warn(cost, stacklevel=3)
    return ExperimentResult(job, job.play(threads, on_progress))


def resume_run(
    folder: str | PathLike[str],
    *,
    data_folder: str | PathLike[str] | None = None,
    threads: int | None = None,
    progress: Progress | bool = True,
) -> ExperimentResult:
    """Continues an interrupted run. The result has the same bytes as that of an uninterrupted
    run.
    """
    _threads(threads)
    _progress(progress)
    return _play(_agewise.Job.open(folder, data_folder), threads, progress)


def extend_run(
    folder: str | PathLike[str],
    *,
    seeds: int | None = None,
    rounds: int | None = None,
    policies: Sequence[str] | None = None,
    data_folder: str | PathLike[str] | None = None,
    threads: int | None = None,
    progress: Progress | bool = True,
) -> ExperimentResult:
    """Extends a run by more seeds, more rounds or further policies, and plays only what is missing.

    The result has the same bytes as that of a run with all of it from the beginning.
    """
    _threads(threads)
    _progress(progress)
    more = {"seeds": seeds, "rounds": rounds, "policies": names("policies", policies)}
    return _play(_agewise.Job.extend(folder, document(more), data_folder), threads, progress)


def read_run(
    folder: str | PathLike[str], *, data_folder: str | PathLike[str] | None = None
) -> ExperimentResult:
    """Reads a run of :func:`compare`, :func:`simulate` or the command from its folder.

    The run may be unfinished.
    """
    job = _agewise.Job.open(folder, data_folder)
    return ExperimentResult(job, job.read())


def _threads(threads: int | None) -> None:
    """Checks the argument before a folder is created."""
    if threads is not None:
        within("threads", threads, 1, 4096)


def _progress(progress: Progress | bool) -> None:
    if not (callable(progress) or isinstance(progress, bool)):
        raise ValueError(f"progress = {shown(progress)}: expected True, False or a function")


def _play(job: _agewise.Job, threads: int | None, progress: Progress | bool) -> ExperimentResult:
    params = json.loads(job.params)
    policies: list[str] = params["policies"]
    callback: Progress | None = None
    if callable(progress):
        callback = progress
    elif progress:
        callback = _Lines(params)

    def on_progress(policy: int, seed: int, rounds: int, score: float | None) -> None:
        if callback is not None:
            callback(policies[policy], params["seed"] + seed, rounds, score)

    return ExperimentResult(job, job.play(threads, on_progress))


def _policy(entry: dict[str, Any], *arrays: NDArray[np.uint64]) -> PolicyResult:
    def estimates(found: dict[str, dict[str, Any]]) -> dict[str, Estimate]:
        return {
            name: Estimate(value["mean"], value.get("half_width")) for name, value in found.items()
        }

    theory = entry.get("theory") or {}
    selected, reported, intervals, counts = arrays
    return PolicyResult(
        policy=entry["policy"],
        weighting=entry["weighting"],
        start=entry["start"],
        aggregation=entry.get("aggregation"),
        runs=entry["runs"],
        means=estimates(entry["means"]),
        cohort_min=entry["cohort_min"],
        cohort_max=entry["cohort_max"],
        longest_wait=entry["longest_wait"],
        window_sd={int(t): sd for t, sd in estimates(entry["window_sd"]).items()},
        sigma_theory=theory.get("sigma"),
        var_interval_theory=theory.get("var_interval"),
        window_sd_theory={int(t): sd for t, sd in theory.get("window_sd", {}).items()},
        rounds_to=entry.get("rounds_to", []),
        selected=selected,
        reported=reported,
        intervals=intervals,
        interval_counts=counts,
    )


class _Lines:
    """Prints a line on stderr every few seconds."""

    EVERY = 5.0

    def __init__(self, params: Mapping[str, Any]) -> None:
        self.all_rounds = params["rounds"] * params["seeds"] * len(params["policies"])
        self.rounds: dict[tuple[str, int], int] = {}
        self.next = time.monotonic() + self.EVERY

    def __call__(self, policy: str, seed: int, rounds: int, score: float | None) -> None:
        self.rounds[policy, seed] = rounds
        if time.monotonic() < self.next:
            return
        self.next = time.monotonic() + self.EVERY
        done = sum(self.rounds.values())
        shown = "" if score is None else f", {100 * score:.1f}%"
        line = f"{done} of {self.all_rounds} rounds; {policy}, seed {seed}: round {rounds}{shown}"
        print(line, file=sys.stderr, flush=True)
