"""The assignment of nodes to clients when nodes join, leave, or state no or a wrong partition
id."""

import pytest
from flower_world import World, counting_app, made_strategy, model
from flwr.app import ConfigRecord, Message

from agewise import Selector
from agewise.flower import AgeStrategy, identify, identity_mod

TRAIN = "train"


def strategy(clients: int = 8, cohort: int = 3, **more: object) -> AgeStrategy:
    return made_strategy(clients, cohort, 4, policy="oldest-first", **more)


def asked_nodes(chosen: AgeStrategy, world: World) -> list[int]:
    """The nodes that would be asked now, by increasing number."""
    messages = chosen.configure_train(1, model(0.0), ConfigRecord(), world)
    return [message.metadata.dst_node_id for message in messages]


def played(rounds: int, clients: int = 8, cohort: int = 3) -> list[list[int]]:
    """The cohorts of the core, if all report."""
    selector = Selector("oldest-first", clients, cohort, seed=4)
    cohorts = []
    for _ in range(rounds):
        cohorts.append(selector.select().ids.tolist())
        selector.report(cohorts[-1])
    return cohorts


def test_cohorts_are_those_of_the_core_whatever_the_node_ids() -> None:
    for seed in range(5):
        world = World(identify(counting_app()), 8, seed)
        strategy().start(world, model(0.0), 6)
        assert [world.partitions(TRAIN, t) for t in range(1, 7)] == played(6)
        assert sorted(world.queries()) == sorted(world.contexts), "each node is asked once"


def test_a_node_that_comes_back_under_another_id_has_its_old_age() -> None:
    world = World(identify(counting_app()), 8, 1)
    chosen = strategy()
    chosen.start(world, model(0.0), 2)
    for partition in range(8):
        world.disconnect(world.node_of(partition))
        world.connect(partition)
    chosen.start(world, model(0.0), 4)
    assert [world.partitions(TRAIN, t) for t in range(3, 7)] == played(6)[2:]


def test_a_node_that_does_not_answer_is_asked_again() -> None:
    world = World(identify(counting_app()), 8, 1)
    node, silent = world.node_of(5), [True]

    def once(reply: Message) -> Message | None:
        return None if reply.metadata.message_type.startswith("query") and silent.pop() else reply

    world.mutations[node] = once
    chosen = strategy()
    chosen.start(world, model(0.0), 1)
    assert world.queries().count(node) == 1
    silent.append(False)
    chosen.start(world, model(0.0), 2)
    assert world.queries().count(node) == 2 and len(world.queries()) == 9
    del world.mutations[node]
    chosen.start(world, model(0.0), 3)
    assert len(world.queries()) == 9
    assert asked_nodes(chosen, world)


def test_a_disconnected_client_is_not_asked_and_its_age_grows() -> None:
    world = World(identify(counting_app()), 8, 1)
    chosen = strategy()
    away = played(1)[0][0]
    world.disconnect(world.node_of(away))
    chosen.start(world, model(0.0), 3)
    assert all(away not in world.partitions(TRAIN, t) for t in range(1, 4))
    world.connect(away)
    chosen.start(world, model(0.0), 1)
    assert away in world.partitions(TRAIN, 4), "the oldest of all"


def test_anonymous_nodes_are_assigned_unused_partition_ids(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World(counting_app(), 8, 1)
    chosen = strategy()
    chosen.start(world, model(0.0), 8)
    expected = played(8)
    by_id = sorted(world.contexts)
    for server_round in range(1, 9):
        asked = [
            message.metadata.dst_node_id
            for message in world.sent
            if message.metadata.message_type == TRAIN
            and message.content["config"]["server-round"] == server_round
        ]
        assert [by_id.index(node) for node in asked] == expected[server_round - 1]
    assert "8 of 8 new nodes did not state their partition id" in caplog.text


def test_a_train_reply_moves_a_node_to_its_partition() -> None:
    world = World(counting_app(identity_mod), 8, 1)
    chosen = strategy()
    chosen.start(world, model(0.0), 1)
    first = world.partitions(TRAIN, 1)
    ages = chosen._selector.ages
    # The partitions that trained are credited, not those under which the nodes were asked.
    assert [number for number in range(8) if ages[number] == 0] == sorted(first)
    chosen.start(world, model(0.0), 20)
    # After 20 rounds all nodes are identified, so the last rounds are a rotation of all clients.
    last = [number for t in range(17, 22) for number in world.partitions(TRAIN, t)]
    assert set(last) == set(range(8))


def test_two_nodes_of_one_partition(caplog: pytest.LogCaptureFixture) -> None:
    world = World(identify(counting_app()), 8, 1)
    world.connect(3)
    chosen = strategy(cohort=8)
    result = chosen.start(world, model(0.0), 2)
    assert result.train_metrics_clientapp[2]["agewise-reported"] == 8
    assert sorted(world.partitions(TRAIN, 2)) == list(range(8))
    assert caplog.text.count("is excluded: partition id 3 is that of node") == 1


def test_the_second_of_two_takes_over_when_the_first_goes() -> None:
    world = World(identify(counting_app()), 8, 1)
    first = world.node_of(3)
    chosen = strategy(cohort=8)
    chosen.start(world, model(0.0), 1)
    second = world.connect(3, node=1)
    chosen.start(world, model(0.0), 1)
    nodes = [m.metadata.dst_node_id for m in world.sent if m.metadata.message_type == TRAIN]
    assert nodes.count(first) == 2 and second not in nodes, "a lower id takes nothing away"
    world.disconnect(first)
    chosen.start(world, model(0.0), 1)
    assert world.sent[-8:][3].metadata.dst_node_id == second


@pytest.mark.parametrize("partition", [8, -1, 10**12])
def test_a_partition_that_does_not_exist(partition: int, caplog: pytest.LogCaptureFixture) -> None:
    world = World(identify(counting_app()), 7, 1)
    node = world.connect(partition)
    result = strategy(cohort=8).start(world, model(0.0), 2)
    assert result.train_metrics_clientapp[2]["agewise-reported"] == 7
    said = f"node {node} is excluded: partition id {partition}, expected 0 to 7"
    assert caplog.text.count(said) == 1


@pytest.mark.parametrize("partition", [None, "three", True, 2.5])
def test_a_node_without_a_partition_id_is_anonymous(partition: object) -> None:
    world = World(identify(counting_app()), 0, 1)
    for number in (0, 1, 2, 4, 5, 6, 7):
        world.connect(number)
    anonymous = world.connect(partition)
    chosen = strategy(cohort=8)
    assert asked_nodes(chosen, world)[3] == anonymous, "3 was unused"
    # An identified node claims 3, so no partition id is left for the anonymous node.
    identified = world.connect(3)
    nodes = asked_nodes(chosen, world)
    assert nodes[3] == identified and anonymous not in nodes


def test_an_anonymous_node_is_not_assigned_the_partition_id_of_a_disconnected_client() -> None:
    world = World(identify(counting_app()), 4, 1)
    chosen = strategy(cohort=8)
    identified = asked_nodes(chosen, world)
    world.disconnect(identified[0])
    anonymous = world.connect(None)
    assert asked_nodes(chosen, world) == [*identified[1:], anonymous]


def test_an_identified_node_keeps_its_partition_id() -> None:
    world = World(identify(counting_app(identity_mod)), 8, 1)
    chosen = strategy(cohort=8)
    identified = asked_nodes(chosen, world)
    world.contexts[identified[2]].node_config["partition-id"] = 5
    chosen.start(world, model(0.0), 2)
    assert asked_nodes(chosen, world) == identified


def test_more_nodes_than_clients(caplog: pytest.LogCaptureFixture) -> None:
    world = World(counting_app(), 11, 1)
    result = strategy(cohort=8).start(world, model(0.0), 3)
    assert result.train_metrics_clientapp[3]["agewise-asked"] == 8
    assert caplog.text.count("is excluded: all 8 partition ids are assigned") == 3


def test_an_anonymous_node_keeps_its_partition_id_while_others_join_and_leave() -> None:
    world = World(counting_app(), 4, 1)
    chosen = strategy(cohort=8)
    before = asked_nodes(chosen, world)
    gone = before[1]
    context = world.contexts.pop(gone)
    newcomer = world.connect(None, node=1)
    assigned = asked_nodes(chosen, world)
    assert assigned == [before[0], newcomer, *before[2:]]
    world.contexts[gone] = context
    assigned = asked_nodes(chosen, world)
    assert assigned == [before[0], newcomer, *before[2:], gone], (
        "a connected node keeps its partition id"
    )


def test_it_waits_for_enough_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(identify(counting_app()), 0, 1)
    waited = []

    def sleep(seconds: float) -> None:
        waited.append(seconds)
        world.connect(len(world.contexts))

    monkeypatch.setattr("time.sleep", sleep)
    chosen = strategy(min_available_nodes=5)
    list(chosen.configure_train(1, model(0.0), ConfigRecord(), world))
    assert len(waited) == 5
    chosen = strategy(min_available_nodes=2, min_train_nodes=7)
    list(chosen.configure_train(1, model(0.0), ConfigRecord(), world))
    assert len(world.contexts) == 7
