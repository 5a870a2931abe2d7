"""Experiments that compare policies, with training (:func:`compare`) or without
(:func:`simulate`).
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from typing import Any

from numpy.typing import ArrayLike

from agewise import _agewise
from agewise.aggregation import RuleLike
from agewise.checks import document, finite, shown, within
from agewise.own import Own
from agewise.policy import PolicyLike
from agewise.results import ExperimentResult
from agewise.task import Task

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


def compare(
    *,
    task: Task | None = None,
    policies: Sequence[PolicyLike] | None = None,
    aggregate: RuleLike | None = None,
    engine: str = "threads",
    preset: str | None = None,
    out: str | PathLike[str] | None = None,
    force: bool = False,
    data_folder: str | PathLike[str] | None = None,
    threads: int | None = None,
    progress: Progress | bool = True,
    **params: Any,
) -> ExperimentResult:
    """Trains with several policies and compares them, like ``agewise compare``.

    ``task`` is what clients train, if it is one's own (:class:`Task`); ``engine`` runs its code in
    ``threads`` of this process, in worker ``processes`` or on a ``ray`` cluster, in as many as
    ``threads`` says. Among the
    ``policies`` may be classes of one's own (:class:`Selects`), and ``aggregate`` may be one
    (:class:`Aggregates`). An exception in any of them ends the comparison, and is raised with its
    traceback; :func:`resume_run` continues before the round in which it was raised.

    The defaults are six policies, 12 seeds and the digits inside the package, which takes about two
    minutes. ``params`` have the names of the keys of configuration files (docs/compare.md), without
    tables: for example ``seeds``, ``data``, ``partition``, ``model``, ``local_work``, ``rounds``,
    ``targets``, ``availability``, ``dropout``, ``failing``, ``join``, ``leave``, ``calibrate`` and
    ``backoff``. ``aggregate`` is an aggregation rule as text. With ``preset``, parameters that are
    not given are those of the preset. The run is saved in ``out`` (the default is a new folder in
    ``runs``), with the same bytes as by the command. A folder that exists is an error without
    ``force=True``.

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
    with Own(policies, task, aggregate, engine, threads) as own:
        params = named | own.arguments(params)
        job = _agewise.Job(document(params), True, True, out, force, data_folder, own.parts)
        return _play(job, own.workers, progress)


def simulate(
    *,
    clients: int | None = None,
    cohort: int | None = None,
    max_age: int | str | None = None,
    rounds: int | None = None,
    warmup: int | None = None,
    policies: Sequence[PolicyLike] | None = None,
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

    Among the ``policies`` may be classes of one's own (:class:`Selects`). A policy that looks at
    losses or updates needs training, so it is a ValueError; use :func:`compare`. The run is saved
    only if ``out`` is given.

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
    own = Own(policies)
    params = own.arguments(params)
    job = _agewise.Job(document(params), False, out is not None, out, force, None, own.parts)
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
    task: Task | None = None,
    policies: Sequence[PolicyLike] | None = None,
    aggregate: RuleLike | None = None,
    engine: str = "threads",
    data_folder: str | PathLike[str] | None = None,
    threads: int | None = None,
    progress: Progress | bool = True,
) -> ExperimentResult:
    """Continues an interrupted run. The result has the same bytes as that of an uninterrupted
    run.

    The folder has names only: a ``task``, ``policies`` and a rule to ``aggregate`` that are one's
    own are passed again, as to :func:`compare`.
    """
    _threads(threads)
    _progress(progress)
    with _named_parts(), Own(policies, task, aggregate, engine, threads) as own:
        job = _agewise.Job.open(folder, data_folder, own.parts)
        return _play(job, own.workers, progress)


def extend_run(
    folder: str | PathLike[str],
    *,
    seeds: int | None = None,
    rounds: int | None = None,
    policies: Sequence[PolicyLike] | None = None,
    task: Task | None = None,
    aggregate: RuleLike | None = None,
    engine: str = "threads",
    data_folder: str | PathLike[str] | None = None,
    threads: int | None = None,
    progress: Progress | bool = True,
) -> ExperimentResult:
    """Extends a run by more seeds, more rounds or further policies, and plays only what is missing.

    The result has the same bytes as that of a run with all of it from the beginning. What the run
    has of one's own is passed again, as to :func:`resume_run`; policies that it has already are not
    new ones.
    """
    _threads(threads)
    _progress(progress)
    with _named_parts(), Own(policies, task, aggregate, engine, threads) as own:
        more = document({"seeds": seeds, "rounds": rounds, "policies": own.policies})
        job = _agewise.Job.extend(folder, more, data_folder, own.parts)
        return _play(job, own.workers, progress)


def read_run(
    folder: str | PathLike[str],
    *,
    task: Task | None = None,
    policies: Sequence[PolicyLike] | None = None,
    aggregate: RuleLike | None = None,
    data_folder: str | PathLike[str] | None = None,
) -> ExperimentResult:
    """Reads a run of :func:`compare`, :func:`simulate` or the command from its folder.

    The run may be unfinished. What it has of one's own is passed again, as to :func:`resume_run`.
    """
    with _named_parts():
        job = _agewise.Job.open(folder, data_folder, Own(policies, task, aggregate).parts)
        return ExperimentResult(job, job.read())


@contextmanager
def _named_parts() -> Iterator[None]:
    """Says what to do about names of a run that agewise does not know."""
    try:
        yield
    except ValueError as error:
        if str(error).startswith(("data = ", "policies = ")):
            error.add_note(
                "A run that was played with a task, policies or an aggregation rule of one's own "
                "is opened with the same: task=..., policies=[...], aggregate=..."
            )
        raise


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
