"""Data sets, partitions and the trainer."""

from __future__ import annotations

import copy
import pickle
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from bad_calls import refused

import agewise


@pytest.fixture(scope="module")
def digits() -> agewise.Dataset:
    return agewise.load_data()


def test_images_have_their_pixels(digits: agewise.Dataset) -> None:
    train = digits.train
    assert train.pixels.shape == (6000, 28, 28, 1) and train.labels.shape == (6000,)
    some = train.take([5, 3, 5])
    assert (some.pixels == train.pixels[[5, 3, 5]]).all() and (
        some.labels == train.labels[[5, 3, 5]]
    ).all()
    assert some.take([1]).labels == train.labels[[3]]
    assert len(train.take([])) == 0


def test_own_images_train_as_those_of_the_set(digits: agewise.Dataset) -> None:
    copy = agewise.Images(digits.train.pixels[..., 0], digits.train.labels)
    test = agewise.Images(digits.test.pixels, digits.test.labels, like=copy)
    first, second = agewise.Trainer("softmax"), agewise.Trainer("softmax")
    assert first.train(digits.train, 1).loss == second.train(copy, 1).loss
    assert first.parameters.tobytes() == second.parameters.tobytes()
    assert first.evaluate(digits.test).loss == second.evaluate(test).loss


def test_partitions_share_everything(digits: agewise.Dataset) -> None:
    shares = agewise.partition(digits.train, 30, "dirichlet:0.1", sizes="zipf:1.5", seed=3)
    all_indices = np.concatenate([shares.indices(k) for k in range(30)])
    assert sorted(all_indices) == list(range(6000))
    for client in [0, 17, 29]:
        labels = np.bincount(shares.of(client).labels, minlength=10)
        assert (labels == shares.histograms[client]).all()
        assert labels.sum() == shares.sizes[client] == len(shares.of(client))


def test_the_parameters_are_the_memory_that_is_trained(digits: agewise.Dataset) -> None:
    trainer = agewise.Trainer("2nn", seed=2)
    array, views = trainer.parameters, trainer.arrays()
    assert np.shares_memory(trainer.parameters, array)
    before = array.copy()
    trainer.train(digits.train, steps=3, batch=10)
    assert (array != before).any() and (array == trainer.parameters).all()
    assert all(np.shares_memory(view, array) for view in views.values())
    assert sum(view.size for view in views.values()) == array.size == 199_210
    views["fc3.bias"][:] = 7
    assert (trainer.state_dict()["fc3.bias"] == 7).all()
    trainer.parameters = before
    assert np.shares_memory(trainer.parameters, array) and (array == before).all()
    shape = trainer.parameters
    shape.shape = (10, 19_921)
    assert trainer.parameters.shape == (199_210,)
    trainer.reset(2)
    assert (array == before).all()


def test_convolutions_are_views_in_the_shape_of_pytorch() -> None:
    trainer = agewise.Trainer("cnn", seed=1)
    views, copies = trainer.arrays(), trainer.state_dict()
    for name in ["conv1.weight", "conv2.weight", "conv1.bias", "fc2.weight"]:
        assert (views[name] == copies[name]).all(), name
    # Behind the convolutions: 7 x 7 pixels with 64 channels side by side, where PyTorch has 64
    # planes.
    planes = copies["fc1.weight"].reshape(512, 64, 7, 7).transpose(0, 2, 3, 1)
    assert (views["fc1.weight"] == planes.reshape(512, -1)).all()


def test_tensors_come_back(digits: agewise.Dataset) -> None:
    first, second = agewise.Trainer("cnn", seed=1), agewise.Trainer("cnn", seed=2)
    tensors = first.state_dict()
    second.load_state_dict(tensors)
    assert second.parameters.tobytes() == first.parameters.tobytes()
    before = second.parameters.copy()
    wrong = [
        {**tensors, "extra": tensors["fc2.bias"]},
        {name: tensor for name, tensor in tensors.items() if name != "fc2.bias"},
        {**tensors, "fc2.bias": tensors["fc2.bias"][:-1]},
        {**tensors, "fc2.bias": np.full(10, np.nan)},
    ]
    for bad in wrong:
        with pytest.raises(ValueError):
            second.load_state_dict(bad)
        assert (second.parameters == before).all()


def test_a_step_is_the_gradient_of_the_softmax(digits: agewise.Dataset) -> None:
    """One step of a convex model against NumPy."""
    some = digits.train.take(np.arange(40))
    trainer = agewise.Trainer("softmax", seed=3)
    scores = trainer.scores(some).astype(np.float64)
    pixels = some.pixels.reshape(40, -1) / 255.0
    everything = digits.train.pixels / 255.0
    x = (pixels - everything.mean()) / everything.std()
    weights, bias = (
        trainer.state_dict()[name].astype(np.float64) for name in ["fc1.weight", "fc1.bias"]
    )
    # Floats of 32 bits on one side: sums of 784 products agree to about 1e-5.
    assert np.allclose(scores, x @ weights.T + bias, atol=1e-4)
    chances = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    chances[np.arange(40), some.labels] -= 1
    trainer.train(some, steps=1, batch=40, lr=0.5)
    after = trainer.state_dict()
    assert np.allclose(after["fc1.weight"], weights - 0.5 * chances.T @ x / 40, atol=1e-5)
    assert np.allclose(after["fc1.bias"], bias - 0.5 * chances.mean(0), atol=1e-6)


def test_evaluation_counts(digits: agewise.Dataset) -> None:
    trainer = agewise.Trainer("softmax")
    trainer.train(digits.train, 2)
    found = trainer.evaluate(digits.test)
    hits = trainer.scores(digits.test).argmax(1) == digits.test.labels
    assert found.samples == 1000 and found.accuracy == hits.mean()
    for digit in range(10):
        assert found.class_accuracy[digit] == pytest.approx(
            hits[digits.test.labels == digit].mean()
        )
    nothing = trainer.evaluate(digits.test.take([]))
    assert nothing.samples == 0 and np.isnan(nothing.accuracy)


def test_the_same_call_gives_the_same_bytes(digits: agewise.Dataset) -> None:
    def trained(**task: int) -> bytes:
        trainer = agewise.Trainer("2nn", seed=1)
        trainer.train(digits.train.take(range(100)), epochs=1, batch=10, **task)
        return trainer.parameters.tobytes()

    assert trained(seed=1, round=2, client=3) == trained(seed=1, round=2, client=3)
    results = {trained(), trained(seed=1), trained(round=1), trained(client=1)}
    assert len(results) == 4


def test_other_threads_run_while_one_trains(digits: agewise.Dataset) -> None:
    """Holding the interpreter for the whole call would let this thread run at most once, at its
    beginning."""
    trainer = agewise.Trainer("cnn")
    begun, ended = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        trainer.train(digits.train, steps=40, batch=50)
        ended.set()

    thread = threading.Thread(target=work)
    thread.start()
    begun.wait()
    turns = 0
    while not ended.is_set():
        time.sleep(0.001)
        turns += 1
    thread.join()
    assert turns > 20


def test_training_one_trainer_twice_at_once_is_refused(digits: agewise.Dataset) -> None:
    trainer = agewise.Trainer("cnn")
    errors: list[str] = []
    barrier = threading.Barrier(2)

    def work() -> None:
        barrier.wait()
        try:
            trainer.train(digits.train, steps=60, batch=50)
        except (RuntimeError, ValueError) as error:
            errors.append(str(error))

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(errors) == 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda d: agewise.load_data("digit"), r"did you mean digits\?"),
        (
            lambda d: agewise.load_data("digits", scale="big"),
            "pixels = big: expected unit or standardised",
        ),
        (lambda d: agewise.partition(d.train, 0), "clients = 0"),
        (lambda d: agewise.partition(d.train, 7000), "clients = 7000"),
        (lambda d: agewise.partition(d.train, 10, "dirichlet:-1"), "dirichlet:-1"),
        (lambda d: agewise.partition(d.train.take([1, 2]), 2), "images = 2 of 6000"),
        (lambda d: agewise.partition(d.train, 10).of(10), "client = 10: expected at most 9"),
        (lambda d: agewise.partition(d.train, 10).of(-1), "client = -1"),
        (lambda d: d.train.take([6000]), "indices = 6000"),
        (lambda d: d.train.take([0.5]), "indices"),
        (lambda d: agewise.Images(np.zeros((2, 28, 28)), [0, 1]), "pixels = float64"),
        (lambda d: agewise.Images(np.zeros((2, 28, 28), np.uint8), [0, 11]), r"labels\[1\] = 11"),
        (lambda d: agewise.Images(np.zeros((2, 28, 28), np.uint8), [0, 300]), "labels"),
        (lambda d: agewise.Images(np.zeros((2, 28, 28), np.uint8), [0]), "pixels"),
        (lambda d: agewise.Trainer("softmax", classes=0), "classes = 0"),
        (lambda d: agewise.Trainer("softmax", shape=(28, 28)), "shape"),
        (lambda d: agewise.Trainer("cnn-cifar", shape=(20, 20, 3)), "24 x 24"),
        (lambda d: agewise.Trainer("softmax", shape=(32, 32, 3)).train(d.train), "data = "),
        (lambda d: agewise.Trainer("softmax", classes=5).train(d.train), "classes = 10"),
        (
            lambda d: agewise.Trainer("softmax").train(d.train, 0),
            "epochs = 0: expected a whole number, 1 or more",
        ),
        (lambda d: agewise.Trainer("softmax").train(d.train, 1, steps=1), "steps = 1"),
        (lambda d: agewise.Trainer("softmax").train(d.train, 1, 0), "batch = 0"),
        (
            lambda d: agewise.Trainer("softmax").train(d.train, 1, -4),
            "batch = -4: expected a whole number, 0 or more",
        ),
        (lambda d: agewise.Trainer("softmax").train(d.train, 1, lr=-1), "lr = -1"),
        (
            lambda d: agewise.Trainer("softmax").train(d.train, 1, lr=float("nan")),
            "lr = nan",
        ),
        (
            lambda d: agewise.Trainer("softmax").train(d.train, 1, lr="fast"),
            'lr = "fast": expected a number',
        ),
        (
            lambda d: agewise.Trainer("softmax").train(d.train.take([])),
            "data = 0 images: expected at least 1",
        ),
        (lambda d: setattr(agewise.Trainer("softmax"), "parameters", [1, 2]), "parameters = "),
        (lambda d: agewise.average(np.zeros(2), [], []), "model = "),
        (
            lambda d: agewise.Trainer("softmax").train(d),
            "data = Dataset.*expected Images; a Dataset has two",
        ),
        (lambda d: agewise.partition(d, 10), "images = Dataset"),
        (lambda d: agewise.partition(d.train, 10).of(2**63), "client = 9223372036854775808"),
        (lambda d: agewise.Images(np.zeros((2, 28, 28), np.uint8), [0.5, 1.7]), "labels"),
        (lambda d: agewise.Trainer("softmax", shape=5), "shape = 5"),
        (lambda d: agewise.average(np.zeros(2, np.float32)[::-1], [], []), "model: expected"),
    ],
)
def test_bad_input_is_named(
    digits: agewise.Dataset, call: Callable[[agewise.Dataset], object], message: str
) -> None:
    refused(lambda: call(digits), message)


def test_altered_data_are_used_and_warned_of(tmp_path: Path) -> None:
    def write(name: str, *shape: int) -> None:
        header = bytes([0, 0, 8, len(shape)]) + b"".join(n.to_bytes(4, "big") for n in shape)
        values = np.arange(np.prod(shape), dtype=np.uint64) % 10
        (tmp_path / name).write_bytes(header + values.astype(np.uint8).tobytes())

    for name, count in (("train", 60_000), ("t10k", 10_000)):
        write(f"{name}-images-idx3-ubyte", count, 28, 28)
        write(f"{name}-labels-idx1-ubyte", count)
    with pytest.warns(UserWarning, match="SHA-256 .*`agewise data fetch mnist`") as caught:
        assert len(agewise.load_data("mnist", tmp_path).train) == 60_000
    assert len(caught) == 4 and caught[0].filename == __file__
    with pytest.warns(UserWarning, match="is not that of the published mnist") as caught:
        agewise.compare(
            data="mnist", data_folder=tmp_path, model="softmax", local_work="1 steps",
            policies=["random"], rounds=1, seeds=1, out=tmp_path / "run", progress=False,
        )  # fmt: skip
    assert caught[0].filename == __file__


def test_a_missing_data_set_is_an_os_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGEWISE_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    refused(
        lambda: agewise.load_data("cifar-100", tmp_path),
        "name = cifar-100: expected its files in one of the folders .*; folder names",
        OSError,
    )
    refused(
        lambda: agewise.compare(data="cifar-100", out=tmp_path / "run"),
        "data = cifar-100: expected its files in one of the folders .*; data_folder names",
        OSError,
    )


def test_trainers_are_copied_with_their_parameters(digits: agewise.Dataset) -> None:
    trainer = agewise.Trainer("softmax", seed=1)
    trainer.train(digits.train, steps=3)
    for other in [copy.copy(trainer), copy.deepcopy(trainer), pickle.loads(pickle.dumps(trainer))]:
        assert (other.parameters == trainer.parameters).all()
        assert not np.shares_memory(other.parameters, trainer.parameters)
        other.train(digits.train, steps=1)
    assert (agewise.Trainer("softmax", seed=1).parameters != trainer.parameters).any()


def test_averages(digits: agewise.Dataset) -> None:
    generator = np.random.default_rng(1)
    updates = [generator.normal(size=1000).astype(np.float32) for _ in range(7)]
    weights = generator.random(7)
    weights /= weights.sum()
    model = np.zeros(1000, dtype=np.float32)
    agewise.average(model, updates, weights)
    # Seven terms of 32 bits.
    assert np.allclose(model, np.average(updates, axis=0, weights=weights), atol=1e-6)
    old = model.copy()
    for bad in [np.full(1000, np.nan, np.float32), np.zeros(999, np.float32)]:
        with pytest.raises(ValueError, match=r"updates\[1\]"):
            agewise.average(model, [updates[0], bad], [0.5, 0.5])
        assert (model == old).all()
    with pytest.raises(ValueError, match="share memory with the model"):
        agewise.average(model, [model], [1.0])
    # Weights that lack half: the other half stays.
    agewise.average(model, (update for update in updates[:1]), [0.5])
    assert np.allclose(model, 0.5 * updates[0] + 0.5 * old, atol=1e-6)
