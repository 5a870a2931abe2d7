"""Tasks from models of other libraries. They run where the library is installed."""

from __future__ import annotations

import pickle
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bad_calls import refused
from test_own_policy import same_bytes

import agewise

ASKED: dict[str, Any] = {
    "policies": ["random", "age-herding", "active"],
    "cohort": 3,
    "rounds": 6,
    "seeds": 1,
    "progress": False,
}


def clouds(seed: int, samples: int) -> tuple[Any, Any]:
    """Points around three centres, and their classes."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(3, size=samples)
    centres = np.array([[2, 0], [-1, 2], [-1, -2]])
    return (centres[labels] + rng.normal(size=(samples, 2))).astype(np.float32), labels


SITES = {f"site {number}": clouds(number, 20 + number) for number in range(8)}
TEST = clouds(99, 300)


def compared(task: Any, folder: Path, **more: Any) -> agewise.ExperimentResult:
    """A comparison in threads and in processes, which are the same."""
    found = agewise.compare(task=task, out=folder / "threads", **(ASKED | more))
    agewise.compare(
        task=task, out=folder / "processes", engine="processes", threads=2, **(ASKED | more)
    )
    same_bytes(folder / "threads", folder / "processes")
    assert found.caution is None, found.caution
    return found


@pytest.mark.parametrize("name", ["SGDClassifier", "Perceptron", "MLPClassifier"])
def test_classifiers_of_scikit_learn(name: str, tmp_path: Path) -> None:
    sklearn = pytest.importorskip("agewise.sklearn", exc_type=ImportError)
    from sklearn import linear_model, neural_network

    estimators = {
        "SGDClassifier": linear_model.SGDClassifier(loss="log_loss"),
        "Perceptron": linear_model.Perceptron(),
        "MLPClassifier": neural_network.MLPClassifier((8,), learning_rate_init=0.05),
    }
    task = sklearn.PartialFitTask(estimators[name], SITES, TEST, epochs=2, name="clouds")
    found = compared(task, tmp_path)
    accuracy = found["random"].final_accuracy
    assert accuracy is not None and accuracy > 0.6, "a third is chance"
    assert found.title.startswith(f"clouds, 8 clients, 3 per round, {name}")


def test_a_regressor_of_scikit_learn(tmp_path: Path) -> None:
    sklearn = pytest.importorskip("agewise.sklearn", exc_type=ImportError)
    from sklearn.linear_model import SGDRegressor

    lines = [(points, points @ [1.0, 2.0] + 3) for points, _ in SITES.values()]
    task = sklearn.PartialFitTask(SGDRegressor(), lines, lines[0])
    found = compared(task, tmp_path, targets=[2.0])
    loss = found["random"].mean("final_loss")
    assert loss is not None and loss < 5, "that of the first model is about 16"


def test_what_scikit_learn_is_given_is_checked() -> None:
    sklearn = pytest.importorskip("agewise.sklearn", exc_type=ImportError)
    from sklearn.linear_model import LogisticRegression, SGDClassifier, SGDRegressor

    made, (points, labels) = sklearn.PartialFitTask, TEST
    refused(lambda: made(LogisticRegression(), SITES, TEST), "expected an estimator with partial")
    refused(lambda: made(SGDClassifier(), [], TEST), r"client_data = \[\]: expected at least one")
    refused(
        lambda: made(SGDClassifier(), {"a": (points, labels[:3])}, TEST),
        r"data of client 'a' = \[300, 2\] and \[3\]: expected a table of inputs",
    )
    wrong = points.copy()
    wrong[7, 1] = np.nan
    refused(
        lambda: made(SGDClassifier(), [(wrong, labels)], TEST),
        "data of client 0 = not finite in row 7",
    )
    wide = np.hstack([points, points])
    refused(
        lambda: made(SGDClassifier(), [(wide, labels)], TEST), "client 0 = 4 columns: expected 2"
    )
    strange = (points, labels + 1)
    refused(
        lambda: made(SGDClassifier(), SITES, strange), r"test, row \d+: target .*3.*: expected one"
    )
    unknown = (points, np.where(np.arange(300) == 5, np.nan, 1.0))
    refused(lambda: made(SGDRegressor(), [unknown], TEST), "client 0, row 5: target nan: expected")


def network() -> Any:
    """A network with dropout and batch normalisation, which depend on seeds and on statistics."""
    import torch

    return torch.nn.Sequential(
        torch.nn.Linear(2, 16),
        torch.nn.BatchNorm1d(16),
        torch.nn.ReLU(),
        torch.nn.Dropout(0.1),
        torch.nn.Linear(16, 3),
    )


def torch_task(model: Any = network, data: Any = SITES, test: Any = TEST, **more: Any) -> Any:
    module = pytest.importorskip("agewise.torch", exc_type=ImportError)
    import torch

    return module.TorchTask(model, torch.nn.functional.cross_entropy, data, test, **more)


@pytest.mark.parametrize("local", ["2 epochs", "5 steps"])
def test_a_network_of_pytorch(local: str, tmp_path: Path) -> None:
    task = torch_task(local=local, batch=8, device="cpu", name="clouds")
    found = compared(task, tmp_path)
    accuracy = found["random"].final_accuracy
    assert accuracy is not None and accuracy > 0.6, "a third is chance"
    assert found.title.startswith("clouds, 8 clients, 3 per round, Sequential")
    model = (tmp_path / "threads/models/random.safetensors").read_bytes()
    assert b'"4.weight"' in model and b'"1.running_mean"' in model


def test_what_pytorch_trains(tmp_path: Path) -> None:
    task = torch_task(device="cpu", batch=8)
    import torch
    from torch.utils.data import Dataset

    class Rows(Dataset):  # type: ignore[misc,unused-ignore]
        def __len__(self) -> int:
            return 21

        def __getitem__(self, row: int) -> Any:
            return torch.as_tensor(TEST[0][row]), torch.as_tensor(TEST[1][row])

    first, other = task.initial(1), task.initial(2)
    assert first.dtype == np.float32 and (first == task.initial(1)).all() and (first != other).any()
    trained, metrics = task.train("site 3", first.copy(), 0, 7)
    assert metrics["samples"] == 23 and metrics["steps"] == 3
    assert (trained != first).any() and task.train_step("site 3", first, 0, 7)[1]["steps"] == 1
    state = task.state_dict(trained)
    net = network()
    net.load_state_dict(state)
    assert (
        np.concatenate([v.numpy().ravel() for k, v in state.items() if "num" not in k]) == trained
    ).all()
    assert pickle.loads(pickle.dumps(task)).initial(1).tolist() == first.tolist()
    fixed = torch_task(net, [Rows()], Rows(), device="cpu", batch=4, local="5 steps")
    assert (fixed.initial(5) == trained).all(), "a module keeps its weights"
    torch.manual_seed(3)
    number = torch.rand(1)
    torch.manual_seed(3)
    begun, report = fixed.train(0, trained.copy(), 0, 1)
    assert torch.rand(1) == number, "the program's random numbers are left alone"
    assert (fixed.train(0, trained.copy(), 0, 1)[0] == begun).all()
    assert report["samples"] == 20 and (begun != trained).any()
    assert (fixed.initial(0) == trained).all(), "the user's module is left alone"
    assert fixed.evaluate(trained)["samples"] == 21


def test_what_pytorch_is_given_is_checked() -> None:
    points, labels = TEST
    nan = points.copy()
    nan[7, 1] = np.nan
    torch_task()
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"model": 3}, "model = 3: expected a module"),
        ({"data": [(points, labels[:2])]}, "data of client 0 = 2 targets: expected as many"),
        ({"data": {"a": 5}}, "data of client 'a' = 5: expected a data set with a length"),
        ({"test": (points[:0], labels[:0])}, "test = no samples: expected at least one"),
        ({"local": "2 weeks"}, "local = '2 weeks': expected for example '2 epochs'"),
        ({"batch": 0}, "batch = 0"),
        ({"data": {"a": (nan, labels)}}, "data of client 'a', row 7: inputs not finite"),
        ({"data": [(points[:, :1], labels)]}, r"client 0 = inputs of shape \[1\]: expected \[2\]"),
        (
            {"data": {"a": (points, labels + 1)}},
            r"client 'a', row \d+: 3: expected a class from 0 to 2",
        ),
        ({"test": (points, labels - 1)}, r"test, row \d+: -1: expected a class from 0 to 2"),
    ]
    for arguments, message in wrong:
        refused(partial(torch_task, **arguments), message)


@pytest.mark.parametrize("name", ["numpy_model", "torch_model"])
def test_the_examples(name: str, tmp_path: Path) -> None:
    """From a file with a client column to a verdict, as the examples show it."""
    if name == "torch_model":
        pytest.importorskip("torch")
    program = Path(__file__).parents[1] / f"examples/own/{name}.py"
    lines = program.read_text().splitlines()
    assert name == "numpy_model" or len(lines) < 40
    columns = ["site", "outcome"] if name == "torch_model" else []
    command = [sys.executable, str(program), str(program.with_name("visits.csv")), *columns]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert "24 clients, 4 per round" in done.stdout
    assert "Measured by mean accuracy over the rounds" in done.stdout
    assert (tmp_path / "runs/compare-001/report.html").exists()
