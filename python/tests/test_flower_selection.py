"""AgeSelection: the clients of any strategy of Flower."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import numpy as np
import pytest
from bad_calls import refused
from flower_world import World, counting_app, model, weights_of
from flwr.app import Error, Message, MessageType, RecordDict
from flwr.clientapp.mod import LocalDpMod, adaptiveclipping_mod, fixedclipping_mod
from flwr.serverapp import strategy as flower
from flwr.serverapp.strategy import Strategy

from agewise import Selector
from agewise.flower import AgeSelection, AgeStrategy, identify

CLIENTS, COHORT, SEED, ROUNDS = 12, 4, 5, 6
#: Strategies with the arguments that they need.
STRATEGIES: dict[str, dict[str, Any]] = {
    "FedAvg": {},
    "FedProx": {"proximal_mu": 0.5},
    "FedAdam": {},
    "FedAdagrad": {},
    "FedYogi": {},
    "FedAvgM": {"server_momentum": 0.9},
    "FedMedian": {},
    "FedTrimmedAvg": {"beta": 0.25},
    "Krum": {"num_malicious_nodes": 1},
    "MultiKrum": {"num_malicious_nodes": 1, "num_nodes_to_select": 2},
    "Bulyan": {},
    "QFedAvg": {"client_learning_rate": 0.1, "train_loss_key": "train_loss"},
}
DP = {"noise_multiplier": 0.1, "clipping_norm": 1.0, "num_sampled_clients": COHORT}


def inner(name: str) -> Any:
    return getattr(flower, name)(**STRATEGIES[name])


def selection(strategy: Strategy, policy: Any = "markov-optimal", **more: Any) -> AgeSelection:
    return AgeSelection(strategy, clients=CLIENTS, cohort=COHORT, policy=policy, seed=SEED, **more)


def world(seed: int = 1) -> World:
    return World(identify(counting_app()), CLIENTS, seed)


def expected_cohorts(policy: str) -> list[list[int]]:
    selector, cohorts = Selector(policy, CLIENTS, COHORT, SEED), []
    for _ in range(ROUNDS):
        ids = selector.select().ids
        selector.report(ids, losses=1.0 / (ids + 1.0))
        cohorts.append(ids.tolist())
    return cohorts


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_strategy_trains_the_cohorts_of_the_policy(name: str) -> None:
    final = []
    for seed in [1, 2]:
        strategy = inner(name)
        nodes = world(seed)
        result = selection(strategy, "oldest-first").start(nodes, model(0.0, 1.0), ROUNDS)
        asked = [sorted(nodes.partitions("train", number)) for number in range(1, ROUNDS + 1)]
        assert asked == expected_cohorts("oldest-first")
        assert result.train_metrics_clientapp[ROUNDS]["agewise-reported"] == COHORT
        assert (strategy.fraction_train, strategy.min_train_nodes) == (1.0, 2), "it is left alone"
        assert "eval_loss" in result.evaluate_metrics_clientapp[ROUNDS]
        final.append(weights_of(result.arrays))
    assert np.isfinite(final[0]).all() and (final[0] != [0, 1]).any()
    # Replies come in another order, and with other node ids.
    np.testing.assert_array_equal(final[0], final[1])


def test_fedavg_is_that_of_age_strategy() -> None:
    arguments = {"clients": CLIENTS, "cohort": COHORT, "policy": "age-herding", "seed": SEED}
    ours = AgeStrategy(**arguments).start(world(), model(0.0), ROUNDS)
    wrapped = AgeSelection(flower.FedAvg(), **arguments).start(world(), model(0.0), ROUNDS)
    assert weights_of(ours.arrays).tolist() == weights_of(wrapped.arrays).tolist()
    assert ours.train_metrics_clientapp == wrapped.train_metrics_clientapp


def test_what_a_strategy_sends_reaches_clients() -> None:
    nodes = world()
    selection(inner("FedProx")).start(nodes, model(0.0), 2)
    sent = [m for m in nodes.sent if m.metadata.message_type == MessageType.TRAIN]
    assert sent and all(m.content["config"]["proximal-mu"] == 0.5 for m in sent)


@pytest.mark.parametrize("clipping", ["Fixed", "Adaptive"])
def test_differential_privacy_around_a_strategy(clipping: str) -> None:
    wrapper = getattr(flower, f"DifferentialPrivacyServerSide{clipping}Clipping")
    more: dict[str, Any] = dict(DP)
    if clipping == "Adaptive":
        del more["clipping_norm"]
    nodes = world()
    result = selection(wrapper(inner("FedAvg"), **more)).start(nodes, model(0.0), ROUNDS)
    asked = [sorted(nodes.partitions("train", number)) for number in range(1, ROUNDS + 1)]
    assert asked == expected_cohorts("markov-optimal")
    assert np.isfinite(weights_of(result.arrays)).all()


#: Mods of clients, each with what is around FedAvg on the server.
CLIENT_SIDE: dict[str, tuple[Any, dict[str, Any] | None]] = {
    "DifferentialPrivacyClientSideFixedClipping": (fixedclipping_mod, DP),
    "DifferentialPrivacyClientSideAdaptiveClipping": (
        adaptiveclipping_mod,
        {"noise_multiplier": 0.1, "num_sampled_clients": COHORT},
    ),
    "LocalDpMod": (LocalDpMod(1.0, 0.001, 10.0, 1e-5), None),
}


@pytest.mark.parametrize("name", CLIENT_SIDE)
def test_differential_privacy_of_clients(name: str) -> None:
    """The mods clip, and those of the wrappers refuse a message with more than they expect."""
    mod, arguments = CLIENT_SIDE[name]
    strategy: Any = inner("FedAvg")
    if arguments is not None:
        strategy = getattr(flower, name)(strategy, **arguments)
    nodes = World(identify(counting_app(train_mods=[mod])), CLIENTS, 1)
    result = selection(strategy, "oldest-first").start(nodes, model(0.0), ROUNDS)
    asked = [sorted(nodes.partitions("train", number)) for number in range(1, ROUNDS + 1)]
    assert asked == expected_cohorts("oldest-first")
    metrics = result.train_metrics_clientapp.values()
    assert [found["agewise-reported"] for found in metrics] == [COHORT] * ROUNDS
    assert np.isfinite(weights_of(result.arrays)).all() and weights_of(result.arrays)[0] != 0


class Counts:
    """An accountant of Flower that knows the releases and leaves their cost to others."""

    def __init__(self, accounting: Any) -> None:
        self.config = accounting.PrivacyConfig(
            target_delta=1e-5,
            population_size=CLIENTS,
            neighboring_relation=accounting.NeighboringRelation.ADD_OR_REMOVE_ONE,
            sampling_method=accounting.SamplingMethod.NO_AMPLIFICATION,
        )
        self.events: list[Any] = []
        self._spent = accounting.PrivacySpent

    def compose(self, event: Any, count: int = 1) -> None:
        self.events += [event] * count

    def get_privacy_spent(self, delta: float | None = None) -> Any:
        return self._spent(float(len(self.events)), 1e-5, len(self.events), "counting")


def equal_weights(message: Message, context: Any, call_next: Any) -> Message:
    """A mod: all clients have one weight, as accounting needs it."""
    reply: Message = call_next(message, context)
    reply.content.metric_records["metrics"]["one"] = 1.0
    return reply


def test_an_accountant_hears_of_every_release() -> None:
    """It counts each round in full for everyone, so it does not matter who was selected."""
    accounting = pytest.importorskip("flwr.supercore.privacy_accounting")
    accountant = Counts(accounting)
    around = flower.DifferentialPrivacyServerSideFixedClipping(
        flower.FedAvg(weighted_by_key="one"), **DP, accountant=accountant
    )
    nodes = World(identify(counting_app(equal_weights)), CLIENTS, 1)
    selection(around, "oldest-first").start(nodes, model(0.0), ROUNDS)
    assert [event.sample_size for event in accountant.events] == [COHORT] * ROUNDS
    # Cohorts of chance do not have the size for which the noise was chosen, and Flower says so.
    chance = flower.DifferentialPrivacyServerSideFixedClipping(
        flower.FedAvg(weighted_by_key="one"), **DP, accountant=Counts(accounting)
    )
    with pytest.raises(ValueError, match="does not match num_sampled_clients"):
        selection(chance, "probabilistic").start(nodes, model(0.0), 30)


def failure(reply: Message) -> Message:
    """An error in place of a reply."""
    meta = reply.metadata
    question = Message(RecordDict(), meta.src_node_id, meta.message_type, group_id=meta.group_id)
    return Message(Error(code=0, reason="broken"), reply_to=question)


def test_a_round_that_is_dropped_credits_nobody_and_knows_who_failed() -> None:
    nodes = world()
    first = expected_cohorts("oldest-first")[0]
    nodes.mutations[nodes.node_of(first[1])] = failure
    wrapped = flower.DifferentialPrivacyServerSideFixedClipping(inner("FedAvg"), **DP)
    strategy = selection(wrapped, "oldest-first")
    result = strategy.start(nodes, model(0.0), 1)
    assert result.train_metrics_clientapp[1]["agewise-reported"] == 0
    assert weights_of(result.arrays).tolist() == [0.0]
    selector = strategy._selector
    assert list(selector.failed) == [first[1]] and selector.metrics().never_selected == CLIENTS


def test_a_client_that_fails_is_not_credited() -> None:
    nodes = world()
    silent = nodes.node_of(3)

    def nothing(_: Message) -> None:
        return None

    nodes.mutations[silent] = nothing
    strategy = selection(inner("FedAdam"), "oldest-first")
    result = strategy.start(nodes, model(0.0), 4)
    reported = [int(result.train_metrics_clientapp[n]["agewise-reported"]) for n in range(1, 5)]
    asked = [nodes.partitions("train", number) for number in range(1, 5)]
    assert reported == [len(cohort) - (3 in cohort) for cohort in asked] and min(reported) == 3


def test_a_small_cohort_does_not_wait_for_more_nodes() -> None:
    strategy = AgeSelection(inner("FedAvg"), clients=CLIENTS, cohort=1, policy="oldest-first")
    nodes = world()
    strategy.start(nodes, model(0.0), 3)
    assert [len(nodes.partitions("train", number)) for number in range(1, 4)] == [1, 1, 1]


def test_rounds_continue_with_the_state() -> None:
    first = selection(inner("FedMedian"), "oldest-first")
    arrays = first.start(world(), model(0.0), 3).arrays
    state = json.loads(json.dumps(first.state_dict()))
    second = selection(inner("FedMedian"), "oldest-first")
    second.load_state_dict(state)
    nodes = world()
    result = second.start(nodes, arrays, 3)
    assert list(result.train_metrics_clientapp) == [4, 5, 6]
    assert sorted(nodes.partitions("train", 5)) == expected_cohorts("oldest-first")[4]


def test_wrong_arguments() -> None:
    arguments = {"clients": CLIENTS, "cohort": COHORT}
    refused(lambda: AgeSelection("FedAvg", **arguments), "strategy = 'FedAvg': expected a strategy")
    refused(lambda: AgeSelection(AgeStrategy(**arguments), **arguments), "does not select by age")
    for name in ["FedXgbBagging", "FedXgbCyclic"]:
        trees = getattr(flower, name)()
        expected = f"strategy = {name}: expected a strategy of models"
        refused(partial(selection, trees), expected)
    refused(lambda: selection(inner("FedAvg"), weighting="uniform"), "weighting = 'uniform'")
    refused(lambda: selection(inner("FedAvg"), decentralised=True), "decentralised = True")
