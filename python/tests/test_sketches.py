"""Sketches of updates, and policies that look at them."""

from __future__ import annotations

import dataclasses
from functools import partial

import numpy as np
import pytest
from bad_calls import refused

import agewise


def test_few_numbers_are_kept_and_many_are_folded() -> None:
    before, after = np.arange(6.0).reshape(2, 3), np.array([[0.5, 1, 2], [3, 4, 9]])
    assert agewise.sketch(before, after).tolist() == [0.5, 0, 0, 0, 0, 4]
    zeros = np.zeros(1000)
    for place in [0, 17, 999]:
        one = np.zeros(1000)
        one[place] = 2.0
        folded = agewise.sketch(zeros, one, width=10, seed=3)
        assert folded.shape == (10,) and np.abs(folded).sum() == 2.0 == np.abs(folded).max()


def test_a_fold_is_linear_and_depends_on_the_seed_alone() -> None:
    numbers = np.random.default_rng(1)
    # Small whole numbers: their sums are exact.
    one, other = numbers.integers(-50, 50, (2, 3000)).astype(np.float32)
    zeros = np.zeros(3000, dtype=np.float32)

    def fold(change: np.ndarray, seed: int = 5) -> np.ndarray:
        return agewise.sketch(zeros, change, seed=seed)

    assert (fold(one + other) == fold(one) + fold(other)).all()
    assert (agewise.sketch(other, one + other, seed=5) == fold(one)).all()
    assert (fold(one) != fold(one, seed=6)).any()
    # A number is the sum of about 6 signs, and 0 with a probability of about 1/6: some 425 of 512
    # are not, give or take 9.
    assert 380 < np.count_nonzero(fold(np.ones(3000))) < 470


def test_the_output_layer_of_a_trainer() -> None:
    trainer = agewise.Trainer("cnn", seed=1)
    layer = trainer.parameters[trainer.output_layer]
    names = list(trainer.arrays())[-2:]
    last = [trainer.arrays()[name].reshape(-1) for name in names]
    assert (layer == np.concatenate(last)).all() and len(names) == 2
    assert np.shares_memory(layer, trainer.parameters)


@pytest.mark.parametrize(
    ("before", "after", "options", "message"),
    [
        ([1.0], [np.nan], {}, r"after\[0\] = nan: expected a finite number"),
        ([1.0, np.inf], [1.0, 2.0], {}, r"before\[1\] = inf"),
        ([1.0], [1e300], {}, r"after\[0\] = inf"),
        ([-3e38], [3e38], {}, "expected changes that fit into float32"),
        ([1.0], [1.0, 2.0], {}, r"after = shape \[2\]: expected \[1\]"),
        ([], [], {}, "before = .*at least one"),
        (["a"], [1.0], {}, "before = .*expected an array of numbers"),
        ([[1.0], [1.0, 2.0]], [1.0], {}, "before = .*expected an array of numbers"),
        ([1.0], [1.0], {"width": 0}, "width = 0: expected a whole number, 1 or more"),
        ([1.0], [1.0], {"width": 1.5}, "width = 1.5"),
        ([1.0], [1.0], {"seed": -1}, "seed = -1"),
    ],
)
def test_what_is_no_update_is_named(
    before: object, after: object, options: dict[str, int], message: str
) -> None:
    refused(lambda: agewise.sketch(before, after, **options), message)


#: Three kinds of clients, each with a direction of its own.
DIRECTIONS = np.array([[1, 0], [-0.5, 0.9], [-0.5, -0.9]], dtype=np.float32)


def cohorts(policy: str, rounds: int, *, told: bool = True) -> list[list[int]]:
    """Cohorts of 3 of 12 clients. Four neighbours have the same direction."""
    selector = agewise.Selector(policy, 12, 3, seed=3)
    found = []
    for _ in range(rounds):
        ids = selector.select().ids
        selector.report(ids, sketches=DIRECTIONS[ids // 4] if told else None)
        found.append(ids.tolist())
    return found


def has_one_of_each_kind(cohort: list[int]) -> bool:
    return sorted(client // 4 for client in cohort) == [0, 1, 2]


def test_reported_sketches_change_cohorts_once_half_of_the_clients_have_one() -> None:
    herded, oldest = cohorts("age-herding", 14), cohorts("oldest-first", 14)
    assert herded[:2] == oldest[:2] and herded[2:] != oldest[2:]
    assert cohorts("age-herding", 14, told=False) == oldest
    # Balance means one of each kind, once all are known. With this seed oldest-first never has
    # that.
    assert all(has_one_of_each_kind(cohort) for cohort in herded[5:])
    assert not any(has_one_of_each_kind(cohort) for cohort in oldest[5:])
    assert cohorts("divfl", 14) != cohorts("divfl", 14, told=False)
    assert cohorts("clustered(by=2)", 14) != cohorts("clustered(by=2)", 14, told=False)


def test_answers_before_the_first_round() -> None:
    selector = agewise.Selector("age-herding", 12, 3, seed=3)
    assert not has_one_of_each_kind(selector.select().ids.tolist())
    assert selector.needs == agewise.Needs(
        training=True, loss=None, loss_squares=False, update_sketches=True
    )
    assert selector.probes([3, 5])["update-step"].tolist() == [3, 5]
    even = selector.probes(np.arange(12) % 2 == 0)
    assert even["update-step"].tolist() == [0, 2, 4, 6, 8, 10]
    assert list(even) == ["update-step"]
    asked = selector.probes()["update-step"]
    assert asked.dtype == np.int64 and asked.tolist() == list(range(12))
    ages = selector.ages
    selector.observe(asked, sketches=DIRECTIONS[asked // 4])
    assert selector.probes() == {}
    # No client is credited. The stationary ages are reassigned now that the policy knows the
    # updates.
    assert selector.round == 0 and sorted(selector.ages) == sorted(ages)
    cold = agewise.Selector("age-herding", 12, 3, start="cold")
    cold.observe(asked, sketches=DIRECTIONS[asked // 4])
    assert not cold.ages.any()
    assert has_one_of_each_kind(selector.select().ids.tolist())
    assert agewise.Selector("age-herding(probe=0)", 12, 3).probes() == {}


@pytest.mark.parametrize(
    ("policy", "needs", "probes"),
    [
        ("random", (False, None, False, False), []),
        ("power-of-choice", (True, "while-training", False, False), ["loss"]),
        ("active", (True, "whole-data", False, False), ["loss"]),
        ("oort", (True, "while-training", True, False), []),
        ("divfl", (True, None, False, True), ["update-round"]),
    ],
)
def test_needs_and_probes_are_those_of_the_core(
    policy: str, needs: tuple[object, ...], probes: list[str]
) -> None:
    selector = agewise.Selector(policy)
    assert dataclasses.astuple(selector.needs) == needs
    assert list(selector.probes()) == probes


def test_losses_that_were_asked_for() -> None:
    selector = agewise.Selector("power-of-choice(d=6)", 40, 2, seed=4)
    for number in range(5):
        asked = selector.probes()["loss"]
        assert len(asked) == 6
        losses = (asked * 7 + number) % 41
        selector.observe(asked, losses=losses)
        best = np.sort(asked[np.argsort(losses)[-2:]])
        assert selector.select().ids.tolist() == best.tolist()
        selector.report(best)


def test_root_mean_squares_are_what_oort_looks_at() -> None:
    def chosen(**figures: np.ndarray) -> list[int]:
        selector = agewise.Selector("oort", 12, 3, seed=2)
        selector.report(np.arange(12), losses=np.ones(12), **figures)
        return [number for _ in range(6) for number in selector.select().ids.tolist()]

    rising = np.arange(1.0, 13.0) ** 4
    assert chosen(root_mean_squares=rising) != chosen(root_mean_squares=rising[::-1])
    assert agewise.Selector("oort").needs.loss_squares


def test_wrong_figures_change_nothing() -> None:
    selector = agewise.Selector("age-herding", 10, 3, seed=1)
    selector.observe([1], sketches=[[1.0, 2.0]])
    before = selector.state()
    calls = {
        "sketches = a list of 1: expected one entry for each of the 2 clients": {
            "sketches": [[1.0, 2.0]]
        },
        "sketch of client 4 = NaN": {"sketches": [[1.0, 2.0], [np.nan, 1.0]]},
        "sketch of client 3 = inf": {"sketches": [[1e300, 2.0], [1.0, 1.0]]},
        "sketch of client 3 = 3 numbers: expected 2 numbers": {"sketches": np.ones((2, 3))},
        "sketch of client 3 = 0 numbers": {"sketches": np.ones((2, 0))},
        "sketches = .*expected rows of numbers, one for each client": {"sketches": [1.0, 2.0]},
        "sketches = .*expected rows": {"sketches": [[1.0], [1.0, 2.0]]},
        "root_mean_squares = a list of 3": {"root_mean_squares": [1, 2, 3]},
        "root_mean_square of client 4 = inf": {"root_mean_squares": [1, np.inf]},
        "losses = .*expected a list of numbers": {"losses": "ab"},
    }
    for message, figures in calls.items():
        for call in (selector.observe, selector.report):
            refused(partial(call, [3, 4], **figures), message)
            assert selector.state() == before
    with pytest.raises(ValueError, match="clients = 10: expected clients from 0 to 9"):
        selector.observe([10], losses=[1.0])
    with pytest.raises(ValueError, match="available = 10"):
        selector.probes([10])
    with pytest.raises(ValueError, match="available = a list of 9"):
        selector.probes([True] * 9)
    assert selector.state() == before
