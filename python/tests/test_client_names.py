"""Selectors whose clients have names, and what else shortens a training loop."""

from __future__ import annotations

import copy
import pickle
from functools import partial
from typing import Any

import numpy as np
import pytest
from bad_calls import refused

import agewise
from agewise import Client, Selector

NAMES: list[Any] = ["ann", 10**18 + 7, ("site", 3), -5, frozenset({1})]


def test_clients_may_be_anything_that_can_be_hashed() -> None:
    selector, numbered = Selector("oldest-first", NAMES, 2, 1), Selector("oldest-first", 5, 2, 1)
    for _ in range(6):
        cohort, expected = selector.select(), numbered.select()
        assert list(cohort) == [NAMES[number] for number in expected]
        assert all(name in cohort for name in cohort) and "eve" not in cohort
        selector.report(cohort)
        numbered.report(expected)
    assert selector.names == NAMES and (selector.ages == numbered.ages).all()
    assert selector.metrics() == numbered.metrics()


def test_every_method_speaks_of_names() -> None:
    selector = Selector(
        "oldest-first", ["ann", "bob", "eve"], 1, sizes={"eve": 3, "ann": 1, "bob": 2}
    )
    assert list(selector.select(available={"eve"})) == ["eve"]
    for _ in range(2):
        selector.report([], failed=["eve"])
    assert list(selector.failed) == ["eve"]
    selector.leave("bob")
    assert selector.left == ["bob"]
    assert selector.admit(size=2.0, age=90, name="new") == "new"
    assert list(selector.select()) == ["new"] and selector.names[-1] == "new"
    assert selector.admit_all([(1.0, 0), (1.0, 0)], names=["x", "y"]) == "x"
    selector.report(cohort := selector.select(), losses=[0.5] * len(cohort))
    selector.set_size("ann", 5.0)
    probing = Selector("power-of-choice(d=3)", ["ann", "bob", "eve"], 1, seed=1)
    asked = probing.probes()["loss"]
    assert set(asked) <= {"ann", "bob", "eve"}
    probing.observe(asked, losses=np.arange(len(asked)))
    assert list(probing.select()) == [asked[-1]]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (partial(Selector, "random", ["ann", "ann"]), "clients = 'ann': expected each name once"),
        (partial(Selector, "random", [["ann"]]), "expected names that can be hashed"),
        (partial(Selector, "random", "ann"), "clients = 'ann': expected a number of clients, or"),
        (
            lambda: Selector("random", NAMES, 2).report(["eve"]),
            "clients = 'eve': expected one of the 5",
        ),
        (
            lambda: Selector("random", NAMES, 2).leave("eve"),
            "client = 'eve': expected one of the 5",
        ),
        (lambda: Selector("random", NAMES, 2).admit(), "name = None: expected a name for each new"),
        (
            lambda: Selector("random", NAMES, 2).admit(name=-5),
            "clients = -5: expected each name once",
        ),
        (lambda: Selector("random", 5, 2).admit(name="ann"), "name = .*'ann'.*: expected none"),
        (lambda: Selector("random", ["a"], 1, sizes={"b": 1}), "sizes = none of client 'a'"),
        (lambda: Selector("random", 3, 1).report([0], sizes=[0]), "sizes = 0.0: expected finite"),
        (
            lambda: Selector("random", 3, 1).report([0], sizes=[1, 2]),
            "sizes = 2 numbers: expected 1",
        ),
    ],
)
def test_wrong_names_are_named(call: Any, message: str) -> None:
    refused(call, message)


def test_numbers_come_as_int64_in_any_collection() -> None:
    selector = Selector("random", clients=9, cohort=3, seed=1)
    for available in [{1, 2, 5}, range(1, 6, 2), (k for k in [1, 2, 5]), dict.fromkeys([1, 2, 5]),
                      np.array([1, 2, 5], dtype=np.int64)]:  # fmt: skip
        cohort = copy.copy(selector).select(available=available)
        assert len(cohort) == 3 and cohort.ids.dtype == np.int64
    assert (cohort.ids - 10 < 0).all(), "no wrapping around"
    selector.report({int(client) for client in selector.select()}, failed=set())
    assert np.array(Selector("random", [7, 3, 5], 2).select().ids).dtype == np.int64


def test_sizes_are_learnt_from_reports() -> None:
    selector = Selector("probabilistic", clients=4, cohort=2, seed=3, weighting="data-size")
    selector.report([0, 1], sizes=[100, 300])
    other = Selector("probabilistic", clients=4, cohort=2, seed=3, weighting="data-size")
    other.report([0, 1])
    # Those who have not said theirs count like the mean of the others.
    expected = other.select(sizes=[100, 300, 200, 200])
    found = selector.select()
    assert found.ids.tolist() == expected.ids.tolist()
    assert found.weights.tolist() == expected.weights.tolist()
    selector.report([2], sizes=[800.0])
    later = Selector("probabilistic", clients=4, cohort=2, seed=3, weighting="data-size")
    later.load_state(selector.state())
    for one in (selector, later, pickle.loads(pickle.dumps(selector))):
        cohort = one.select()
        one.report([3, 1], sizes=[400, float("nan")])
        weights = dict(zip(cohort, one.select(), strict=False))
        assert weights, cohort
    assert selector.state() == later.state()
    selector.select(sizes=[1, 1, 1, 1])
    assert b"learnt" not in selector.state(), "sizes of all are known"


class Counting(Selector):
    """A selector with something of its own."""

    def __init__(self, *arguments: Any, label: str, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.label = label
        self.calls = 0

    def select(self, *arguments: Any, **more: Any) -> agewise.Cohort:
        self.calls += 1
        return super().select(*arguments, **more)


@pytest.mark.parametrize(
    "again", [copy.copy, copy.deepcopy, lambda s: pickle.loads(pickle.dumps(s))]
)
def test_subclasses_survive_copies(again: Any) -> None:
    first = Counting("random", ["ann", "bob", "eve"], 2, 7, label="mine")
    first.report(first.select())
    first.admit(name="new")
    second = again(first)
    assert type(second) is Counting and (second.label, second.calls) == ("mine", 1)
    assert list(second.select()) == list(first.select()) and second.names == first.names
    second.admit(name="other")
    assert "other" not in first.names and first.clients == 4


def test_everything_can_be_pickled() -> None:
    client = Client("markov-optimal", 100, 15, 3, seed=1)
    other = pickle.loads(pickle.dumps(client))
    assert (other.policy, other.client, other.initial_age) == (client.policy, 3, client.initial_age)
    ages = range(30)
    assert [other.takes_part(4, age) for age in ages] == [client.takes_part(4, age) for age in ages]
    digits = agewise.load_data()
    images = digits.train.take(range(100))
    small = agewise.Dataset("small", images, digits.test.take([1, 2]))
    again = pickle.loads(pickle.dumps(small))
    assert again.name == "small" and (again.train.pixels == images.pixels).all()
    assert again.test.labels.tolist() == small.test.labels.tolist()
    shares = agewise.partition(digits.train, clients=5, distribution="shards:2", seed=1)
    restored = pickle.loads(pickle.dumps(shares))
    assert (restored.histograms == shares.histograms).all() and len(restored) == 5
    trained = []
    for part in (shares, restored, copy.deepcopy(shares)):
        trainer = agewise.Trainer("softmax", seed=1)
        trainer.train(part.of(2), epochs=1)
        trained.append(trainer.parameters.tobytes())
    assert len(set(trained)) == 1, "the scale of the pixels is the same"


def test_sketches_of_state_dicts() -> None:
    rng = np.random.default_rng(1)
    before = {
        "conv.weight": rng.normal(size=(4, 3)),
        "norm.count": np.array(3),
        "head.weight": rng.normal(size=(3, 2)).astype(np.float32),
        "head.bias": np.zeros(3, dtype=np.float32),
        "norm.batches": np.array(7),
    }
    after = {name: value + 1 for name, value in before.items()}
    found = agewise.sketch(before, after, seed=1)
    names = ["head.weight", "head.bias"]
    joined = [np.concatenate([m[n].ravel() for n in names]) for m in (before, after)]
    assert found.tolist() == agewise.sketch(*joined, seed=1).tolist(), "the last two with fractions"
    named = agewise.sketch(before, after, arrays=["conv.weight"])
    assert len(named) == 12
    refused(
        lambda: agewise.sketch(before, after, arrays=["heed"]), "arrays = 'heed': expected arrays"
    )
    refused(lambda: agewise.sketch(before, {}), "after = .*: expected the arrays of before")
    refused(
        lambda: agewise.sketch(joined[0], joined[1], arrays=["x"]), "arrays = .*: expected none"
    )
