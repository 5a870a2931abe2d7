"""Tasks and aggregation rules of one's own, and the engines that run them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import own_tasks
import pytest
from bad_calls import refused
from own_tasks import ASKED, Classes, Dying, Lines, Mean, Noisy, Raising, Wrong
from test_own_policy import HighestLoss, same_bytes

import agewise
from agewise.engines import ProcessEngine, ThreadEngine, WorkerEndedError
from agewise.shared_models import Model, SharedModels
from agewise.task import GuardedTask

ENGINES = ["threads", "processes"]


def test_a_comparison_has_everything(tmp_path: Path) -> None:
    found = agewise.compare(task=Lines(), out=tmp_path / "run", **ASKED)
    assert found.title.startswith("lines, 12 clients, 4 per round, linear, 4 of 4 runs")
    assert found.caution is None and found.finished
    assert found.report is not None and "own model" not in found.report.read_text()
    loss = found["oldest-first"].mean("final_loss")
    assert loss is not None and loss < 1
    assert agewise.read_run(tmp_path / "run", task=Lines()).json == found.json
    with pytest.raises(ValueError, match="data = lines: expected one of digits") as raised:
        agewise.read_run(tmp_path / "run")
    assert "is opened with the same: task=" in "".join(raised.value.__notes__)


def test_classes_are_measured_by_accuracy(tmp_path: Path) -> None:
    asked = ASKED | {"rounds": 15, "targets": [0.7]}
    found = agewise.compare(task=Classes(), out=tmp_path / "run", **asked)
    accuracy = found["random"].final_accuracy
    assert accuracy is not None and accuracy > 0.8
    model = (tmp_path / "run/models/random.safetensors").read_bytes()
    assert b'"weight"' in model and b'"bias"' in model


def test_threads_processes_and_their_number_change_nothing(tmp_path: Path) -> None:
    policies = ["random", HighestLoss, "age-herding", "power-of-choice(d=6)"]
    asked = ASKED | {"policies": policies, "dropout": 0.1}
    for number, more in enumerate(
        [
            {"engine": "threads", "threads": 1},
            {"engine": "threads", "threads": 3},
            {"engine": "processes", "threads": 2},
        ]
    ):
        out = tmp_path / str(number)
        assert agewise.compare(task=Lines(), out=out, **asked, **more).finished
        same_bytes(tmp_path / "0", out)


def test_a_killed_process_loses_nothing(tmp_path: Path) -> None:
    whole, cut, file = tmp_path / "whole", tmp_path / "cut", tmp_path / "once"
    agewise.compare(task=Lines(), out=whole, **ASKED)
    file.touch()
    command = [sys.executable, own_tasks.__file__, str(cut), str(file), "threads"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert not agewise.read_run(cut, task=Lines()).finished
    agewise.resume_run(cut, task=Lines(), progress=False)
    same_bytes(whole, cut)


def killed_while_workers_train(engine: str, out: Path, folder: Path, **environment: str) -> None:
    """Kills a comparison in the middle of a round, and waits until its workers have ended too."""
    folder.mkdir()
    program = subprocess.Popen(
        [sys.executable, own_tasks.__file__, str(out), str(folder), engine],
        env=os.environ | environment,
    )
    try:
        wait_until(lambda: len(list(folder.iterdir())) == 2, "two workers that train")
        workers = {int(file.name) for file in folder.iterdir()}
        assert program.pid not in workers
    finally:
        program.kill()
        assert program.wait() == -signal.SIGKILL
    # They are in the middle of a call that would never end.
    wait_until(lambda: not any(is_alive(pid) for pid in workers), "the end of the workers")


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Waits, at most so long that something must be wrong."""
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.05)


def is_alive(pid: int) -> bool:
    """Whether a process runs, or at least one that is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
def test_workers_end_with_the_process_that_started_them(tmp_path: Path) -> None:
    whole, cut, folder = tmp_path / "whole", tmp_path / "cut", tmp_path / "held"
    agewise.compare(task=Lines(), out=whole, **ASKED)
    killed_while_workers_train("processes", cut, folder)
    assert not agewise.read_run(cut, task=Lines()).finished
    agewise.resume_run(cut, task=Lines(), engine="processes", threads=2, progress=False)
    same_bytes(whole, cut)


@pytest.mark.parametrize("schedule", ["deadline:0.6", "buffered:2"])
def test_a_task_under_a_clock(schedule: str, tmp_path: Path) -> None:
    """Threads, processes, and a run that was interrupted give the same bytes."""
    clock = {"speeds": "phones", "links": "lognormal:1", "schedule": schedule, "power": 2.0}
    # The schedule is that of a policy of one's own too.
    own = {"policies": ["random", "oldest-first", HighestLoss]}
    asked = ASKED | clock | own
    whole, file = tmp_path / "whole", tmp_path / "file"
    found = agewise.compare(task=Lines(), out=whole, **asked)
    for policy in ["random", "highest-loss"]:
        assert found[policy].mean("seconds") and found[policy].mean("joules")
        wasted = found[policy].mean("share_wasted")
        assert wasted is not None and (wasted > 0) == (schedule == "deadline:0.6")
    for engine in ENGINES:
        file.touch()
        run = {"out": tmp_path / engine, "engine": engine, "threads": 2}
        with pytest.raises(LookupError, match="no data of client-"):
            agewise.compare(task=Raising(file), **run, **asked)
        assert not agewise.read_run(tmp_path / engine, task=Lines(), **own).finished
        agewise.resume_run(
            tmp_path / engine, task=Lines(), engine=engine, threads=2, progress=False, **own
        )
        same_bytes(whole, tmp_path / engine)


@pytest.mark.parametrize("engine", ENGINES)
def test_an_exception_has_its_traceback_and_loses_nothing(engine: str, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    run = {"out": tmp_path / "cut", "engine": engine, "threads": 2}
    with pytest.raises(LookupError, match="no data of client-") as raised:
        agewise.compare(task=Raising(file), **run, **ASKED)
    notes = "".join(raised.value.__notes__)
    assert "in train of client 'client-" in notes and "in round 3 with seed" in notes
    if engine == "threads":
        assert traceback.extract_tb(raised.tb)[-1].name == "fail"
    else:
        assert "in fail\n" in notes
    file.unlink()
    done = agewise.resume_run(
        tmp_path / "cut", task=Raising(file), engine=engine, threads=2, progress=False
    )
    whole = agewise.compare(task=Lines(), out=tmp_path / "whole", **ASKED)
    assert done["random"].means == whole["random"].means


def test_a_task_that_is_not_deterministic_is_noticed(tmp_path: Path) -> None:
    found = agewise.compare(task=Noisy(), out=tmp_path / "run", **ASKED)
    assert found.caution is not None and "not deterministic" in found.caution
    assert found.report is not None and "not deterministic" in found.report.read_text()
    assert "not deterministic" in str(agewise.read_run(tmp_path / "run", task=Noisy()))


def test_a_worker_that_dies_is_replaced(tmp_path: Path) -> None:
    files = [tmp_path / "1", tmp_path / "2"]
    for file in files:
        file.touch()
    agewise.compare(task=Lines(), out=tmp_path / "whole", **ASKED)
    run = {"out": tmp_path / "run", "engine": "processes", "threads": 1}
    with pytest.warns(UserWarning, match=r"ended with -9 while training client \d+ in round 2"):
        agewise.compare(task=Dying(files), **run, **ASKED)
    same_bytes(tmp_path / "whole", tmp_path / "run")
    assert not any(file.exists() for file in files)


@pytest.mark.filterwarnings("ignore:worker process")
def test_a_client_that_kills_every_worker_ends_the_run(tmp_path: Path) -> None:
    files = [tmp_path / str(number) for number in range(9)]
    for file in files:
        file.touch()
    run = {"out": tmp_path / "run", "engine": "processes", "threads": 1}
    message = r"worker process \d+ ended with -9 while training client \d+ in round 2, as 3 in"
    with pytest.raises(RuntimeError, match=message):
        agewise.compare(task=Dying(files), **run, **ASKED)
    assert not agewise.read_run(tmp_path / "run", task=Lines()).finished


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ((np.zeros(4), {"loss": 1}), r"= float64 \[4\]: expected one array of 3 float32 numbers"),
        ((np.zeros((3, 1)), {"loss": 1}), r"= float64 \[3, 1\]: expected one array of 3"),
        ((None, {"loss": 1}), r"= NoneType \[\d*\]: expected one array of 3 float32"),
        ((np.array([1, np.nan, 2]), {"loss": 1}), "= nan at place 1: expected finite numbers"),
        ((np.full(3, 1e300), {"loss": 1}), "= inf at place 0: expected finite numbers"),
        (np.zeros(3), "expected a tuple of new parameters and a dict of metrics"),
        ((np.zeros(3), {}), r"loss of metrics of client '.*' in round 1 = missing: expected"),
        ((np.zeros(3), {"loss": "low"}), "loss of metrics of .* = 'low': expected a number"),
    ],
)
def test_updates_are_checked(wrong: Any, message: str, tmp_path: Path) -> None:
    run = {"out": tmp_path / "run", "threads": 1}
    text = refused(lambda: agewise.compare(task=Wrong(wrong), **run, **ASKED), message)
    assert "client 'client-" in text and "in round 1" in text
    cut = agewise.read_run(tmp_path / "run", task=Lines())
    assert (cut.policies[0].reported > 0).sum() >= 1, "the round before is kept"


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (0.5, "evaluate = 0.5: expected a dict"),
        ({}, "loss of evaluate = missing: expected a number"),
        ({"loss": 1, "samples": 0}, "samples of evaluate = 0: expected at least 1"),
        ({"loss": 1, "class_samples": [3], "class_correct": [4]}, r"class_correct of evaluate"),
        ({"loss": 1, "class_samples": [3]}, r"class_correct of evaluate = \[\]"),
    ],
)
def test_evaluations_are_checked(wrong: Any, message: str) -> None:
    refused(lambda: GuardedTask(Wrong(wrong, "evaluate"), 0).evaluate(np.zeros(3)), message)


def changed(**attributes: Any) -> Lines:
    task = Lines()
    for name, value in attributes.items():
        setattr(task, name, value)
    return task


@pytest.mark.parametrize(
    ("task", "message"),
    [
        (object(), "task = <object .*expected an object with a method initial"),
        (Lines, r"task = <class 'own_tasks.Lines'>: expected an object, Lines\(...\)"),
        (changed(clients=[]), r"clients of the task = \[\]: expected at least one"),
        (changed(clients=None), "clients of the task = None: expected a list of numbers"),
        (changed(clients={"a": 0}), "size of client 'a' = 0: expected a whole number"),
        (changed(clients=[3, 2.5]), "size of client 1 = 2.5: expected a whole number"),
        (changed(metric="f1"), "metric of the task = 'f1': expected 'accuracy' or 'loss'"),
        (changed(initial=lambda seed: [np.inf]), r"initial\(0\) = inf at place 0"),
        (changed(initial=lambda seed: []), r"initial\(0\) = list \[0\]"),
        (changed(tensors=[("w", [2])]), "tensors of the task = 2 numbers: expected shapes of 3"),
        (changed(sketch_range=(0, 4)), r"sketch_range of the task = \(0, 4\)"),
    ],
)
def test_tasks_are_checked(task: Any, message: str, tmp_path: Path) -> None:
    refused(lambda: agewise.compare(task=task, out=tmp_path / "run", **ASKED), message)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"data": "mnist"}, "data = 'mnist': expected none with a task of one's own"),
        ({"batch": 3}, "batch = 3: expected none"),
        ({"clients": 13}, "clients = 13: expected at most 12, the clients of the task"),
        ({"engine": "gpu"}, "engine = 'gpu': expected 'threads', 'processes' or 'ray'"),
        ({"task": None, "engine": "processes"}, "engine = 'processes': expected 'threads' without"),
        ({"schedule": "deadline"}, "schedule = deadline: expected"),
        ({"links": "fast"}, "links = fast: expected"),
        ({"unit": "hours"}, "unit = hours: expected"),
        ({"power": "3 W"}, "power = .*3 W.*: expected a number"),
        ({"power": -1}, r"power = -1(\.0)?: expected watts"),
        ({"link_power": 1.0}, "link_power = 1(.0)?: expected power beside it"),
        ({"policies": "random"}, "policies = 'random': expected a list of policies"),
        ({"aggregate": 3}, "aggregate = 3: expected the text of a rule, or a class"),
        ({"aggregate": "avrage"}, "avrage"),
        ({"aggregate": lambda: Mean()}, "name of the rule = '<lambda>': expected letters"),
    ],
)
def test_arguments_are_checked(more: dict[str, Any], message: str, tmp_path: Path) -> None:
    asked = {"task": Lines(), "out": tmp_path / "run"} | ASKED | more
    refused(lambda: agewise.compare(**asked), message)
    assert not (tmp_path / "run").exists()


def test_losses_are_asked_for_only_where_they_are_known(tmp_path: Path) -> None:
    asked = ASKED | {"policies": ["power-of-choice(d=6)"]}
    refused(
        lambda: agewise.compare(task=Classes(), out=tmp_path / "run", **asked),
        r"loss of client \d = unknown: expected a task with a method client_loss",
    )


def test_one_step_is_asked_for_where_there_is_one(tmp_path: Path) -> None:
    steps: list[int] = []

    class Steps(Classes):
        def train_step(self, client: int, parameters: Any, round: int, seed: int) -> Any:
            steps.append(client)
            return self.train(client, parameters, round, seed)

    asked = ASKED | {"policies": ["age-herding"], "seeds": 1}
    agewise.compare(task=Steps(), out=tmp_path / "run", **asked)
    assert sorted(steps) == list(range(9)), "the probes of the first round"


def test_a_rule_of_ones_own(tmp_path: Path) -> None:
    ours = agewise.compare(task=Lines(), out=tmp_path / "ours", **ASKED)
    own = agewise.compare(task=Lines(), aggregate=Mean, out=tmp_path / "own", **ASKED)
    assert own["random"].aggregation == "Mean"
    pairs = [(run["random"].mean("final_loss"), run) for run in (ours, own)]
    assert pairs[0][0] == pytest.approx(pairs[1][0], rel=1e-4)
    native = {**ASKED, "clients": 10, "model": "softmax", "local_work": "1 steps", "rounds": 2}
    assert agewise.compare(aggregate=Mean, out=tmp_path / "native", **native).finished


def test_what_a_rule_remembers_is_kept(tmp_path: Path) -> None:
    rule = Mean(beta=0.9)
    agewise.compare(task=Lines(), aggregate=rule, out=tmp_path / "whole", **ASKED)
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(LookupError):
        agewise.compare(task=Raising(file), aggregate=rule, out=tmp_path / "cut", **ASKED)
    file.unlink()
    agewise.resume_run(tmp_path / "cut", task=Raising(file), aggregate=rule, progress=False)
    same_bytes(tmp_path / "whole", tmp_path / "cut")


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda p: p[:2], r"model of Own = \[2\]: expected one array of 3 numbers"),
        (lambda p: p * np.nan, "model of Own = .*: expected one array of finite numbers"),
        (lambda p: None, "model of Own = None"),
    ],
)
def test_rules_are_checked(answer: Callable[[Any], Any], message: str, tmp_path: Path) -> None:
    class Own:
        def aggregate(self, parameters: Any, *_: Any) -> Any:
            return answer(parameters)

    refused(
        lambda: agewise.compare(task=Lines(), aggregate=Own, out=tmp_path / "run", **ASKED), message
    )


def test_a_task_that_cannot_be_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # As if cloudpickle were not installed.
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    task = changed(train_step=lambda *job: None)
    with pytest.raises(Exception, match="pickle") as raised:
        agewise.compare(task=task, engine="processes", out=tmp_path / "run", **ASKED)
    assert "engine='threads' needs none of that" in "".join(raised.value.__notes__)


def test_tasks_of_the_main_program(tmp_path: Path) -> None:
    """Without cloudpickle workers import the main program, as those of multiprocessing do."""
    program = tmp_path / "program.py"
    program.write_text(
        """
import sys
sys.modules["cloudpickle"] = None
import agewise, own_tasks

class Own(own_tasks.Lines):
    pass

GUARD
    found = agewise.compare(task=Own(), engine="processes", threads=1, **own_tasks.ASKED)
    print(found.finished)
"""
    )
    text = program.read_text()
    env = os.environ | {"PYTHONPATH": str(Path(__file__).parent)}
    for guard, expected in [('if __name__ == "__main__":', "True\n"), ("if True:", "")]:
        program.write_text(text.replace("GUARD", guard))
        done = subprocess.run(
            [sys.executable, str(program)],
            cwd=tmp_path,
            env=env,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.stdout == expected, done.stderr
    assert "asked to start worker processes in a worker process" in done.stderr


def test_workers_end_with_their_engine() -> None:
    engine = ProcessEngine(GuardedTask(Lines(), 0), 1)
    model = (1, np.zeros(3, dtype=np.float32))
    job = (3, model, 0, 7, False)
    first = engine.train(*job)
    [worker] = engine._running
    again = engine.train(*job)
    assert (first[0] == again[0]).all() and first[1:] == again[1:]
    assert engine.client_loss(3, model) > 0
    engine.close()
    with pytest.raises(WorkerEndedError):
        worker.call("evaluate", model)


def test_a_model_is_written_once_for_all_workers() -> None:
    shared = SharedModels(2, 3)
    one, two, three = ((number, np.full(3, number, dtype=np.float32)) for number in (1, 2, 3))
    place_of = shared.place_of
    with place_of(one) as first, place_of(one) as again, place_of(two) as other:
        assert first == again != other
        assert shared._rows[first].tolist() == [1] * 3 and shared._rows[other].tolist() == [2] * 3
    # The one that was used last stays, and what is in use is never overwritten.
    with place_of(two) as second, place_of(three) as third:
        assert (second, third) == (other, first)
        assert shared._rows[third].tolist() == [3] * 3
    # A number says what it is: nobody compares or copies again.
    with place_of((3, np.zeros(3, dtype=np.float32))) as place:
        assert place == third and shared._rows[place].tolist() == [3] * 3
    shared.close()
    shared.close()


def test_the_clients_of_a_round_share_their_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every model of a run is sent under one number, to whichever client."""
    sent: dict[int, bytes] = {}
    calls = 0
    trained = ThreadEngine.train

    def train(self: ThreadEngine, client: int, model: Model, *job: Any) -> Any:
        nonlocal calls
        calls += 1
        number, parameters = model
        assert not parameters.flags.writeable
        assert sent.setdefault(number, parameters.tobytes()) == parameters.tobytes()
        return trained(self, client, model, *job)

    monkeypatch.setattr(ThreadEngine, "train", train)
    asked = ASKED | {"policies": ["random"], "seeds": 1}
    agewise.compare(task=Lines(), out=tmp_path / "run", threads=1, **asked)
    # Five rounds of four clients, of which the first one trains twice.
    assert (len(sent), calls) == (5, 21)
    assert len(set(sent.values())) == 5


def test_ctrl_c_ends_it(tmp_path: Path) -> None:
    code = """
import agewise, os, own_tasks, signal, threading
signal.signal(signal.SIGINT, signal.default_int_handler)
for engine in ["threads", "processes"]:
    threading.Timer(1.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        agewise.compare(task=own_tasks.Lines(), engine=engine, rounds=10**6, progress=False)
    except KeyboardInterrupt:
        print("interrupted")
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parent)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.stdout == "interrupted\n" * 2, done.stderr


def test_progress_shows_what_each_worker_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agewise.callbacks.ProgressLines.EVERY", 0.0)
    asked = ASKED | {"progress": True, "engine": "processes", "threads": 2, "rounds": 10}
    agewise.compare(task=Lines(), out=tmp_path / "run", **asked)
    shown = capsys.readouterr().err
    assert re.search(r"^\d+ of 40 rounds; (random|oldest-first), seed [01]: round \d+", shown, re.M)
    assert re.search(r"^  worker process \d+: training client \d+ in round \d+$", shown, re.M)
