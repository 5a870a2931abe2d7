"""AgeStrategy inside other strategies of Flower, which may drop a round before ours hears of it."""

import logging
from collections.abc import Callable

import pytest
from flower_world import World, counting_app, made_strategy, model, weights_of
from flwr.app import ConfigRecord, Error, Message, RecordDict
from flwr.serverapp.strategy import (
    DifferentialPrivacyClientSideFixedClipping,
    DifferentialPrivacyServerSideAdaptiveClipping,
    DifferentialPrivacyServerSideFixedClipping,
    Strategy,
)

from agewise.flower import AgeStrategy, identify
from agewise.flower.lost_rounds import LostRounds

CLIENTS, COHORT, ROUNDS = 12, 4, 60
DEAD = 5


def fixed(inner: AgeStrategy) -> Strategy:
    return DifferentialPrivacyServerSideFixedClipping(inner, 0.0, 1e6, COHORT)


def fixed_by_clients(inner: AgeStrategy) -> Strategy:
    return DifferentialPrivacyClientSideFixedClipping(inner, 0.0, 1e6, COHORT)


def adaptive(inner: AgeStrategy) -> Strategy:
    return DifferentialPrivacyServerSideAdaptiveClipping(inner, 0.1, COHORT, 1e6)


def error(reply: Message) -> Message:
    meta = reply.metadata
    question = Message(RecordDict(), meta.src_node_id, meta.message_type, group_id=meta.group_id)
    return Message(Error(code=0, reason="x"), reply_to=question)


def broken_world(dead: set[int]) -> World:
    nodes = World(identify(counting_app()), CLIENTS, 1)
    for client in dead:
        nodes.mutations[nodes.node_of(client)] = error
    return nodes


@pytest.mark.parametrize("wrapper", [fixed, fixed_by_clients, adaptive])
@pytest.mark.parametrize("policy", ["oldest-first", "age-herding", "markov-capped"])
def test_a_wrapper_goes_on_after_a_failed_client(
    wrapper: Callable[[AgeStrategy], Strategy], policy: str, caplog: pytest.LogCaptureFixture
) -> None:
    nodes = broken_world({DEAD})
    caplog.set_level(logging.WARNING, logger="flwr")
    inner = made_strategy(CLIENTS, COHORT, 2, policy=policy)
    result = wrapper(inner).start(nodes, model(0.0), ROUNDS)
    trained = len(result.train_metrics_clientapp)
    asked = [nodes.partitions("train", server_round) for server_round in range(1, ROUNDS + 1)]
    with_dead = sum(DEAD in cohort for cohort in asked)
    # Each round with the dead client is lost, and no other one.
    assert trained == ROUNDS - with_dead
    # It is found after at most three rounds (of four members two and then one are asked again), and
    # then waits 1, 1, 2, 3 and 6 rounds; a coincidence may take a round more.
    assert with_dead <= 17, with_dead
    # Nobody else pays for it.
    for client in set(range(CLIENTS)) - {DEAD}:
        assert sum(client in cohort for cohort in asked[-20:]) >= 3, client
    if policy == "oldest-first":
        assert f"because of client {DEAD}" in caplog.text
    # The noise of the adaptive wrapper is that of its bound.
    if wrapper is not adaptive:
        assert weights_of(result.arrays)[0] > 0.0


def test_several_failing_clients_are_found() -> None:
    dead = {DEAD, 2, 9}
    nodes = broken_world(dead)
    result = fixed(made_strategy(CLIENTS, COHORT, 2, policy="oldest-first")).start(
        nodes, model(0.0), 100
    )
    asked = [nodes.partitions("train", server_round) for server_round in range(1, 101)]
    lost = sum(bool(dead & set(cohort)) for cohort in asked)
    assert len(result.train_metrics_clientapp) == 100 - lost
    assert lost < 60, "each costs a round in six, once it is known"
    for client in set(range(CLIENTS)) - dead:
        assert any(client in cohort for cohort in asked[-20:]), client


def test_a_round_that_is_asked_for_again_is_not_lost() -> None:
    chosen = made_strategy(CLIENTS, COHORT, 2, policy="oldest-first")
    nodes = broken_world(set())
    arrays, config = model(0.0), ConfigRecord()
    # The run is broken off between the question and the replies, in `start` and by itself.
    first = [list(chosen.configure_train(1, arrays, config, nodes)) for _ in range(2)]
    assert len({message.metadata.dst_node_id for asked in first for message in asked}) == COHORT
    chosen.start(nodes, arrays, 3)
    assert chosen.rounds_done == 3


def test_suspects_are_halved() -> None:
    lost = LostRounds()
    assert lost.dropped([1, 4, 6, 9], []) == [] and lost.held_back == {6, 9}
    # The others delivered: it is one of those who were held back.
    lost.delivered([1, 4, 7, 8])
    assert lost.held_back == set()
    assert lost.dropped([6, 9, 2, 3], []) == [] and lost.held_back == {9}
    assert lost.dropped([6, 1, 2, 3], []) == [6] and lost.held_back == set()
    # It is known now, and found guilty at once.
    assert lost.dropped([6, 9, 2, 3], [6]) == [6]
