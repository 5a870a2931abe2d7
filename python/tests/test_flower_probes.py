"""Probes in Flower, sizes that are learnt from replies, and arrays without axes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from bad_calls import refused
from flower_world import World, counting_app, examples, model, trained_value, weights_of
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import strategy as flower

from agewise import Selector, sketch
from agewise.flower import AgeSelection, AgeStrategy, identify, probe_kind

CLIENTS, COHORT, SEED, ROUNDS = 12, 4, 5, 6
ASKED: dict[str, Any] = {"clients": CLIENTS, "cohort": COHORT, "seed": SEED}


def probed(nodes: World, number: int, kind: str = "train") -> list[int]:
    """The partitions that were asked and not trained for the model."""
    asked = [m for m in nodes.sent if m.metadata.group_id == f"{number}-probe"]
    assert all(m.metadata.message_type == kind for m in asked)
    holders = [nodes.contexts[m.metadata.dst_node_id].node_config for m in asked]
    return sorted(int(config["partition-id"]) for config in holders)


def cohorts(nodes: World) -> list[list[int]]:
    """The partitions that trained in each round."""
    found = []
    for number in range(1, ROUNDS + 1):
        trained = [m for m in nodes.sent if m.metadata.group_id == str(number)]
        trained = [m for m in trained if m.metadata.message_type == "train"]
        holders = [nodes.contexts[m.metadata.dst_node_id].node_config for m in trained]
        found.append(sorted(int(config["partition-id"]) for config in holders))
    return found


@pytest.mark.parametrize("wrapped", [False, True])
def test_age_herding_knows_all_clients_before_the_first_round(wrapped: bool) -> None:
    """The cohorts are those of a selector that is told the same."""
    more: dict[str, Any] = ASKED | {"policy": "age-herding", "probes": True}
    nodes = World(identify(counting_app()), CLIENTS, 1)
    made = AgeSelection(flower.FedAvg(), **more) if wrapped else AgeStrategy(**more)
    first = model(0.0, 1.0)
    result = made.start(nodes, first, ROUNDS)
    assert probed(nodes, 1) == list(range(CLIENTS)), "all clients, once"
    assert all(probed(nodes, number) == [] for number in range(2, ROUNDS + 1))
    selector, expected = Selector("age-herding", **ASKED), []

    def sketches(clients: Any, number: int) -> Any:
        before = weights_of(nodes.model_of(number))
        trained = [before + trained_value(int(client), number) for client in clients]
        return [sketch(before, after, seed=SEED) for after in trained]

    asked = selector.probes()["update-step"]
    selector.observe(asked, sketches=sketches(asked, 1))
    for number in range(1, ROUNDS + 1):
        ids = selector.select().ids
        expected.append(ids.tolist())
        selector.report(ids, losses=1.0 / (ids + 1.0))
        selector.observe(ids, sketches=sketches(ids, number))
    assert cohorts(nodes) == expected
    assert result.train_metrics_clientapp[ROUNDS]["agewise-reported"] == COHORT
    blind = World(identify(counting_app()), CLIENTS, 1)
    AgeStrategy(**(more | {"probes": False})).start(blind, first, ROUNDS)
    assert cohorts(blind) != expected and probed(blind, 1) == []


def test_losses_are_asked_by_evaluate_messages() -> None:
    """The clients of this world have a loss that grows with their number."""
    nodes = World(identify(counting_app()), CLIENTS, 1)
    policy = f"power-of-choice(d={CLIENTS})"
    AgeStrategy(**ASKED, policy=policy, probes=True).start(nodes, model(0.0), 3)
    assert [probed(nodes, number, "evaluate") for number in (1, 2)] == [list(range(CLIENTS))] * 2
    assert cohorts(nodes)[:2] == [[8, 9, 10, 11]] * 2


def test_an_app_can_tell_a_probe_and_need_not_answer() -> None:
    kinds: list[str | None] = []
    app = ClientApp()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        kinds.append(probe_kind(message))
        if probe_kind(message) is not None and int(context.node_config["partition-id"]) % 2:
            raise RuntimeError("no probes here")
        metrics = MetricRecord({"num-examples": 3})
        arrays = message.content.array_records["arrays"]
        return Message(RecordDict({"a": arrays, "m": metrics}), reply_to=message)

    nodes = World(identify(app), CLIENTS, 1)
    made = AgeStrategy(**ASKED, policy="age-herding", probes=True, fraction_evaluate=0.0)
    result = made.start(nodes, model(0.0), 2)
    assert kinds == ["update-step"] * CLIENTS + [None] * (2 * COHORT)
    assert result.train_metrics_clientapp[2]["agewise-reported"] == COHORT
    assert not made._selector.failed, "a probe is no failure"


def test_probes_are_not_for_everyone() -> None:
    wrapper = flower.DifferentialPrivacyServerSideFixedClipping
    private = wrapper(flower.FedAvg(), 0.1, 1.0, COHORT)
    refused(lambda: AgeSelection(private, **ASKED, probes=True), "does not protect probes")
    refused(lambda: AgeStrategy(**ASKED, decentralised=True, probes=True), "probes = True")
    refused(lambda: AgeStrategy(**ASKED, probes="yes"), "probes = 'yes': expected True or False")


def test_sizes_are_learnt_from_replies() -> None:
    nodes = World(identify(counting_app()), CLIENTS, 1)
    made = AgeStrategy(**ASKED, weighting="data-size", sizes="num-examples", policy="round-robin")
    result = made.start(nodes, model(0.0), 3)
    assert result.train_metrics_clientapp[3]["agewise-reported"] == COHORT
    # Each client has replied once, so all sizes are known, and weights are those of the sizes.
    cohort = made._selector.select()
    sizes = np.array([examples(client) for client in cohort])
    np.testing.assert_allclose(cohort.weights, sizes / sizes.sum())
    later = AgeStrategy(**ASKED, weighting="data-size", sizes="num-examples", policy="round-robin")
    later.load_state_dict(made.state_dict())
    assert later._selector.select().weights.tolist() == cohort.weights.tolist()
    refused(lambda: AgeStrategy(**ASKED, sizes="large"), "sizes = 'large': expected the data sizes")


def test_unbiased_weights_move_counters_without_axes() -> None:
    """BatchNorm counts batches in an array without axes."""
    app = ClientApp()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        sent = message.content.array_records["arrays"]
        trained = {name: Array(np.asarray(sent[name].numpy() + 2)) for name in sent}
        metrics = MetricRecord({"num-examples": 3})
        return Message(RecordDict({"a": ArrayRecord(trained), "m": metrics}), reply_to=message)

    nodes = World(identify(app), CLIENTS, 1)
    made = AgeStrategy(**ASKED, weighting="unbiased", fraction_evaluate=0.0, policy="random")
    first = {"w": Array(np.zeros(2, np.float32)), "count": Array(np.array(0, dtype=np.int64))}
    result = made.start(nodes, ArrayRecord(first), 2)
    count = result.arrays["count"].numpy()
    assert count.shape == () and count == 4
    assert result.arrays["w"].numpy().tolist() == [4.0, 4.0]
