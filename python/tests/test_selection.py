"""Selector and Client."""

from __future__ import annotations

import copy
import json
import pickle
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from bad_calls import refused

import agewise

#: Every policy, with options where it needs some.
POLICIES = [
    f"{policy.name}(p=[0, 0.1, 0.5, 1])" if policy.needs_options else policy.name
    for policy in agewise.policies()
] + ["phased(reshuffle=0.3)", "clustered(by=2)"]


def play(selector: agewise.Selector, rounds: int) -> list[list[int]]:
    """Cohorts of some rounds; every third client that is chosen fails."""
    cohorts = []
    for _ in range(rounds):
        ids = selector.select().ids
        kept = ids[(ids + selector.round) % 3 != 0]
        figures = np.sin(np.outer(kept + 1.0, np.arange(1, 8)) + selector.round)
        selector.report(
            kept,
            losses=0.5 + kept / 100,
            durations=1 + figures[:, 0],
            root_mean_squares=1 + figures[:, 1],
            sketches=figures[:, 2:],
        )
        cohorts.append(ids.tolist())
    return cohorts


@pytest.mark.parametrize("policy", POLICIES)
def test_resuming_is_exact(policy: str) -> None:
    def new() -> agewise.Selector:
        return agewise.Selector(policy, 40, 9, seed=5, sizes=np.arange(1, 41))

    whole = new()
    cohorts = play(whole, 25)
    first = new()
    assert play(first, 11) == cohorts[:11]
    second = new()
    second.load_state(first.state())
    assert second.metrics() == first.metrics() or str(second.metrics()) == str(first.metrics())
    assert play(second, 14) == cohorts[11:]
    assert second.state() == whole.state()
    kept = json.loads(second.state())["selector"]
    assert any(kept["population"]["reports"]["sketches"]) and ("policy" in kept) == (
        policy == "oort"
    )


def test_sizes_given_on_the_way_are_part_of_the_state() -> None:
    def new() -> agewise.Selector:
        return agewise.Selector("probabilistic", 30, 5, seed=2)

    first = new()
    first.select(sizes=np.arange(1, 31) ** 2)
    first.report([1])
    second = new()
    second.load_state(first.state())
    assert first.select().weights.tolist() == second.select().weights.tolist()
    assert (
        first.select().ids.tolist() == second.select().ids.tolist() != new().select().ids.tolist()
    )


@pytest.mark.parametrize("policy", POLICIES)
def test_only_who_is_there_and_asking_twice_changes_nothing(policy: str) -> None:
    selector = agewise.Selector(policy, 40, 9, seed=1)
    mask = np.arange(40) % 4 == 0
    for _ in range(15):
        by_mask, by_number = selector.select(mask), selector.select(np.flatnonzero(mask))
        assert by_mask.ids.tolist() == by_number.ids.tolist()
        assert mask[by_mask.ids].all() and len(by_mask) >= 1
        assert by_mask.weights.sum() == pytest.approx(1)
        selector.report(by_mask.ids)


def test_ages_grow_and_are_credited() -> None:
    selector = agewise.Selector("random", 5, 2, start="cold")
    selector.report([1, 4])
    selector.report([])
    assert selector.ages.tolist() == [2, 1, 2, 2, 1] and selector.round == 2


def test_metrics_are_those_of_who_was_credited() -> None:
    selector = agewise.Selector("oldest-first", 4, 2, start="cold")
    for clients in [[0, 1], [2], [0, 3], [1, 2]]:
        selector.select()
        selector.report(clients)
    metrics = selector.metrics()
    # Ages at participation, from cold ages: 0, 0 / 1 / 1, 3 / 2, 1; X is one more.
    x = np.array([1, 1, 2, 2, 3, 3, 2])
    assert metrics.rounds == 4
    assert metrics.mean_interval == pytest.approx(x.mean())
    counts = np.array([2, 2, 2, 1])
    assert metrics.jain == pytest.approx(counts.sum() ** 2 / (4 * (counts**2).sum()))
    assert metrics.cohort_mean == pytest.approx(7 / 4)


@pytest.mark.parametrize(
    "policy", ["markov-optimal", "markov-linear", "phased", "phased(reshuffle=0.3)"]
)
@pytest.mark.parametrize("start", ["stationary", "cold"])
def test_clients_decide_as_the_selector_does(policy: str, start: str) -> None:
    selector = agewise.Selector(policy, 30, 6, seed=8, start=start, empty_cohort="skip")
    clients = [agewise.Client(policy, 30, 6, number, seed=8, start=start) for number in range(30)]
    ages = [client.initial_age for client in clients]
    for number in range(40):
        willing = [k for k, client in enumerate(clients) if client.takes_part(number, ages[k])]
        assert selector.ages.tolist() == ages
        assert selector.select().ids.tolist() == willing
        selector.report(willing)
        ages = [0 if k in willing else age + 1 for k, age in enumerate(ages)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"policy": "randm"}, r"policy = randm: expected one of .*did you mean random\?"),
        ({"policy": "phased(x=1)"}, "option of phased = x"),
        ({"policy": "markov-custom"}, "markov-custom"),
        ({"clients": 0}, "clients = 0"),
        ({"clients": -3}, "clients = -3: expected a whole number, 0 or more"),
        ({"clients": 1.5}, "clients = 1.5"),
        ({"clients": 1 << 40}, "clients = 1099511627776"),
        (
            {"cohort": 101},
            "cohort = 101: expected a whole number from 1 to the number of clients, 100",
        ),
        ({"seed": -1}, "seed = -1"),
        ({"start": "warm"}, "start = warm: expected stationary or cold"),
        ({"weighting": "heavy"}, "weighting = heavy"),
        ({"empty_cohort": "maybe"}, "empty_cohort = maybe: expected force-one or skip"),
        ({"sizes": [1, 2]}, "sizes = a list of 2: expected one entry for each of the 100 clients"),
        ({"sizes": [[1]]}, "sizes = .*expected a list of numbers"),
        ({"sizes": ["a"]}, "sizes = .*expected a list of numbers"),
        ({"max_age": 0}, "max_age = 0"),
    ],
)
def test_bad_input_is_named(options: dict[str, object], message: str) -> None:
    refused(lambda: agewise.Selector(**options), message)


def test_bad_calls_change_nothing() -> None:
    selector = agewise.Selector("random", 10, 3, seed=1)
    before = selector.state()
    calls: list[Callable[[], object]] = [
        lambda: selector.report([3, 3]),
        lambda: selector.report([10]),
        lambda: selector.report([-1]),
        lambda: selector.report([1 << 40]),
        lambda: selector.report([0.5]),
        lambda: selector.report([1, 2], losses=[0.1]),
        lambda: selector.report([1], losses=[float("inf")]),
        lambda: selector.select(available=[10]),
        lambda: selector.select(available=[True] * 9),
        lambda: selector.select(losses=[0.1]),
        lambda: selector.select(losses=[float("inf")] * 10),
        lambda: selector.select(sizes=[1] * 9),
        lambda: selector.select(sizes=[-1] * 10),
        lambda: selector.load_state(b"nothing"),
        lambda: selector.load_state(b""),
        lambda: selector.load_state(agewise.Selector("random", 11, 3, seed=1).state()),
        lambda: selector.load_state(agewise.Selector("oldest-first", 10, 3, seed=1).state()),
        lambda: selector.load_state(agewise.Selector("random", 10, 3, seed=2).state()),
    ]
    for call in calls:
        refused(call, " = .*expected")
        assert selector.state() == before


def test_a_state_that_someone_changed_is_refused() -> None:
    selector = agewise.Selector("random", 10, 3, seed=1)
    play(selector, 4)
    stored = json.loads(selector.state())
    changes: list[Callable[[dict[str, Any]], object]] = [
        lambda s: s["selector"]["population"]["ages"]["waiting_since"].pop(),
        lambda s: s["participation"]["selections"].append(0),
        lambda s: s["participation"]["weight_sums"].pop(),
        lambda s: s["participation"]["windows"]["counts"].pop(),
        lambda s: s["participation"]["windows"]["last"].pop(),
        lambda s: s["participation"]["windows"]["tallies"].pop(),
        lambda s: s["participation"]["pairs"]["shared"].pop(),
        lambda s: s["participation"]["pairs"].update(stride=0),
        lambda s: s.update(version=1),
        lambda s: s.update(extra=1),
        lambda s: s.pop("selector"),
    ]
    for change in changes:
        changed = json.loads(json.dumps(stored))
        change(changed)
        before = selector.state()
        with pytest.raises(ValueError):
            selector.load_state(json.dumps(changed).encode())
        assert selector.state() == before
    # A sketch of another width.
    changed = json.loads(json.dumps(stored))
    sketches = changed["selector"]["population"]["reports"]["sketches"]
    next(sketch for sketch in sketches if sketch).pop()
    with pytest.raises(ValueError, match="sketch of client"):
        selector.load_state(json.dumps(changed).encode())
    # Lists of reports may be shorter than the clients, but not longer.
    stored["selector"]["population"]["reports"]["losses"] = [None] * 11
    with pytest.raises(ValueError, match="reports"):
        selector.load_state(json.dumps(stored).encode())


def test_losses_are_kept_for_policies_that_look_at_them() -> None:
    selector = agewise.Selector("random", 3, 1)
    selector.select(losses=[0.5, np.nan, 2.0])
    assert json.loads(selector.state())["selector"]["population"]["reports"]["losses"] == [
        0.5,
        None,
        2.0,
    ]


@pytest.mark.parametrize("policy", POLICIES)
def test_a_state_in_the_middle_of_a_round_is_complete(policy: str) -> None:
    def new() -> agewise.Selector:
        return agewise.Selector(
            policy, 6, 3, seed=1, weighting="data-size", sizes=[1, 2, 3, 4, 5, 100]
        )

    whole, cut = new(), new()
    for _ in range(8):
        ids = whole.select().ids
        assert cut.select().ids.tolist() == ids.tolist()
        resumed = new()
        resumed.load_state(cut.state())
        cut = resumed
        whole.report(ids[:-1])
        cut.report(ids[:-1])
    assert cut.state() == whole.state()


def test_a_state_of_other_weights_is_refused() -> None:
    selector = agewise.Selector("random", 6, 3, weighting="uniform")
    others = [{"weighting": "data-size"}, {}, {"start": "cold"}, {"empty_cohort": "skip"}]
    for options in others:
        state = agewise.Selector("random", 6, 3, **{"weighting": "uniform", **options}).state()
        if options == {}:
            selector.load_state(state)
            continue
        with pytest.raises(ValueError, match=next(iter(options))):
            selector.load_state(state)
    # However it is written.
    spaced = agewise.Selector("phased(reshuffle=0.050)", 6, 3).state()
    agewise.Selector("phased( reshuffle = 0.05 )", 6, 3).load_state(spaced)


def test_a_selection_that_fails_takes_no_sizes_and_no_losses() -> None:
    selector = agewise.Selector("random", 6, 3, seed=1)
    before = selector.state()
    for wrong in [
        {"available": [9]},
        {"losses": [1.0]},
        {"losses": [np.inf] * 6},
        {"available": [True] * 5},
    ]:
        with pytest.raises(ValueError):
            selector.select(sizes=[1, 2, 3, 4, 5, 6], **wrong)
        assert selector.state() == before


def test_copies_go_their_own_way() -> None:
    selector = agewise.Selector("phased(reshuffle=0.3)", 30, 6, seed=2)
    play(selector, 3)
    for other in [
        copy.copy(selector),
        copy.deepcopy(selector),
        pickle.loads(pickle.dumps(selector)),
    ]:
        assert other.state() == selector.state() and repr(other) == repr(selector)
        ahead = play(other, 4)
        assert selector.round == 3
        assert play(copy.copy(selector), 4) == ahead


def test_a_client_that_always_fails_is_asked_less_and_less() -> None:
    selector = agewise.Selector("oldest-first", clients=100, cohort=5, seed=1)
    asked = 0
    for _ in range(400):
        ids = selector.select().ids
        asked += int(17 in ids)
        selector.report(ids[ids != 17], failed=ids[ids == 17])
    assert asked in (13, 14), "394 times where failures are not told"
    assert list(selector.failed) == [17] and selector.failed[17].in_a_row == asked
    again = agewise.Selector("oldest-first", clients=100, cohort=5, seed=1)
    again.load_state(selector.state())
    assert again.failed == selector.failed
    before = selector.state()
    for clients, failed, message in [
        ([1], [1], "failed = 1: expected each client at most once"),
        ([], [2, 2], "failed = 2"),
        ([], [100], "failed = 100: expected clients from 0 to 99"),
    ]:
        with pytest.raises(ValueError, match=message):
            selector.report(clients, failed=failed)
        assert selector.state() == before


def test_without_backoff_a_client_that_always_fails_is_asked_in_nearly_every_round() -> None:
    selector = agewise.Selector("oldest-first", clients=100, cohort=5, seed=1, backoff=False)
    asked = 0
    for _ in range(400):
        ids = selector.select().ids
        asked += int(17 in ids)
        selector.report(ids[ids != 17], failed=ids[ids == 17])
    # From the round in which its turn comes first, at most 20 rounds after the beginning.
    assert asked >= 380 and selector.failed[17].in_a_row == asked
    with pytest.raises(ValueError, match="state\\(backoff\\) = False: expected True, as in this"):
        agewise.Selector("oldest-first", 100, 5, seed=1).load_state(selector.state())
    for again in [copy.deepcopy(selector), pickle.loads(pickle.dumps(selector))]:
        assert again.state() == selector.state() and play(again, 5) == play(copy.copy(selector), 5)


@pytest.mark.parametrize("policy", POLICIES)
def test_clients_come_and_go(policy: str) -> None:
    def new() -> agewise.Selector:
        return agewise.Selector(policy, 30, 6, seed=4)

    whole, cut = new(), new()
    for number in range(12):
        for selector in [whole, cut]:
            play(selector, 1)
            if number % 3 == 1:
                assert selector.admit(size=2.0, age=number) == 29 + number
                assert selector.admit_all([(1.0, 0), (3.0, 40)]) == 30 + number
                selector.leave(number)
                selector.set_size(number + 1, 5.0)
        resumed = new()
        resumed.load_state(cut.state())
        cut = copy.deepcopy(pickle.loads(pickle.dumps(resumed)))
        assert cut.state() == whole.state() and cut.clients == whole.clients
        assert not np.isin(cut.select().ids, cut.left).any()
    assert whole.clients == 42 == len(whole.ages) and whole.left == [1, 4, 7, 10]
    assert whole.metrics().rounds == 12
    # A state of fewer clients is loaded into a selector to which clients were admitted.
    whole.load_state(new().state())
    assert whole.state() == new().state() and whole.clients == 30


def test_metrics_count_newcomers_as_clients_that_have_not_taken_part() -> None:
    selector = agewise.Selector("oldest-first", 2, 1, start="cold")
    for _ in range(4):
        selector.report(selector.select().ids)
    assert selector.metrics().jain == 1.0 and selector.metrics().never_selected == 0
    selector.admit()
    metrics = selector.metrics()
    # Selections 2, 2 and 0: 16 / (3 * 8).
    assert metrics.jain == pytest.approx(2 / 3) and metrics.never_selected == 1


def test_a_change_of_the_population_that_cannot_be_changes_nothing() -> None:
    selector = agewise.Selector("random", 10, 3, seed=1)
    selector.select()
    before = selector.state()
    calls: list[tuple[Callable[[], object], str]] = [
        (lambda: selector.leave(10), "client = 10: expected clients from 0 to 9"),
        (lambda: selector.leave(1 << 40), "client = 1099511627776: expected clients from 0 to 9"),
        (lambda: selector.leave(-1), "client = -1: expected a whole number, 0 or more"),
        (lambda: selector.admit(size=-1.0), "sizes.10. = -1"),
        (lambda: selector.admit(size="large"), "size = 'large': expected a number"),
        (lambda: selector.admit(size=float("nan")), "sizes.10. = NaN"),
        (lambda: selector.admit(age=-1), "age = -1: expected a whole number, 0 or more"),
        (lambda: selector.admit_all([(1.0, 0), (-1.0, 0)]), "sizes.11. = -1"),
        (lambda: selector.set_size(10, 1.0), "client = 10: expected clients from 0 to 9"),
        (lambda: selector.set_size(0, True), "size = True: expected a number"),
        (lambda: selector.set_interval(0.5), "interval = 0.5"),
        (lambda: agewise.Selector(backoff="off"), "backoff = 'off': expected True or False"),
    ]
    for call, message in calls:
        refused(call, message)
        assert selector.state() == before


def test_several_threads_take_turns() -> None:
    selector = agewise.Selector("random", 100, 10, seed=2)

    def work() -> None:
        for _ in range(50):
            selector.select()
            selector.report([])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert selector.round == 200


def test_a_round_that_never_comes_is_refused() -> None:
    client = agewise.Client("phased(reshuffle=0.3)", 100, 15, 99)
    with pytest.raises(ValueError, match="round = 18446744073709551615"):
        client.takes_part(2**64 - 1, 0)


def test_laws() -> None:
    law = agewise.age_law("optimal", clients=100, cohort=15, max_age=10)
    assert law.steady_state.sum() == pytest.approx(1)
    assert law.rate == pytest.approx(0.15)
    assert law.mean_interval == pytest.approx(100 / 15)
    with pytest.raises(ValueError, match="law = best"):
        agewise.age_law("best")
    with pytest.raises(ValueError, match="cohort = 0"):
        agewise.age_law(cohort=0)
    with pytest.raises(ValueError):
        agewise.age_law([0.5, 2.0])
