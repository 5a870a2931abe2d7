"""Policies of one's own: in Selector, simulate, compare and Flower, beside the built-in ones."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from bad_calls import refused

import agewise
from agewise import Needs, Reports, Round, Selector

SMALL: dict[str, Any] = {
    "clients": 20,
    "cohort": 4,
    "rounds": 5,
    "seeds": 2,
    "model": "softmax",
    "local_work": "2 steps",
    "targets": [0.5],
    "progress": False,
}


class Oldest:
    """`oldest-first` once more: the same draws decide among equal ages."""

    def select(self, round: Round) -> Any:
        ages = round.ages[round.available].astype(int)
        return round.available[np.argsort(-ages, kind="stable")[: round.cohort]]

    def initial_ages(self, clients: int, cohort: int, seed: int) -> Any:
        return np.arange(clients) // cohort


class HighestLoss:
    """Remembers the highest loss that it has heard of each client."""

    name = "highest-loss"
    needs = Needs(loss="while-training")

    def __init__(self, first: float = np.inf) -> None:
        self.first = first
        self.highest: dict[int, float] = {}

    def select(self, round: Round) -> list[int]:
        return sorted(round.available, key=lambda c: -self.highest.get(int(c), self.first))[
            : round.cohort
        ]

    def observe(self, reports: Reports) -> None:
        for client, loss in zip(reports.clients.tolist(), reports.losses.tolist(), strict=True):
            self.highest[client] = max(loss, self.highest.get(client, loss))

    def state(self) -> list[float]:
        return [number for pair in self.highest.items() for number in pair]

    def load_state(self, numbers: Any) -> None:
        self.highest = {int(k): loss for k, loss in numbers.reshape(-1, 2)}


class Drawn:
    """A random choice from the round's own draws."""

    def select(self, round: Round) -> Any:
        return np.argsort(round.draws())[: round.cohort]


def answering(answer: object) -> type:
    """A policy that always answers this."""

    class Answers:
        def select(self, round: Round) -> object:
            return answer

    return Answers


def play(selector: Selector, rounds: int) -> list[list[int]]:
    cohorts = []
    for _ in range(rounds):
        ids = selector.select().ids
        selector.report(ids, losses=1.0 + np.sin(ids * 1.7 + selector.round))
        cohorts.append(ids.tolist())
    return cohorts


def test_a_selector_runs_it_and_continues_exactly() -> None:
    first = Selector(HighestLoss, 12, 3)
    assert first.policy == "highest-loss" and "highest-loss" in repr(first)
    assert first.needs == Needs(training=True, loss="while-training")
    play(first, 7)
    second = Selector(HighestLoss, 12, 3)
    second.load_state(first.state())
    others = [second, copy.deepcopy(first), copy.copy(first), pickle.loads(pickle.dumps(first))]
    expected = play(first, 6)
    assert all(play(other, 6) == expected for other in others)


def test_objects_and_functions_are_policies_too() -> None:
    given = HighestLoss(first=-1.0)
    selectors = [Selector(given, 6, 2), Selector(lambda_named(), 6, 2)]
    for selector in selectors:
        selector.report([4, 5], losses=[1.0, 2.0])
        assert selector.select().ids.tolist() == [4, 5]
    assert given.highest == {}, "each run has a copy"


def lambda_named() -> Callable[[], HighestLoss]:
    def made() -> HighestLoss:
        return HighestLoss(first=-1.0)

    return made


def test_what_a_round_knows() -> None:
    seen: list[Round] = []

    class Watches:
        needs: ClassVar = {"update_sketches": True}
        start = "cold"

        def select(self, round: Round) -> list[int]:
            seen.append(round)
            return [1]

    selector = Selector(Watches, 4, 1, seed=9, sizes=[1, 2, 3, 4])
    selector.report([2], losses=[0.5], durations=[3], sketches=[[1, 2]])
    selector.select(available=[1, 3])
    view = seen[-1]
    assert (view.number, view.clients, view.cohort, view.seed) == (1, 4, 1, 9)
    assert view.ages.tolist() == [1, 1, 0, 1] and view.available.tolist() == [1, 3]
    assert view.sizes.tolist() == [1, 2, 3, 4]
    assert view.losses[2] == 0.5 and np.isnan(view.losses[[0, 1, 3]]).all()
    assert view.durations[2] == 3 and np.isnan(view.root_mean_squares).all()
    assert view.sketches is not None and view.sketches[2].tolist() == [1, 2]
    draws = view.draws()
    assert draws.shape == (4,) and ((draws >= 0) & (draws < 1)).all()
    assert (view.draws() == draws).all() and (view.draws(1) != draws).any()
    assert view.rng().random() == view.rng().random() != view.rng(1).random()
    with pytest.raises(ValueError, match="stream = 65536"):
        view.draws(1 << 16)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ([2, 9], r"cohort of Answers = client 9: expected a client from 0 to 5"),
        ([0, 1], r"cohort of Answers = client 0: expected an available client"),
        ([2, 2], r"cohort of Answers = client 2: expected each client at most once"),
        ([-1], r"cohort of Answers = -1: expected client numbers, 0 or more"),
        ([0.5], r"cohort of Answers = \[0.5\]: expected a list of client numbers"),
        (None, r"cohort of Answers = None: expected a list of client numbers"),
        ("all", r"cohort of Answers = 'all': expected a list of client numbers"),
    ],
)
def test_cohorts_are_checked(answer: object, message: str) -> None:
    selector = Selector(answering(answer), 6, 2)
    for _ in range(2):
        refused(lambda: selector.select(available=[2, 3]), message)


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (3, "policy = 3: expected the name of a policy, or a class with a method select"),
        (object(), "policy = <object"),
        (dict, r"dict = {}: expected a method select\(round\)"),
        (type("random", (Oldest,), {}), "name of the policy = 'random': expected another name"),
        (type("A", (Oldest,), {"name": "a@b"}), "name of the policy = 'a@b': expected letters"),
        (type("A", (Oldest,), {"needs": {"losses": 1}}), "needs of A = 'losses': expected one of"),
        (type("A", (Oldest,), {"needs": {"loss": "all"}}), r"needs of A \(loss\) = 'all'"),
        (type("A", (Oldest,), {"needs": 3}), "needs of A = 3: expected a Needs"),
        (type("A", (Oldest,), {"start": "warm"}), "start = warm: expected stationary or cold"),
        (type("A", (Oldest,), {"weighting": "no"}), "weighting = no: expected one of"),
        (
            type("A", (Oldest,), {"initial_ages": lambda self, *_: [1]}),
            "initial_ages of A = .*: expected 6 whole numbers",
        ),
    ],
)
def test_policies_are_checked(policy: Any, message: str) -> None:
    refused(lambda: Selector(policy, 6, 2), message)


def test_an_exception_has_its_traceback_and_changes_nothing() -> None:
    class Raises(HighestLoss):
        wrong = ""

        def select(self, round: Round) -> list[int]:
            if self.wrong == "select":
                raise LookupError("in select")
            return super().select(round)

        def probes(self, round: Round) -> dict[str, list[int]]:
            if self.wrong == "probes":
                raise LookupError("in probes")
            return {"loss": [3, 1]}

        def observe(self, reports: Reports) -> None:
            super().observe(reports)
            if self.wrong == "observe":
                raise LookupError("in observe")

        def state(self) -> list[float]:
            if self.wrong == "state":
                raise LookupError("in state")
            return super().state()

    selector = Selector(Raises, 6, 2)
    play(selector, 2)
    state = selector.state()
    calls: dict[str, Callable[[], object]] = {
        "select": selector.select,
        "probes": selector.probes,
        "observe": lambda: selector.report([1, 2], losses=[0.5, 0.25]),
        "state": selector.state,
    }
    for method, call in calls.items():
        Raises.wrong = method
        with pytest.raises(LookupError, match=f"in {method}") as raised:
            call()
        assert traceback.extract_tb(raised.tb)[-1].name == method
        Raises.wrong = ""
        assert selector.state() == state
    assert {kind: ids.tolist() for kind, ids in selector.probes().items()} == {"loss": [1, 3]}


def test_wrong_probes() -> None:
    class Asks(Oldest):
        asked: dict[str, list[int]]

        def probes(self, round: Round) -> dict[str, list[int]]:
            return self.asked

    selector = Selector(Asks, 6, 2)
    for asked, message in [
        ({"hue": [1]}, "probe of Asks = 'hue': expected one of loss"),
        ({"loss": [0]}, "loss probes of Asks = client 0: expected available clients"),
        ({"update-step": [1]}, "expected needs with update_sketches=True"),
    ]:
        Asks.asked = asked
        refused(lambda: selector.probes(available=[1, 2]), message)


def test_unbiased_weights_need_inclusion() -> None:
    refused(
        lambda: Selector(Oldest, 6, 2, weighting="unbiased"),
        "weighting = unbiased: expected another one, or a method inclusion of the policy Oldest",
    )

    class Known(Oldest):
        chance = 0.5

        def inclusion(self, clients: Any, round: Round) -> Any:
            return np.full(len(clients), self.chance)

    selector = Selector(Known, 6, 3, weighting="unbiased")
    assert selector.select().weights.tolist() == [1 / 3] * 3
    Known.chance = 0.0
    refused(selector.select, "inclusion of Known = .*: expected 3 probabilities above 0")
    Known.chance = 0.25
    assert selector.select().weights.tolist() == [2 / 3] * 3


def test_simulate_runs_it_beside_the_built_in_ones() -> None:
    found = agewise.simulate(
        policies=["random", Oldest, Drawn], clients=30, cohort=5, rounds=120, seeds=3, threads=2
    )
    assert [policy.policy for policy in found.policies] == ["random", "Oldest", "Drawn"]
    assert found["Oldest"].longest_wait == 6 and found["Oldest"].var_interval == 0
    assert found["Drawn"].var_interval == pytest.approx(found["random"].var_interval, rel=0.5)
    again = agewise.simulate(
        policies=["random", Oldest, Drawn], clients=30, cohort=5, rounds=120, seeds=3, threads=1
    )
    assert again.json == found.json
    refused(
        lambda: agewise.simulate(policies=[HighestLoss], rounds=5),
        "policies = highest-loss: expected a policy that selects without losses",
    )
    refused(lambda: agewise.simulate(policies=[Oldest, Oldest]), "policies = Oldest: expected each")
    refused(lambda: agewise.simulate(policies=[answering([10**6])]), "client 1000000")
    refused(lambda: agewise.simulate(policies=Oldest), "policies = <class")


def test_it_sees_who_joins() -> None:
    found = agewise.simulate(
        policies=[Oldest], clients=20, cohort=4, rounds=50, join=0.02, leave=0.01, dropout=0.1
    )
    assert found.finished and found["Oldest"].runs == 1


def test_compare_runs_it_and_resumes_with_the_same_bytes(tmp_path: Path) -> None:
    policies = ["random", HighestLoss, Oldest]
    whole = agewise.compare(policies=policies, out=tmp_path / "whole", **SMALL)
    assert whole.finished and whole["highest-loss"].jain is not None
    calls = 0

    def interrupt(policy: str, seed: int, rounds: int, accuracy: float | None) -> None:
        nonlocal calls
        calls += 1
        if calls == 15:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        agewise.compare(
            policies=policies, out=tmp_path / "cut", **(SMALL | {"progress": interrupt})
        )
    refused(lambda: agewise.read_run(tmp_path / "cut"), "policies = highest-loss: expected one of")
    cut = agewise.read_run(tmp_path / "cut", policies=[HighestLoss, Oldest])
    assert not cut.finished
    done = agewise.resume_run(tmp_path / "cut", policies=[HighestLoss, Oldest], progress=False)
    assert done.json == whole.json
    same_bytes(tmp_path / "whole", tmp_path / "cut")


def same_bytes(first: Path, second: Path) -> None:
    """Two runs have the same files, but for measured times."""
    clocks = {"timing.csv", "provenance.json"}
    names = {path.relative_to(first) for path in first.rglob("*") if path.name not in clocks}
    assert names == {
        path.relative_to(second) for path in second.rglob("*") if path.name not in clocks
    }
    for name in names:
        if (first / name).is_file():
            assert (first / name).read_bytes() == (second / name).read_bytes(), name


def test_it_can_be_added_to_a_run(tmp_path: Path) -> None:
    whole = agewise.compare(policies=["random", Oldest], out=tmp_path / "whole", **SMALL)
    agewise.compare(policies=["random"], out=tmp_path / "run", **SMALL)
    more = agewise.extend_run(tmp_path / "run", policies=[Oldest], progress=False)
    assert more.json == whole.json
    assert (
        agewise.extend_run(tmp_path / "run", policies=[Oldest], seeds=3, progress=False)[
            "Oldest"
        ].runs
        == 3
    )


def test_an_exception_ends_a_comparison_and_loses_nothing(tmp_path: Path) -> None:
    class Late(HighestLoss):
        limit: int | None = 3

        def select(self, round: Round) -> list[int]:
            if round.number == self.limit:
                raise LookupError("too late")
            return super().select(round)

    with pytest.raises(LookupError, match="too late") as raised:
        agewise.compare(policies=[Late], out=tmp_path / "run", **SMALL)
    assert traceback.extract_tb(raised.tb)[-1].name == "select"
    cut = agewise.read_run(tmp_path / "run", policies=[Late])
    assert 3 in (cut.policies[0].reported > 0).sum(axis=1)
    Late.limit = None
    done = agewise.resume_run(tmp_path / "run", policies=[Late], progress=False)
    assert done.finished
    whole = agewise.compare(policies=[Late], out=tmp_path / "whole", **SMALL)
    assert done.json == whole.json


def test_probes_of_losses_are_answered(tmp_path: Path) -> None:
    class Asks:
        needs = Needs(loss="whole-data")

        def probes(self, round: Round) -> dict[str, Any]:
            return {"loss": round.available}

        def select(self, round: Round) -> Any:
            assert np.isfinite(round.losses[round.available]).all()
            return np.argsort(-round.losses)[: round.cohort]

    found = agewise.compare(policies=[Asks], out=tmp_path / "run", **SMALL)
    assert found.finished


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_ctrl_c_ends_it(tmp_path: Path) -> None:
    code = """
import agewise, os, signal, threading
signal.signal(signal.SIGINT, signal.default_int_handler)
class First:
    def select(self, round):
        return range(round.cohort)
for call in [
    lambda: agewise.simulate(policies=[First], rounds=10**6),
    lambda: agewise.Selector(lambda_policy, 10, 2).select(),
]:
    threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT)).start()
    class Slow(First):
        def select(self, round):
            while True:
                pass
    lambda_policy = Slow
    try:
        call()
    except KeyboardInterrupt:
        print("interrupted")
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert done.stdout == "interrupted\n" * 2, done.stderr


def test_flower_runs_it() -> None:
    pytest.importorskip("flwr")
    from flower_world import World, counting_app, model

    from agewise.flower import AgeStrategy, identify

    arguments: dict[str, Any] = {"clients": 12, "cohort": 4, "policy": HighestLoss}
    strategy = AgeStrategy(fraction_evaluate=0.0, **arguments)
    nodes = World(identify(counting_app()), 12, 1)
    strategy.start(nodes, model(0.0), 6)
    selector = Selector(HighestLoss, 12, 4)
    for number in range(1, 7):
        ids = selector.select().ids
        selector.report(ids, losses=1.0 / (ids + 1.0))
        assert nodes.partitions("train", number) == ids.tolist()
    assert strategy.policy == "highest-loss"
    refused(
        lambda: AgeStrategy(decentralised=True, **arguments),
        "policy = highest-loss: expected a policy in which clients decide on their own",
    )
