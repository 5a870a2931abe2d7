"""The main job: policies side by side by training, with paired statistics and a report."""

from __future__ import annotations

import base64
import html
import json
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

from agewise import _agewise
from agewise.checks import document, names, shown, within

#: What hears how a comparison goes: the policy, the seed, the rounds played, and the accuracy if it was just measured.
Progress = Callable[[str, int, int, "float | None"], object]


@dataclass(frozen=True)
class Preset:
    """A comparison that has a name."""

    name: str
    about: str
    #: Its parameters, as :func:`compare` takes them.
    params: dict[str, Any]


def presets() -> list[Preset]:
    """All comparisons that have a name: the paper's experiments, and its Theorem 1.

    >>> "paper-mnist-iid-steps" in [preset.name for preset in presets()]
    True
    """
    return [Preset(name, about, json.loads(params)) for name, about, params in _agewise.presets()]


@dataclass(frozen=True, eq=False)
class Comparison:
    """A comparison as far as it was played; draws itself in a notebook."""

    #: Its folder: config.toml, rounds.csv, clients.csv, models, figures, report.html.
    folder: Path
    #: The parameters with which it was made.
    params: dict[str, Any]
    #: Whether every run is at its end.
    finished: bool
    #: Everything that was found: the contents of summary.json.
    summary: dict[str, Any]
    #: The contents of summary.json as text, as ``agewise compare --json`` prints it.
    json: str
    #: What was compared, in a line.
    title: str
    #: The table: columns, and one row for each policy.
    columns: list[str]
    rows: list[list[str]]
    #: What the data support, in a sentence.
    verdict: str
    #: Something that spoils the comparison, if there is such a thing.
    caution: str | None
    #: Questions, each with the figure that answers it, as SVG.
    figures: dict[str, str] = field(repr=False)

    @property
    def report(self) -> Path:
        """The page that explains everything."""
        return self.folder / "report.html"

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
        """A table and the figures, on their own: no script, no style sheet, nothing that others on the page could change."""
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
            # The first two say the most; the others are a click away.
            shown = " open" if place < 2 else ""
            return f"<details{shown}><summary>{html.escape(question)}</summary>{picture}</details>"

        notes = [note for note in (self.caution, self.verdict) if note]
        parts = [
            f"<p><b>{html.escape(self.title)}</b></p>",
            '<div style="overflow-x:auto"><table style="border-collapse:collapse;font-size:90%">',
            row("th", self.columns),
            *(row("td", cells) for cells in self.rows),
            "</table></div>",
            *(f"<p>{html.escape(note)}</p>" for note in notes),
            *(figure(place, *drawn) for place, drawn in enumerate(self.figures.items())),
            f"<p>All of it, explained: <code>{html.escape(str(self.report))}</code></p>",
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
) -> Comparison:
    """Trains with several policies side by side, and says what differs: ``agewise compare``.

    Without parameters: six policies, 12 seeds, the digits inside the package, about two minutes. ``params`` are those of its
    configuration files (docs/compare.md), for example ``policies``, ``seeds``, ``data``, ``partition``, ``model``,
    ``local_work``, ``rounds``, ``targets``; those of a ``preset`` are taken over where they are not given. The run is kept in
    ``out`` (a new folder below ``runs`` if not given), byte for byte as the command would.

    ``progress`` is True for lines on stderr, False for silence, or a function. An exception in it, or Ctrl-C, ends the
    comparison between two rounds; :func:`resume_comparison` goes on with it.

    >>> import tempfile
    >>> found = compare(
    ...     policies=["random", "oldest-first"], seeds=2, rounds=3, model="softmax", targets=[0.5],
    ...     out=tempfile.mkdtemp(), force=True, progress=False,
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
    if not (callable(progress) or isinstance(progress, bool)):
        raise ValueError(f"progress = {shown(progress)}: expected True, False or a function")
    policies = names("policies", params.get("policies"))
    if policies is not None:
        params["policies"] = policies
        # The usual baseline may not be among them.
        if policies and named.get("baseline", "random") not in policies:
            params.setdefault("baseline", policies[0])
    job = _agewise.Job(document(named | params), out, force, data_folder)
    return _play(job, threads, progress)


def resume_comparison(
    folder: str | PathLike[str],
    *,
    data_folder: str | PathLike[str] | None = None,
    threads: int | None = None,
    progress: Progress | bool = True,
) -> Comparison:
    """Goes on with a comparison that was interrupted, and ends with the same bytes as if nothing had happened."""
    _threads(threads)
    return _play(_agewise.Job.open(folder, data_folder), threads, progress)


def read_comparison(
    folder: str | PathLike[str], *, data_folder: str | PathLike[str] | None = None
) -> Comparison:
    """A comparison from its folder, as far as it was played, by Python or by the command."""
    job = _agewise.Job.open(folder, data_folder)
    return _comparison(job, job.read())


def _threads(threads: int | None) -> None:
    """Checked before a folder is made."""
    if threads is not None:
        within("threads", threads, 1, 4096)


def _play(job: _agewise.Job, threads: int | None, progress: Progress | bool) -> Comparison:
    params = json.loads(job.params)
    policies: list[str] = params["policies"]
    tell: Progress | None = None
    if callable(progress):
        tell = progress
    elif progress:
        tell = _Lines(params)

    def heard(policy: int, seed: int, rounds: int, accuracy: float | None) -> None:
        if tell is not None:
            tell(policies[policy], params["seed"] + seed, rounds, accuracy)

    return _comparison(job, job.play(threads, heard))


def _comparison(
    job: _agewise.Job, shown: tuple[bool, str, str, list[tuple[str, str]]]
) -> Comparison:
    finished, summary, overview, figures = shown
    table: Mapping[str, Any] = json.loads(overview)
    return Comparison(
        folder=Path(job.path),
        params=json.loads(job.params),
        finished=finished,
        summary=json.loads(summary),
        json=summary,
        title=table["title"],
        columns=table["columns"],
        rows=table["rows"],
        verdict=table["verdict"],
        caution=table["caution"],
        figures=dict(figures),
    )


class _Lines:
    """A line on stderr every few seconds."""

    EVERY = 5.0

    def __init__(self, params: Mapping[str, Any]) -> None:
        self.all_rounds = params["rounds"] * params["seeds"] * len(params["policies"])
        self.rounds: dict[tuple[str, int], int] = {}
        self.next = time.monotonic() + self.EVERY

    def __call__(self, policy: str, seed: int, rounds: int, accuracy: float | None) -> None:
        self.rounds[policy, seed] = rounds
        if time.monotonic() < self.next:
            return
        self.next = time.monotonic() + self.EVERY
        done = sum(self.rounds.values())
        score = "" if accuracy is None else f", {100 * accuracy:.1f}%"
        line = f"{done} of {self.all_rounds} rounds; {policy}, seed {seed}: round {rounds}{score}"
        print(line, file=sys.stderr, flush=True)
