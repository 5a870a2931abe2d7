"""AgeStrategy as a strategy: what it sends, metrics, evaluation, state and continuation."""

import json
import logging

import numpy as np
import pytest
from flower_world import World, counting_app, model, trained_value, weights_of
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp.strategy import FedAvg, Result

from agewise import Selector, policies, sketch
from agewise.flower import AgeStrategy, age_mod, identify

CLIENTS, COHORT, SEED = 12, 4, 5
NAMES = [policy.name for policy in policies() if not policy.needs_options] + [
    "phased(reshuffle=0.05)",
    "markov-custom(p=[0, 0.5, 1])",
]


def strategy(policy: str = "markov-optimal", **more: object) -> AgeStrategy:
    settings = {"clients": CLIENTS, "cohort": COHORT, "policy": policy, "seed": SEED, **more}
    return AgeStrategy(**settings)


def world(seed: int = 1) -> World:
    return World(identify(counting_app()), CLIENTS, seed)


@pytest.mark.parametrize("policy", NAMES)
def test_every_policy_by_name(policy: str) -> None:
    nodes = world()
    result = strategy(policy, fraction_evaluate=0.0).start(nodes, model(0.0), 12)
    selector = Selector(policy, CLIENTS, COHORT, SEED)
    for server_round in range(1, 13):
        ids = selector.select().ids.tolist()
        before = weights_of(nodes.model_of(server_round))
        trained = [before + trained_value(number, server_round) for number in ids]
        selector.report(
            ids,
            losses=[1.0 / (number + 1) for number in ids],
            sketches=[sketch(before, after) for after in trained],
        )
        assert nodes.partitions("train", server_round) == ids
        metrics, expected = result.train_metrics_clientapp[server_round], selector.metrics()
        assert metrics["agewise-cohort"] == metrics["agewise-reported"] == len(ids)
        assert metrics["agewise-max-age"] == selector.ages.max()
        assert metrics["agewise-longest-wait"] == expected.longest_wait
        assert metrics["agewise-jain"] == expected.jain
        if np.isnan(expected.var_interval):
            assert "agewise-var-interval" not in metrics
        else:
            assert metrics["agewise-var-interval"] == expected.var_interval


def test_it_is_a_fedavg_with_fedavgs_arguments() -> None:
    chosen = AgeStrategy(0.25, 0.5, 1, 1, 1, "weight", "a", "c", clients=20)
    assert isinstance(chosen, FedAvg)
    assert chosen.cohort == 5 and chosen.weighted_by_key == "weight"
    assert AgeStrategy(clients=20).cohort == 20, "fraction_train is 1 in FedAvg too"
    assert AgeStrategy(clients=20, cohort=5).fraction_train == 0.25


def test_no_training() -> None:
    nodes = world()
    result = strategy(fraction_train=0.0, cohort=None).start(nodes, model(1.0), 2)
    assert nodes.partitions("train", 1) == []
    assert result.train_metrics_clientapp[2]["agewise-asked"] == 0
    assert len(nodes.partitions("evaluate", 2)) == CLIENTS


def test_each_node_has_its_own_config() -> None:
    nodes = world()
    config = ConfigRecord({"lr": 0.1})
    messages = list(strategy("oldest-first").configure_train(7, model(0.0), config, nodes))
    configs = [message.content.config_records["config"] for message in messages]
    assert all(dict(own) == {"lr": 0.1, "server-round": 7} for own in configs)
    configs[0]["lr"] = 9.0
    assert configs[1]["lr"] == 0.1 and dict(config) == {"lr": 0.1}


def test_evaluation_is_drawn_from_the_seed() -> None:
    def sampled(seed: int, nodes_seed: int) -> list[list[int]]:
        nodes = world(nodes_seed)
        strategy(fraction_evaluate=0.5, seed=seed).start(nodes, model(0.0), 6)
        return [nodes.partitions("evaluate", t) for t in range(1, 7)]

    first = sampled(1, 1)
    assert sampled(1, 2) == first and sampled(2, 1) != first
    assert all(len(set(some)) == 6 for some in first)
    assert len({tuple(some) for some in first}) > 1, "another sample in each round"
    nodes = world()
    result = strategy(fraction_evaluate=1.0).start(nodes, model(0.0), 1)
    counts = np.array([10 + 3 * number for number in range(CLIENTS)])
    losses = 0.1 * np.arange(CLIENTS)
    expected = (counts * losses).sum() / counts.sum()
    assert result.evaluate_metrics_clientapp[1]["eval_loss"] == pytest.approx(expected)
    assert not strategy(fraction_evaluate=0.0).configure_evaluate(
        1, model(0.0), ConfigRecord(), nodes
    )


def test_an_evaluation_that_fails_does_not_stop_the_run() -> None:
    nodes = world()

    def no_metrics(reply: object) -> object:
        if reply.metadata.message_type == "evaluate":  # type: ignore[attr-defined]
            del reply.content["metrics"]  # type: ignore[attr-defined]
        return reply

    nodes.mutations[nodes.node_of(3)] = no_metrics  # type: ignore[assignment]
    result = strategy().start(nodes, model(0.0), 1)
    assert "eval_loss" in result.evaluate_metrics_clientapp[1]


def run(chosen: AgeStrategy, arrays: ArrayRecord, rounds: int, nodes: World) -> Result:
    def evaluate(server_round: int, arrays: ArrayRecord) -> MetricRecord:
        return MetricRecord({"round": server_round})

    return chosen.start(nodes, arrays, rounds, evaluate_fn=evaluate)


@pytest.mark.parametrize("policy", NAMES)
@pytest.mark.parametrize("stop", [1, 4])
def test_continuing_is_like_never_having_stopped(policy: str, stop: int) -> None:
    settings = {"policy": policy, "fraction_evaluate": 0.5}
    whole_nodes = world(1)
    whole = run(strategy(**settings), model(0.5), 9, whole_nodes)

    first = strategy(**settings)
    before = run(first, model(0.5), stop, world(2))
    stored = json.loads(json.dumps(first.state_dict()))
    second = strategy(**settings)
    second.load_state_dict(stored)
    assert second.rounds_done == stop
    nodes = world(3)
    after = run(second, before.arrays, 9 - stop, nodes)

    assert after.arrays["w"].data == whole.arrays["w"].data
    for server_round in range(stop + 1, 10):
        for kind in ("train", "evaluate"):
            expected = whole_nodes.partitions(kind, server_round)
            assert nodes.partitions(kind, server_round) == expected
    rest = range(stop + 1, 10)
    assert list(after.train_metrics_clientapp) == list(rest)
    for name in ("train_metrics_clientapp", "evaluate_metrics_clientapp"):
        later = getattr(after, name)
        assert later == {t: getattr(whole, name)[t] for t in rest}
    # The initial evaluation of the second part is that of the model it got, after round `stop`.
    evaluated = {t: record["round"] for t, record in after.evaluate_metrics_serverapp.items()}
    assert evaluated == {t: t for t in range(stop, 10)}


def test_the_state_fits_into_a_config_record() -> None:
    chosen = strategy()
    run(chosen, model(0.0), 2, world())
    record = ConfigRecord(chosen.state_dict())
    other = strategy(seed=np.int64(SEED), clients=np.uint8(CLIENTS))
    other.load_state_dict(dict(record))
    assert other.state_dict() == chosen.state_dict()


def test_a_wrong_state_changes_nothing() -> None:
    chosen = strategy()
    run(chosen, model(0.0), 2, world())
    good = chosen.state_dict()
    other = strategy()
    fresh = other.state_dict()
    for field, wrong in [
        ("version", 2),
        ("version", True),
        ("policy", "phased"),
        ("clients", 13),
        ("cohort", 5),
        ("seed", 6),
        ("max-age", 9),
        ("round", 3),
        ("round", "2"),
        ("selector", "no base64!"),
        ("selector", "AAAA"),
        ("selector", ""),
        ("selector", None),
        ("selector", b"bytes"),
        ("failures", "no json"),
        ("failures", "[[12, 1, null]]"),
        ("failures", "[[1, true, null]]"),
        ("failures", None),
    ]:
        with pytest.raises(ValueError, match=r"state"):
            other.load_state_dict({**good, field: wrong})
        assert other.state_dict() == fresh, field
    missing = {key: value for key, value in good.items() if key != "seed"}
    for state in (missing, {**good, "more": 1}, {}, [1], None):
        with pytest.raises(ValueError, match="state"):
            other.load_state_dict(state)
    assert other.state_dict() == fresh
    other.load_state_dict(good)
    assert other.state_dict() == good


def test_a_round_that_was_broken_off_is_played_again() -> None:
    nodes = world()
    chosen = strategy(fraction_evaluate=0.0)
    run(chosen, model(0.0), 2, nodes)

    def crash(*_: object, **__: object) -> None:
        raise ConnectionError

    asked = len(nodes.sent)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nodes, "send_and_receive", crash)
        with pytest.raises(ConnectionError):
            run(chosen, model(0.0), 1, nodes)
    assert len(nodes.sent) == asked and chosen.rounds_done == 2
    result = run(chosen, model(0.0), 1, nodes)
    assert list(result.train_metrics_clientapp) == [3]


@pytest.mark.parametrize("decentralised", [False, True])
def test_a_node_that_never_answers_is_asked_less_and_less(
    decentralised: bool, caplog: pytest.LogCaptureFixture
) -> None:
    policy = "markov-optimal" if decentralised else "oldest-first"
    app = counting_app(age_mod(policy, CLIENTS, COHORT, SEED)) if decentralised else counting_app()
    nodes = World(identify(app), CLIENTS, 1)
    node = nodes.node_of(3)
    nodes.mutations[node] = lambda reply: None if reply.metadata.message_type == "train" else reply
    chosen = strategy(policy, decentralised=decentralised, fraction_evaluate=0.0)
    with caplog.at_level(logging.WARNING):
        chosen.start(nodes, model(0.0), 40)
    asked = [t for t in range(1, 41) if 3 in nodes.partitions("train", t)]
    # An interval of 3 rounds: the waits are 1, 1, 2, 3, and 6 from the fifth failure on. Where
    # clients decide, the first silence may be one of a node without a name.
    gaps = np.diff(asked).tolist()
    assert set(gaps[-3:]) == {6} and len(asked) <= 11, asked
    messages = [record.getMessage() for record in caplog.records]
    warnings = [message for message in messages if "did not deliver" in message]
    assert len(warnings) == 1 and f"node {node} (client 3)" in warnings[0]
    assert chosen.rounds_done == 40


def silent(message: Message) -> Message | None:
    """A node that states its partition id and answers nothing else."""
    return message if message.metadata.message_type.startswith("query") else None


@pytest.mark.parametrize("policy", ["oldest-first", "random", "age-herding"])
def test_a_dead_node_is_suspended_and_comes_back_under_another_id(
    policy: str, caplog: pytest.LogCaptureFixture
) -> None:
    nodes = world()
    dead = nodes.node_of(3)
    nodes.mutations[dead] = silent
    chosen = strategy(policy)
    with caplog.at_level(logging.WARNING):
        chosen.start(nodes, model(0.0), 60)
    asked = [t for t in range(1, 61) if 3 in nodes.partitions("train", t)]
    assert len(asked) == 8 and asked[-1] < 55, asked
    assert dict(chosen.suspended) == {3: dead}
    told = [r.getMessage() for r in caplog.records if "asked any more" in r.getMessage()]
    assert len(told) == 1 and f"node {dead} (client 3)" in told[0]
    # No message at all goes to it any more, so nothing waits for it.
    after = [m for m in nodes.sent if m.metadata.dst_node_id == dead]
    assert {int(m.metadata.group_id) for m in after if m.metadata.group_id.isdigit()} <= set(
        range(1, asked[-1] + 1)
    )

    # The state has it; a strategy that goes on does not ask it either.
    later = strategy(policy)
    later.load_state_dict(json.loads(json.dumps(chosen.state_dict())))
    assert dict(later.suspended) == {3: dead} and later.state_dict() == chosen.state_dict()
    later.start(nodes, model(0.0), 10)
    assert not any(3 in nodes.partitions("train", t) for t in range(61, 71))

    fresh = world(9)
    later.start(fresh, model(0.0), 20)
    assert dict(later.suspended) == {}
    assert any(3 in fresh.partitions("train", t) for t in range(71, 91))


def test_an_operator_reinstates_a_node() -> None:
    nodes = world()
    dead = nodes.node_of(3)
    nodes.mutations[dead] = silent
    chosen = strategy("oldest-first", suspend_after=2, fraction_evaluate=0.0)
    chosen.start(nodes, model(0.0), 12)
    assert dict(chosen.suspended) == {3: dead}
    with pytest.raises(ValueError, match=r"client = 4.*\[3\]"):
        chosen.reinstate(4)
    del nodes.mutations[dead]
    chosen.reinstate(3)
    with pytest.raises(ValueError, match="none is suspended"):
        chosen.reinstate(3)
    chosen.start(nodes, model(0.0), 12)
    assert any(3 in nodes.partitions("train", t) for t in range(13, 25))


def test_nodes_are_never_suspended_if_the_limit_is_none() -> None:
    nodes = world()
    nodes.mutations[nodes.node_of(3)] = silent
    chosen = strategy("oldest-first", suspend_after=0, fraction_evaluate=0.0)
    chosen.start(nodes, model(0.0), 80)
    assert dict(chosen.suspended) == {}
    assert sum(3 in nodes.partitions("train", t) for t in range(1, 81)) > 8
    with pytest.raises(ValueError, match="suspend_after"):
        strategy(suspend_after=-1)


def test_where_all_nodes_are_dead_no_round_waits_for_ever() -> None:
    nodes = world()
    for node in nodes.contexts:
        nodes.mutations[node] = silent
    chosen = strategy("oldest-first", suspend_after=1, fraction_evaluate=0.0)
    result = chosen.start(nodes, model(0.0), 12)
    assert len(chosen.suspended) == CLIENTS and chosen.rounds_done == 12
    assert result.train_metrics_clientapp[12]["agewise-asked"] == 0


def test_summary_tells_the_settings(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="flwr"):
        strategy("phased").summary()
    for text in ("Minimum nodes", "'phased', decided by the server", "12, 4 in a round", "Seed: 5"):
        assert text in caplog.text
