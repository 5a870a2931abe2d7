"""Experiments that compare policies, with training (:func:`compare`) or without
(:func:`simulate`).
"""

from __future__ import annotations

import contextlib
import json
import tomllib
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike

from agewise import _agewise
from agewise.aggregation import RuleLike
from agewise.arrays import has_clients, own_data
from agewise.callbacks import Listener, Progress
from agewise.checks import document, finite, shown
from agewise.learning import Dataset
from agewise.listening import Listening, check_threads
from agewise.own import Own
from agewise.policy import PolicyLike
from agewise.results import ExperimentResult
from agewise.task import Task

#: The arguments of :func:`compare` that are keys of configuration files.
PARAMS = tuple(
    "data clients cohort rounds seed seeds baseline weighting start max_age warmup empty_cohort "
    "calibrate backoff sizes availability dropout failing join leave label client test holdout "
    "ignore features loss pixels partition speeds model local_work batch learning_rate decay "
    "offset momentum weight_decay proximal augment eval_every eval_from targets stop_at_target "
    "skew bound rule trim clip_norm full_reports server links schedule unit power "
    "link_power".split()
)

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
    data: str | PathLike[str] | Sequence[ArrayLike] | Dataset | None = None,
    policies: Sequence[PolicyLike] | None = None,
    aggregate: RuleLike | None = None,
    engine: str = "threads",
    preset: str | None = None,
    clients: int | None = None,
    cohort: int | None = None,
    rounds: int | None = None,
    seed: int | None = None,
    seeds: int | None = None,
    baseline: str | None = None,
    weighting: str | None = None,
    start: str | None = None,
    max_age: int | str | None = None,
    warmup: int | None = None,
    empty_cohort: str | None = None,
    calibrate: bool | None = None,
    backoff: bool | None = None,
    sizes: str | None = None,
    availability: str | None = None,
    dropout: float | None = None,
    failing: float | None = None,
    join: float | None = None,
    leave: float | None = None,
    label: str | None = None,
    client: str | None = None,
    test: str | PathLike[str] | Sequence[ArrayLike] | None = None,
    holdout: float | None = None,
    ignore: Sequence[str] | None = None,
    features: str | None = None,
    loss: str | None = None,
    pixels: str | None = None,
    partition: str | None = None,
    speeds: str | None = None,
    model: str | Sequence[Mapping[str, Any]] | None = None,
    local_work: str | None = None,
    batch: int | None = None,
    learning_rate: float | None = None,
    decay: float | None = None,
    offset: float | None = None,
    momentum: float | None = None,
    weight_decay: float | None = None,
    proximal: float | None = None,
    augment: bool | None = None,
    eval_every: int | None = None,
    eval_from: int | None = None,
    targets: Sequence[float] | None = None,
    stop_at_target: bool | None = None,
    skew: bool | None = None,
    bound: bool | None = None,
    rule: str | None = None,
    trim: float | None = None,
    clip_norm: float | None = None,
    full_reports: int | None = None,
    server: Mapping[str, Any] | None = None,
    links: str | None = None,
    schedule: str | None = None,
    unit: str | None = None,
    power: float | None = None,
    link_power: float | None = None,
    out: str | PathLike[str] | None = None,
    force: bool = False,
    data_folder: str | PathLike[str] | None = None,
    threads: int | None = None,
    progress: Progress | bool = True,
    callbacks: object = None,
    track: str | Sequence[str] | None = None,
) -> ExperimentResult:
    """Trains with several policies and compares them, like ``agewise compare``.

    What is trained is one of these:

    - a ``task`` of one's own (:class:`Task`); ``engine`` runs its code in ``threads`` of this
      process, in worker ``processes`` or on a ``ray`` cluster, in as many as ``threads`` says;
    - a model of agewise on ``data``: the name of a data set, a file, a :class:`Dataset`, or arrays
      ``(x, y)`` or ``(x, y, client_ids)``; ``test`` is of the same kind;
    - with neither, the digits inside the package, which takes about two minutes.

    Among the ``policies`` may be classes of one's own (:class:`Selects`), and ``aggregate`` is the
    text of an aggregation rule or a class (:class:`Aggregates`). An exception in any of them ends
    the comparison, and is raised with its traceback; :func:`resume_run` continues before the round
    in which it was raised.

    docs/python.md has a table of all arguments; those from ``clients`` to ``link_power`` are keys
    of configuration files (docs/compare.md). With ``preset``, arguments that are not given are
    those of the preset. The run is saved in ``out`` (the default is a new folder in ``runs``), with
    the same bytes as by the command. A folder that exists is an error without ``force=True``.

    ``progress`` is True for lines on stderr, False for no output, or a function. ``callbacks`` are
    objects with methods ``on_round``, ``on_run`` or ``on_end`` (:class:`Callbacks`), and ``track``
    is ``"mlflow"``, ``"wandb"`` or ``"tensorboard"``. An exception in them, or Ctrl-C, ends the
    comparison between two rounds; :func:`resume_run` continues it.

    >>> import tempfile
    >>> found = compare(
    ...     policies=["random", "oldest-first"], seeds=2, rounds=3, model="softmax", targets=[0.5],
    ...     dropout=0.1, out=tempfile.mkdtemp(), force=True, progress=False,
    ... )
    >>> [row[0] for row in found.rows], found.finished, found.report.exists()
    (['random', 'oldest-first'], True, True)
    """
    given = locals()
    params = {name: given[name] for name in PARAMS if given[name] is not None}
    arrays = own_data(data, test, loss, model) if task is None else None
    if arrays is not None:
        params = {name: value for name, value in params.items() if name not in ("data", "test")}
    params = _of_own_clients(params, has_clients(data))
    if preset is not None:
        known = {entry.name: entry.params for entry in presets()}
        if preset not in known:
            raise ValueError(f"preset = {preset}: expected one of {', '.join(known)}")
        params = known[preset] | params
    with Own(policies, task, aggregate, engine, threads, arrays) as own:
        listening = Listening(progress, callbacks, track, own.activity, threads)
        params = own.arguments(params)
        job = _agewise.Job(document(params), True, True, out, force, data_folder, own.parts)
        return listening.play(job, own.workers)


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
    check_threads(threads)
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
    before: dict[tuple[str, int], int] = {}

    def on_progress(policy: str, seed: int, rounds: int, score: float | None) -> None:
        if progress is not None:
            more = rounds - before.get((policy, seed), 0)
            before[policy, seed] = rounds
            if more:
                progress(more)

    for cost in job.max_age_costs():
        warnings.warn(cost, stacklevel=3)
    listener = Listener(json.loads(job.params), on_progress)
    return ExperimentResult(job, job.play(threads, listener))


def resume_run(
    folder: str | PathLike[str],
    *,
    task: Task | None = None,
    data: Sequence[ArrayLike] | Dataset | None = None,
    test: Sequence[ArrayLike] | None = None,
    policies: Sequence[PolicyLike] | None = None,
    aggregate: RuleLike | None = None,
    engine: str = "threads",
    data_folder: str | PathLike[str] | None = None,
    threads: int | None = None,
    progress: Progress | bool = True,
    callbacks: object = None,
    track: str | Sequence[str] | None = None,
) -> ExperimentResult:
    """Continues an interrupted run. The result has the same bytes as that of an uninterrupted
    run.

    The folder has names only: a ``task``, arrays (``data``, ``test``), ``policies`` and a rule to
    ``aggregate`` that are one's own are passed again, as to :func:`compare`.
    """
    arrays = _arrays_of_run(folder, data, test)
    with _named_parts(), Own(policies, task, aggregate, engine, threads, arrays) as own:
        listening = Listening(progress, callbacks, track, own.activity, threads)
        job = _agewise.Job.open(folder, data_folder, own.parts)
        return listening.play(job, own.workers)


def extend_run(
    folder: str | PathLike[str],
    *,
    seeds: int | None = None,
    rounds: int | None = None,
    policies: Sequence[PolicyLike] | None = None,
    task: Task | None = None,
    data: Sequence[ArrayLike] | Dataset | None = None,
    test: Sequence[ArrayLike] | None = None,
    aggregate: RuleLike | None = None,
    engine: str = "threads",
    data_folder: str | PathLike[str] | None = None,
    threads: int | None = None,
    progress: Progress | bool = True,
    callbacks: object = None,
    track: str | Sequence[str] | None = None,
) -> ExperimentResult:
    """Extends a run by more seeds, more rounds or further policies, and plays only what is missing.

    The result has the same bytes as that of a run with all of it from the beginning. What the run
    has of one's own is passed again, as to :func:`resume_run`; policies that it has already are not
    new ones.
    """
    arrays = _arrays_of_run(folder, data, test)
    with _named_parts(), Own(policies, task, aggregate, engine, threads, arrays) as own:
        listening = Listening(progress, callbacks, track, own.activity, threads)
        more = document({"seeds": seeds, "rounds": rounds, "policies": own.policies})
        job = _agewise.Job.extend(folder, more, data_folder, own.parts)
        return listening.play(job, own.workers)


def read_run(
    folder: str | PathLike[str],
    *,
    task: Task | None = None,
    data: Sequence[ArrayLike] | Dataset | None = None,
    test: Sequence[ArrayLike] | None = None,
    policies: Sequence[PolicyLike] | None = None,
    aggregate: RuleLike | None = None,
    data_folder: str | PathLike[str] | None = None,
) -> ExperimentResult:
    """Reads a run of :func:`compare`, :func:`simulate` or the command from its folder.

    The run may be unfinished. What it has of one's own is passed again, as to :func:`resume_run`.
    """
    arrays = _arrays_of_run(folder, data, test)
    with _named_parts():
        own = Own(policies, task, aggregate, arrays=arrays)
        job = _agewise.Job.open(folder, data_folder, own.parts)
        return ExperimentResult(job, job.read())


@contextmanager
def _named_parts() -> Iterator[None]:
    """Says what to do about names of a run that agewise does not know."""
    try:
        yield
    except ValueError as error:
        if str(error).startswith(("data = ", "policies = ")):
            error.add_note(
                "A run that was played with a task, arrays, policies or an aggregation rule of "
                "one's own is opened with the same: task=..., data=..., policies=[...], "
                "aggregate=..."
            )
        raise


def _of_own_clients(params: dict[str, Any], arrays_have: bool) -> dict[str, Any]:
    """The parameters with what follows if the data have clients of their own: all take part."""
    partition = params.get("partition")
    if isinstance(partition, str) and partition.startswith("clients:"):
        params = params | {"partition": "clients", "client": partition.removeprefix("clients:")}
    elif partition is None and (params.get("client") is not None or arrays_have):
        params = params | {"partition": "clients"}
    if params.get("partition") != "clients":
        return params
    # 0 stands for the number that follows from the data.
    return {"clients": 0, "cohort": 0} | params


def _arrays_of_run(
    folder: str | PathLike[str], data: object, test: object
) -> _agewise.OwnData | None:
    """The arrays with which a run was begun."""
    if data is None:
        return None
    if not isinstance(data, (tuple, list, Dataset)):
        expected = "the arrays of the run; files are found where they were"
        raise ValueError(f"data = {shown(data)}: expected {expected}")
    training = {}
    with contextlib.suppress(OSError):
        training = tomllib.loads((Path(folder) / "config.toml").read_text()).get("training", {})
    return own_data(data, test, training.get("loss"), training.get("model"))
