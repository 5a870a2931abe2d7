"""Trackers of experiments: MLflow, Weights & Biases, TensorBoard."""

from __future__ import annotations

import csv
import importlib
import os
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from agewise.callbacks import Callbacks, Metrics
from agewise.checks import shown

#: The trackers that are known by name.
TRACKERS = ("mlflow", "wandb", "tensorboard")
#: What a project or an experiment is called where the tracker's own settings name none.
_PROJECT = "agewise"


class Tracker(Callbacks):
    """Callbacks that have to be closed, whether the comparison is finished or not."""

    def begin(self, title: str, params: Mapping[str, Any], folder: Path | None) -> None:
        """The comparison has these parameters and this folder."""

    def close(self) -> None:
        """Ends what is open."""


class MlflowTracker(Tracker):
    """One run of MLflow for each policy and seed, with the metrics of its rounds, and one for the
    comparison, with the verdict and the report.

    The tracking server and the experiment are those of MLflow's own settings
    (``MLFLOW_TRACKING_URI``, ``MLFLOW_EXPERIMENT_NAME``); the experiment is ``agewise`` otherwise.
    """

    def __init__(self) -> None:
        mlflow = _imported("mlflow", "mlflow")
        self._client = mlflow.MlflowClient()
        self._metric = mlflow.entities.Metric
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", _PROJECT)
        found = self._client.get_experiment_by_name(name)
        self._experiment = (
            self._client.create_experiment(name) if found is None else found.experiment_id
        )
        self._runs: dict[tuple[str, int], str] = {}
        self._params: Mapping[str, Any] = {}
        self._title = ""

    def begin(self, title: str, params: Mapping[str, Any], folder: Path | None) -> None:
        """Keeps what runs have in common."""
        self._title, self._params = title, params

    def on_begin(self, policy: str, seed: int, history: Sequence[Metrics]) -> None:
        """Begins a run, with the rounds that were played before."""
        run = self._started(f"{policy}, seed {seed}")
        self._runs[policy, seed] = run
        self._client.log_param(run, "policy", policy)
        self._client.log_param(run, "run_seed", seed)
        for metrics in history:
            self.on_round(policy, seed, metrics)

    def on_round(self, policy: str, seed: int, metrics: Metrics) -> None:
        """Logs the metrics of a round, which is the step."""
        step = metrics["round"]
        logged = [self._metric(k, float(v), step, step) for k, v in _numbers(metrics).items()]
        self._client.log_batch(self._runs[policy, seed], metrics=logged)

    def on_run(self, policy: str, seed: int) -> None:
        """Ends a run."""
        self._client.set_terminated(self._runs.pop((policy, seed)))

    def on_end(self, result: Any) -> None:
        """Logs the means over seeds, the verdict and the report."""
        run = self._started(self._title or result.title)
        self._client.set_tag(run, "verdict", result.verdict)
        for name, value in _means(result).items():
            self._client.log_metric(run, name, value)
        if result.report is not None and result.report.exists():
            self._client.log_artifact(run, str(result.report))
        self._client.set_terminated(run)

    def close(self) -> None:
        """Runs that did not finish are marked as such."""
        for run in self._runs.values():
            self._client.set_terminated(run, "KILLED")
        self._runs.clear()

    def _started(self, name: str) -> str:
        tags = {"mlflow.runName": name, "agewise.comparison": self._title}
        run: str = self._client.create_run(self._experiment, tags=tags).info.run_id
        for key, value in self._params.items():
            self._client.log_param(run, key, str(value)[:500])
        return run


class WandbTracker(Tracker):
    """One run of Weights & Biases for each policy and seed, in one group, and one for the
    comparison. Its settings are its own (``WANDB_PROJECT``, ``WANDB_MODE=offline``, ``WANDB_DIR``).
    """

    def __init__(self) -> None:
        self._wandb = _imported("wandb", "wandb")
        self._runs: dict[tuple[str, int], Any] = {}
        self._params: Mapping[str, Any] = {}
        self._title = ""

    def begin(self, title: str, params: Mapping[str, Any], folder: Path | None) -> None:
        """Keeps what runs have in common."""
        self._title, self._params = title, params

    def on_begin(self, policy: str, seed: int, history: Sequence[Metrics]) -> None:
        """Begins a run, with the rounds that were played before."""
        own = {"policy": policy, "run_seed": seed}
        self._runs[policy, seed] = self._started(f"{policy}, seed {seed}", own)
        for metrics in history:
            self.on_round(policy, seed, metrics)

    def on_round(self, policy: str, seed: int, metrics: Metrics) -> None:
        """Logs the metrics of a round, which is the step."""
        self._runs[policy, seed].log(_numbers(metrics), step=metrics["round"])

    def on_run(self, policy: str, seed: int) -> None:
        """Ends a run."""
        self._runs.pop((policy, seed)).finish()

    def on_end(self, result: Any) -> None:
        """Logs the means over seeds, the verdict and the report."""
        run = self._started(self._title or result.title, {"verdict": result.verdict})
        run.summary.update(_means(result))
        if result.report is not None and result.report.exists():
            run.save(str(result.report), base_path=str(result.report.parent), policy="now")
        run.finish()

    def close(self) -> None:
        """Runs that did not finish are marked as such."""
        for run in self._runs.values():
            run.finish(exit_code=1)
        self._runs.clear()

    def _started(self, name: str, own: Mapping[str, Any]) -> Any:
        return self._wandb.init(
            project=os.environ.get("WANDB_PROJECT", _PROJECT),
            group=self._title[:128],
            name=name[:128],
            config={**self._params, **own},
            reinit="create_new",
        )


class TensorboardTracker(Tracker):
    """The event files in the folder ``tensorboard`` of a run, which agewise writes in any case when
    a comparison ends: this says so where there is no folder.
    """

    def begin(self, title: str, params: Mapping[str, Any], folder: Path | None) -> None:
        """Refuses a comparison without a folder."""
        if folder is None:
            expected = "a run with a folder, in which the event files are written"
            raise ValueError(f"track = 'tensorboard': expected {expected}")


_KINDS = {"mlflow": MlflowTracker, "wandb": WandbTracker, "tensorboard": TensorboardTracker}


def trackers(track: object) -> list[Tracker]:
    """The trackers of these names."""
    if track is None:
        return []
    named = [track] if isinstance(track, str) else track
    if not isinstance(named, (list, tuple)) or any(name not in TRACKERS for name in named):
        expected = f"one of {', '.join(TRACKERS)}, or a list of them"
        raise ValueError(f"track = {shown(track)}: expected {expected}")
    return [_KINDS[name]() for name in named]


def track_run(folder: str | PathLike[str], track: str | Sequence[str], **own: Any) -> None:
    """Logs a run that was played before, by Python or by the command, in trackers.

    ``track`` is ``"mlflow"``, ``"wandb"`` or ``"tensorboard"``, or a list of them. What the run has
    of one's own is passed as to :func:`agewise.resume_run`.
    """
    from agewise.experiment import read_run

    made = trackers(track)
    result = read_run(folder, **own)
    for tracker in made:
        try:
            tracker.begin(result.title, result.params, result.folder)
            for (policy, seed), rows in _rounds(result).items():
                tracker.on_begin(policy, seed, rows)
                tracker.on_run(policy, seed)
            tracker.on_end(result)
        finally:
            tracker.close()


def _rounds(result: Any) -> dict[tuple[str, int], list[Metrics]]:
    """The metrics of all rounds of a run, from its folder."""
    rounds: dict[tuple[str, int], list[Metrics]] = {}
    with (result.folder / "rounds.csv").open() as file:
        for row in csv.DictReader(file):
            known = {name: _value(text) for name, text in row.items() if _value(text) is not None}
            metrics = {name: value for name, value in known.items() if name != "seed"}
            rounds.setdefault((row["policy"], int(row["seed"])), []).append(metrics)
    return rounds


def _value(text: str) -> float | int | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return int(number) if number.is_integer() and "." not in text else number


def _numbers(metrics: Metrics) -> dict[str, float]:
    return {name: value for name, value in metrics.items() if name != "round"}


def _means(result: Any) -> dict[str, float]:
    """The means over seeds of each policy, under names that trackers allow."""
    found = {}
    for entry in result.policies:
        policy = "".join(c if c.isalnum() or c in "-_." else "_" for c in entry.policy)
        for name, estimate in entry.means.items():
            found[f"{policy}/{name}"] = float(estimate.mean)
    return found


def _imported(module: str, package: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        message = f"track = {module!r} needs the package {package}: pip install {package}"
        raise ImportError(message) from error
