"""Callbacks of comparisons, and trackers, with the real packages in their offline modes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from bad_calls import refused
from own_tasks import ASKED, Lines

import agewise

#: What every tracker is asked to log: two policies, two seeds, five rounds.
RUNS = {(policy, seed) for policy in ASKED["policies"] for seed in range(2)}


class Heard(agewise.Callbacks):
    """Writes down what it hears."""

    def __init__(self, fail_at: int = 10**9) -> None:
        self.rounds: dict[tuple[str, int], list[Any]] = {}
        self.history: dict[tuple[str, int], int] = {}
        self.runs: list[tuple[str, int]] = []
        self.result: Any = None
        self.fail_at = fail_at

    def on_begin(self, policy: str, seed: int, history: Any) -> None:
        self.history[policy, seed] = len(history)

    def on_round(self, policy: str, seed: int, metrics: Any) -> None:
        if metrics["round"] == self.fail_at:
            raise LookupError("enough")
        self.rounds.setdefault((policy, seed), []).append(metrics)

    def on_run(self, policy: str, seed: int) -> None:
        self.runs.append((policy, seed))

    def on_end(self, result: Any) -> None:
        self.result = result


def test_callbacks_hear_of_every_round_and_run(tmp_path: Path) -> None:
    heard, rounds = Heard(), []

    class Counts:
        def on_round(self, policy: str, seed: int, metrics: Any) -> None:
            rounds.append(metrics["round"])

    found = agewise.compare(task=Lines(), out=tmp_path / "r", callbacks=[heard, Counts()], **ASKED)
    assert set(heard.runs) == set(heard.rounds) == RUNS and len(heard.runs) == 4
    for played in heard.rounds.values():
        assert [metrics["round"] for metrics in played] == [1, 2, 3, 4, 5]
        assert {"available", "selected", "reported", "training_loss", "loss"} <= set(played[0])
        assert played[0]["selected"] == 4 and "score" not in played[0]
    assert heard.result is found and sorted(rounds) == sorted([1, 2, 3, 4, 5] * 4)


def test_an_exception_of_a_callback_ends_it_and_loses_nothing(tmp_path: Path) -> None:
    asked = ASKED | {"out": tmp_path / "run", "threads": 1}
    with pytest.raises(LookupError, match="enough"):
        agewise.compare(task=Lines(), callbacks=Heard(fail_at=3), **asked)
    heard = Heard()
    done = agewise.resume_run(tmp_path / "run", task=Lines(), callbacks=heard, progress=False)
    assert done.finished and max(heard.history.values()) == 3
    for run, played in heard.rounds.items():
        assert played[0]["round"] == heard.history[run] + 1


def test_wrong_callbacks_and_trackers_are_refused(tmp_path: Path) -> None:
    for wrong, message in [
        ({"callbacks": 3}, "callbacks = 3: expected an object with one of the methods on_begin"),
        ({"callbacks": Heard}, "callbacks = <class"),
        ({"track": "neptune"}, "track = 'neptune': expected one of mlflow, wandb, tensorboard"),
    ]:
        refused(partial(agewise.compare, task=Lines(), out=tmp_path / "run", **wrong), message)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("track", ["mlflow", "wandb"])
def test_a_tracker_that_is_not_installed_is_named(
    track: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, track, None)
    with pytest.raises(ImportError, match=f"track = '{track}' needs .*: pip install {track}"):
        agewise.compare(task=Lines(), out=tmp_path / "run", track=track, **ASKED)
    assert not (tmp_path / "run").exists()


@pytest.fixture
def mlflow_client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "mlruns").as_uri())
    mlflow.set_tracking_uri((tmp_path / "mlruns").as_uri())
    yield mlflow.MlflowClient()
    mlflow.set_tracking_uri("")


@pytest.mark.filterwarnings("ignore")
def test_mlflow(mlflow_client: Any, tmp_path: Path) -> None:
    out = tmp_path / "run"
    found = agewise.compare(task=Lines(), track="mlflow", out=out, **ASKED)
    agewise.track_run(out, "mlflow", task=Lines())
    experiment = mlflow_client.get_experiment_by_name("agewise")
    runs = mlflow_client.search_runs([experiment.experiment_id])
    assert len(runs) == 2 * (len(RUNS) + 1)
    assert all(run.info.status == "FINISHED" for run in runs)
    played = [run for run in runs if "policy" in run.data.params]
    for run in played:
        assert (run.data.params["policy"], int(run.data.params["run_seed"])) in RUNS
        history = mlflow_client.get_metric_history(run.info.run_id, "loss")
        assert [metric.step for metric in history] == [1, 2, 3, 4, 5]
    one = [r for r in played if r.data.tags["mlflow.runName"] == "oldest-first, seed 1"]
    losses = [
        [m.value for m in mlflow_client.get_metric_history(r.info.run_id, "loss")] for r in one
    ]
    assert losses[0] == losses[1], "live, and from the folder"
    [*ends] = [run for run in runs if "policy" not in run.data.params]
    assert all(run.data.tags["verdict"] == found.verdict for run in ends)
    [artifact] = mlflow_client.list_artifacts(ends[0].info.run_id)
    assert artifact.path == "report.html"
    with pytest.raises(LookupError):
        agewise.compare(
            task=Lines(), track="mlflow", callbacks=Heard(2), out=tmp_path / "cut", **ASKED
        )
    killed = mlflow_client.search_runs([experiment.experiment_id], "attributes.status = 'KILLED'")
    assert killed


def test_wandb_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb")
    for name, value in [("MODE", "offline"), ("DIR", str(tmp_path)), ("SILENT", "true")]:
        monkeypatch.setenv(f"WANDB_{name}", value)
    asked = ASKED | {"seeds": 1}
    agewise.compare(task=Lines(), track="wandb", out=tmp_path / "run", **asked)
    logs = list((tmp_path / "wandb").glob("offline-run-*/run-*.wandb"))
    assert len(logs) == 3, "two runs and the comparison"
    text = b"".join(log.read_bytes() for log in logs)
    for expected in [b"training_loss", b"oldest-first, seed 0", b"report.html", b"verdict"]:
        assert expected in text


@pytest.mark.filterwarnings("ignore")
def test_tensorboard_reads_the_folder(tmp_path: Path) -> None:
    module = "tensorboard.backend.event_processing.event_accumulator"
    accumulator = pytest.importorskip(module)
    out = tmp_path / "run"
    agewise.compare(task=Lines(), track=["tensorboard"], out=out, **ASKED)
    folders = {file.parent for file in (out / "tensorboard").rglob("*tfevents*")}
    assert len(folders) == 4
    for folder in folders:
        events = accumulator.EventAccumulator(str(folder))
        events.Reload()
        tags = events.Tags()["scalars"]
        [loss] = [tag for tag in tags if tag.endswith("loss") and "train" not in tag]
        assert [event.step for event in events.Scalars(loss)] == [1, 2, 3, 4, 5]


def test_the_command_of_the_package(mlflow_client: Any, tmp_path: Path) -> None:
    """The whole command comes with the package, and tracks what it has played."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        program = [sys.executable, "-m", "agewise", *arguments]
        return subprocess.run(program, cwd=tmp_path, capture_output=True, text=True, timeout=300)

    assert run("--version").stdout == f"agewise {agewise.__version__}\n"
    wrong = run("simulate", "--rounds", "0")
    assert wrong.returncode == 2 and "rounds = 0: expected" in wrong.stderr
    for arguments, message in [
        (["compare", "--track", "neptune"], "track = 'neptune': expected one of mlflow"),
        (["simulate", "--track", "mlflow"], "track = mlflow: expected none but with"),
    ]:
        done = run(*arguments)
        assert done.returncode == 2 and message in done.stderr and "Traceback" not in done.stderr
    assert "--track mlflow|wandb|tensorboard" in run("compare", "--help").stdout
    small = "compare --policy random --seeds 1 --rounds 2 --model softmax --quiet --track mlflow"
    done = run(*small.split())
    assert done.returncode == 0, done.stderr
    experiment = mlflow_client.get_experiment_by_name("agewise")
    runs = mlflow_client.search_runs([experiment.experiment_id])
    assert sorted("policy" in run.data.params for run in runs) == [False, True]
    assert (tmp_path / "runs/compare-001/report.html").exists()
