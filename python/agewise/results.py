"""Results of experiments: tables, figures and arrays."""

from __future__ import annotations

import base64
import html
import importlib
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agewise import _agewise
from agewise.lookup import by_name


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

        >>> from agewise import simulate
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

    def __init__(self, job: _agewise.Job, outcome: _agewise.JobResults) -> None:
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

    def to_dataframe(self) -> Any:
        """A pandas DataFrame with a row for each policy: what it is, the means over seeds by their
        names in summary.json, and the half-widths of their intervals (``..._half_width``).

        >>> from agewise import simulate
        >>> frame = simulate(policies=["random", "oldest-first"], rounds=50).to_dataframe()
        >>> float(frame.loc["oldest-first", "cohort_mean"])
        15.0
        """
        rows = []
        for entry in self.policies:
            row: dict[str, Any] = {name: getattr(entry, name) for name in _FACTS}
            for name, estimate in entry.means.items():
                row[name] = estimate.mean
                row[f"{name}_half_width"] = estimate.half_width
            rows.append(row)
        return _pandas().DataFrame(rows).set_index("policy")

    def rounds_dataframe(self) -> Any:
        """A pandas DataFrame with a row for each policy, seed and round (from 1).

        It has the columns of ``rounds.csv`` if the experiment was saved, and those of ``selected``
        and ``reported`` if not.
        """
        pandas = _pandas()
        if self.folder is not None and (self.folder / "rounds.csv").exists():
            return pandas.read_csv(self.folder / "rounds.csv")
        frames = []
        for entry in self.policies:
            for place, selected in enumerate(entry.selected):
                columns = {
                    "policy": entry.policy,
                    "seed": self.params["seed"] + place,
                    "round": np.arange(1, len(selected) + 1),
                    "selected": selected,
                    "reported": entry.reported[place],
                }
                frames.append(pandas.DataFrame(columns))
        return pandas.concat(frames, ignore_index=True)

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


#: What a row of a DataFrame says about a policy beside its means.
_FACTS = (
    "policy weighting start aggregation runs cohort_min cohort_max longest_wait "
    "var_interval_theory sigma_theory"
).split()


def _pandas() -> Any:
    try:
        return importlib.import_module("pandas")
    except ImportError as error:
        raise ImportError("DataFrames need pandas: pip install pandas") from error


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
