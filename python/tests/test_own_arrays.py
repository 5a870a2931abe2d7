"""Arrays of one's own as the data of a comparison."""

from __future__ import annotations

import csv
import inspect
import re
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bad_calls import refused
from test_own_policy import same_bytes

import agewise
from agewise.experiment import PARAMS

VISITS = Path(__file__).parents[1] / "examples/own/visits.csv"
DOCS = Path(__file__).parents[2] / "docs/python.md"
ASKED: dict[str, Any] = {
    "policies": ["random", "oldest-first"],
    "rounds": 4,
    "seeds": 2,
    "targets": [0.6],
    "progress": False,
}


def visits() -> tuple[Any, Any, Any]:
    """The features, the labels and the clients of a file."""
    with VISITS.open() as file:
        rows = list(csv.DictReader(file))
    features = [name for name in rows[0] if name not in ("site", "outcome")]
    x = np.array([[float(row[name]) for name in features] for row in rows])
    return x, np.array([int(row["outcome"]) for row in rows]), [row["site"] for row in rows]


def compared(**more: Any) -> agewise.ExperimentResult:
    return agewise.compare(**(ASKED | more))


def test_arrays_are_the_same_as_their_file(tmp_path: Path) -> None:
    arrays = compared(data=visits(), model="mlp:8", out=tmp_path / "arrays")
    asked = {"label": "outcome", "client": "site", "model": "mlp:8"}
    file = compared(data=str(VISITS), out=tmp_path / "file", **asked)
    assert arrays.title.startswith("own arrays, 24 clients, 4 per round, mlp:8 (4 > 8 > 3;")
    assert file.title.startswith("visits.csv, 24 clients, 4 per round")
    for policy in ASKED["policies"]:
        assert arrays[policy].means == file[policy].means
    layers = [{"kind": "dense", "units": 8}, {"kind": "relu"}, {"kind": "dense"}]
    layered = compared(data=visits(), model=layers, out=tmp_path / "layers")
    assert layered["random"].means == arrays["random"].means
    named = compared(
        data=str(VISITS),
        label="outcome",
        partition="clients:site",
        model="mlp:8",
        out=tmp_path / "named",
    )
    assert named["random"].means == arrays["random"].means


def test_a_run_with_arrays_is_extended_with_the_same_arrays(tmp_path: Path) -> None:
    compared(data=visits(), model="softmax", out=tmp_path / "run", seeds=1)
    agewise.extend_run(tmp_path / "run", data=visits(), seeds=2, progress=False)
    compared(data=visits(), model="softmax", out=tmp_path / "whole")
    same_bytes(tmp_path / "whole", tmp_path / "run")
    x, y, clients = visits()
    other = "data = arrays with the SHA-256 .*: expected those with which the run was begun"
    refused(lambda: agewise.resume_run(tmp_path / "run", data=(x + 1, y, clients)), other)
    with pytest.raises(ValueError, match="data = own arrays: expected one of") as raised:
        agewise.read_run(tmp_path / "run")
    assert "data=..." in "".join(raised.value.__notes__)


def test_every_dataset_is_data(tmp_path: Path) -> None:
    asked = {"model": "softmax", "rounds": 2, "seeds": 1}
    whole = compared(data=agewise.load_data("digits"), out=tmp_path / "set", **asked)
    named = compared(data="digits", out=tmp_path / "name", **asked)
    assert whole["random"].means == named["random"].means
    images = agewise.load_data("digits").train
    part = agewise.Dataset("part", images.take(range(900)), images.take(range(900, 1200)))
    found = compared(data=part, clients=9, cohort=3, out=tmp_path / "part", **asked)
    assert found.title.startswith("part, 9 clients, 3 per round")


def test_what_arrays_mean(tmp_path: Path) -> None:
    x, y, clients = visits()
    asked = {"rounds": 2, "seeds": 1, "policies": ["random"], "out": tmp_path / "run"}
    asked |= {"force": True, "progress": False}
    test = (x[:50], y[:50], clients[:50])
    lines = agewise.compare(data=(x, x[:, 0] * 0.37, clients), model="linear", **asked)
    assert lines.columns[1] == "mean loss", "labels with fractions are predicted"
    words = np.array(["no", "perhaps", "yes"])[y]
    named = agewise.compare(data=(x, words, clients), model="softmax", **asked)
    assert named["random"].final_accuracy is not None
    divided = agewise.compare(data=(x, y), partition="iid", clients=6, cohort=2, **asked)
    assert divided.params["clients"] == 6
    tested = agewise.compare(data=(x, y, clients), test=test, model="softmax", **asked)
    # As PyTorch has them: channels before rows and columns.
    images = np.random.default_rng(1).integers(0, 256, size=(200, 1, 8, 8), dtype=np.uint8)
    labels = images.mean(axis=(1, 2, 3)) > 127
    pictures = agewise.compare(data=(images, labels, np.arange(200) % 10), model="mlp:4", **asked)
    assert "mlp:4 (8x8x1 > 4 > 2;" in pictures.title and tested.finished
    ids = [10**15 + k % 7 for k in range(len(y))]
    assert agewise.compare(data=(x, y, ids), model="softmax", **asked).params["clients"] == 7


X, Y = np.ones((4, 2)), np.array([0, 1, 0, 1])
CLIENTS = ["ann", "ann", "bob", "bob"]
NAN = X.copy()
NAN[2, 1] = np.nan
LABELS = {"data": (X, [0, 1, 0, np.nan], CLIENTS)}
TEST = (X, Y)
UNKNOWN = {"data": (X, Y), "test": TEST, "partition": "clients"}
THREE = {"data": (X, Y, CLIENTS), "test": TEST, "clients": 3}
FILE = {"data": str(VISITS), "label": "outcom"}
STRANGE = {"data": (X, Y, CLIENTS), "test": (X[:2], Y[:2], ["ann", "eve"])}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"data": (NAN, Y, CLIENTS)}, r"data, row 2, client 'bob': x\[2, 1\] = nan: expected fin"),
        ({"data": (X, Y[:3])}, r"data \(y\) = \[3\]: expected 4 labels, one for each row of x"),
        ({"data": (X, Y, CLIENTS[:2])}, r"data \(client_ids\) = \[2\]: expected 4 client ids"),
        ({"data": (X, Y, ["ann", "", "bob", "bob"])}, r"client_ids\[1\] = '': expected the name"),
        ({"data": (X, Y, [1, 2, np.nan, 1])}, r"client_ids\[2\] = nan: expected the name"),
        ({"data": (X[:0], Y[:0])}, "data = no samples: expected at least one"),
        ({"data": (X[:, 0], Y)}, r"data \(x\) = float64 \[4\]: expected a table of numbers"),
        ({"data": (X.astype(str), Y)}, r"data \(x\) = <U.* \[4, 2\]: expected a table of numbers"),
        ({"data": (np.array([[1, "x"], [2, 3]], dtype=object), [0, 1])}, r"x\[0, 1\] = 'x'"),
        ({"data": (X,)}, r"expected arrays \(x, y\) or \(x, y, client_ids\)"),
        (LABELS, r"data, row 3, client 'bob': y\[3\] = nan: expected a class or a finite number"),
        (
            {"data": (X, Y), "test": (X, Y + 5)},
            r"test, row 0: y\[0\] = 5: expected one of the 2 cl",
        ),
        ({"data": (X, Y), "test": (X[:, :1], Y)}, r"test \(x\) = samples of .*, as in data"),
        (STRANGE, r"test: client_ids\[1\] = 'eve': expected one of the 2 clients"),
        ({"data": (X, Y), "label": "bought"}, "label = bought: expected none beside arrays"),
        ({"data": (X, Y / 4), "loss": "cross-entropy"}, r"y\[1\] = 0.25: expected classes"),
        ({"data": (X, ["a", "b", "a", "b"]), "loss": "squared"}, r"y\[0\] = .*'a'.*: expected num"),
        (UNKNOWN, r"partition = clients: .* \(client=COLUMN names the column"),
        (THREE, "clients = 3: expected a whole number from 1 to 2"),
        ({"data": agewise.load_data(), "test": TEST}, "expected none, as the data set has test im"),
        (FILE, r"visits.csv: found no column outcom \(label\); expected one of"),
    ],
)
def test_wrong_arrays_are_named(given: Any, message: str, tmp_path: Path) -> None:
    out = tmp_path / "run"
    refused(partial(agewise.compare, out=out, policies=["random"], **given), message)
    assert not out.exists(), "nothing was written"


def test_every_argument_has_a_row_in_the_docs() -> None:
    """The signatures are those of the parameters that the compiled part knows, and of the docs."""
    known = {key for preset in agewise.presets() for key in preset.params}
    assert known - {"policies"} <= set(PARAMS)
    listed = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", DOCS.read_text(), re.MULTILINE)
    documented = {name for row in listed for name in re.findall(r"\w+", row)}
    for function in (agewise.compare, agewise.simulate):
        parameters = inspect.signature(function).parameters
        assert not any(p.kind is p.VAR_KEYWORD for p in parameters.values())
        assert set(parameters) <= documented, set(parameters) - documented


def test_results_as_dataframes(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    found = compared(data=visits(), model="softmax", out=tmp_path / "run")
    frame, rounds = found.to_dataframe(), found.rounds_dataframe()
    assert list(frame.index) == ASKED["policies"] and frame.loc["random", "runs"] == 2
    assert frame.loc["random", "final_accuracy"] == found["random"].final_accuracy
    assert frame.loc["random", "final_accuracy_half_width"] > 0
    assert len(rounds) == 2 * 2 * 4 and {"policy", "seed", "round", "accuracy"} <= set(rounds)
    played = agewise.simulate(policies=["random"], rounds=30, seeds=2, seed=5)
    rounds = played.rounds_dataframe()
    assert rounds.groupby("seed").selected.sum().tolist() == [450, 450]
    assert rounds.seed.unique().tolist() == [5, 6]
