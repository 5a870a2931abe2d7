"""The client's side: names, and clients that decide on their own."""

import numpy as np
import pytest
from flower_world import World, counting_app, made_strategy, model
from flwr.app import (
    ArrayRecord,
    ConfigRecord,
    Context,
    Error,
    Message,
    MetricRecord,
    RecordDict,
)
from flwr.clientapp import ClientApp

from agewise import Client, Selector
from agewise.flower import AgeStrategy, age_mod, identify, identity_mod

CLIENTS, COHORT, SEED = 20, 4, 3
DECIDED_BY_CLIENTS = [
    "markov-optimal",
    "markov-linear",
    "markov-custom(p=[0, 0.2, 0.4, 0.8, 1])",
    "phased",
    "phased(reshuffle=0.3)",
]


def strategy(policy: str = "markov-optimal", **more: object) -> AgeStrategy:
    return made_strategy(CLIENTS, COHORT, SEED, policy=policy, empty_cohort="skip", **more)


def world(policy: str = "markov-optimal", seed: int = 1, *, named: bool = True) -> World:
    app = counting_app(age_mod(policy, CLIENTS, COHORT, SEED))
    return World(identify(app) if named else app, CLIENTS, seed)


def credited(chosen: AgeStrategy) -> list[int]:
    """The clients that were credited in the last round."""
    return np.flatnonzero(chosen._selector.ages == 0).tolist()


def played(chosen: AgeStrategy, nodes: World, rounds: int) -> list[list[int]]:
    """Runs rounds and returns the clients that were credited in each."""
    cohorts = []
    for _ in range(rounds):
        chosen.start(nodes, model(0.0), 1)
        cohorts.append(credited(chosen))
    return cohorts


@pytest.mark.parametrize("policy", DECIDED_BY_CLIENTS)
@pytest.mark.parametrize("named", [True, False], ids=["identify", "mod only"])
def test_clients_alone_form_the_cohorts_of_the_server(policy: str, named: bool) -> None:
    alone, chosen = world(policy, named=named), strategy(policy, decentralised=True)
    centre = World(identify(counting_app()), CLIENTS, 2)
    decentral = chosen.start(alone, model(0.5), 30)
    central = strategy(policy).start(centre, model(0.5), 30)
    assert decentral.arrays["w"].data == central.arrays["w"].data
    for t in range(1, 31):
        ours, theirs = decentral.train_metrics_clientapp[t], central.train_metrics_clientapp[t]
        assert ours["agewise-asked"] == CLIENTS
        assert {**ours, "agewise-asked": 0} == {**theirs, "agewise-asked": 0}
    assert alone.queries() == [], "the replies of the first round have told all names"


def test_no_client_is_forced() -> None:
    # A law under which hardly anyone comes: some of the rounds are empty.
    policy = "markov-custom(p=[0.02, 0.02])"
    nodes, chosen = world(policy), strategy(policy, decentralised=True)
    result = chosen.start(nodes, model(1.0), 40)
    sizes = [result.train_metrics_clientapp[t]["agewise-cohort"] for t in range(1, 41)]
    assert 0 in sizes
    selector = Selector(policy, CLIENTS, COHORT, SEED, empty_cohort="skip")
    for size in sizes:
        ids = selector.select().ids
        selector.report(ids)
        assert size == len(ids)


def test_rounds_without_a_message_count() -> None:
    nodes, chosen = world("phased"), strategy("phased", decentralised=True)
    selector = Selector("phased", CLIENTS, COHORT, SEED, empty_cohort="skip")
    for t in range(12):
        away = [] if t < 3 else [2, 7, 11] if t < 9 else []
        contexts = dict(nodes.contexts)
        for number in away:
            del nodes.contexts[nodes.node_of(number)]
        expected = selector.select(available=[k for k in range(CLIENTS) if k not in away]).ids
        selector.report(expected)
        assert played(chosen, nodes, 1) == [expected.tolist()]
        nodes.contexts = contexts


def test_a_client_that_fails_stays_due() -> None:
    nodes, chosen = world("phased"), strategy("phased", decentralised=True)
    selector = Selector("phased", CLIENTS, COHORT, SEED, empty_cohort="skip")
    unlucky = int(selector.select().ids[0])
    app, failing = nodes.app, True

    def breaking(message: Message, context: Context) -> Message:
        def raise_error(*_: object) -> Message:
            raise RuntimeError("out of memory")

        if failing and context.node_config["partition-id"] == unlucky:
            mod = age_mod("phased", CLIENTS, COHORT, SEED)
            return mod(message, context, raise_error)
        return app(message, context)

    nodes.app = breaking  # type: ignore[assignment]
    for t in range(6):
        failing = t < 3
        ids = [k for k in selector.select().ids.tolist() if not (failing and k == unlucky)]
        selector.report(ids)
        assert played(chosen, nodes, 1) == [ids]


@pytest.mark.parametrize("policy", ["markov-optimal", "phased"])
def test_a_node_that_lost_its_memory_takes_the_servers_age(policy: str) -> None:
    nodes, chosen = world(policy), strategy(policy, decentralised=True)
    reference = played(strategy(policy), World(identify(counting_app()), CLIENTS, 2), 25)
    found = []
    for _ in range(25):
        # All nodes are restarted before every round: other ids, empty states.
        for number in range(CLIENTS):
            nodes.disconnect(nodes.node_of(number))
            nodes.connect(number)
        found += played(chosen, nodes, 1)
    assert found == reference


def test_continuing_in_a_new_run() -> None:
    reference = played(strategy(decentralised=True), world(seed=1), 14)
    first = strategy(decentralised=True)
    assert played(first, world(seed=2), 6) == reference[:6]
    second = strategy(decentralised=True)
    second.load_state_dict(first.state_dict())
    assert played(second, world(seed=3), 8) == reference[6:]


def test_without_a_name_and_a_memory_the_first_age_counts() -> None:
    chosen = strategy(decentralised=True)
    nodes = world(named=False)
    played(chosen, nodes, 6)
    second = strategy(decentralised=True)
    second.load_state_dict(chosen.state_dict())
    sizes = [len(cohort) for cohort in played(second, world(seed=3, named=False), 10)]
    # Not everyone at once, as it would be if all ages began with the run.
    assert max(sizes) < CLIENTS / 2 and sum(sizes) > 10


@pytest.mark.parametrize("number", range(6))
def test_a_client_remembers_from_when_its_age_counts(number: int) -> None:
    nodes = World(ClientApp(), CLIENTS, 0)
    context = nodes.contexts[nodes.node_of(number)]
    # The first message comes in round 6, without an age: the client begins with its first one.
    client = Client("markov-linear", CLIENTS, COHORT, number, SEED)
    failing, age = True, client.initial_age
    mod = age_mod("markov-linear", CLIENTS, COHORT, SEED)

    def train(message: Message, _: Context) -> Message:
        if failing:
            return Message(Error(code=0, reason="out of memory"), reply_to=message)
        metrics = MetricRecord({"num-examples": 1})
        return Message(RecordDict({"m": metrics}), reply_to=message)

    outcomes = []
    for server_round in range(6, 60):
        record = ConfigRecord({"server-round": server_round})
        message = Message(RecordDict({"config": record}), 1, "train")
        failing = server_round < 20
        reply = mod(message, context, train)
        declined = reply.has_content() and "agewise" in reply.content
        assert declined != client.takes_part(server_round - 1, age)
        trained = not declined and not failing
        age = 0 if trained else age + 1
        outcomes.append((declined, reply.has_error()))
    assert set(outcomes) == {(True, False), (False, True), (False, False)}


def test_a_server_that_went_back_is_followed() -> None:
    nodes, chosen = world(), strategy(decentralised=True)
    played(chosen, nodes, 4)
    state = chosen.state_dict()
    expected = played(chosen, nodes, 5)
    again = strategy(decentralised=True)
    again.load_state_dict(state)
    # The clients remember rounds that the server has forgotten. Those whose memory lies ahead of
    # the round take the server's age; the others have not been credited since.
    assert played(again, nodes, 5)[0] == expected[0]


def declined_and_trained() -> tuple[Message, Message]:
    nodes = world()
    chosen = strategy(decentralised=True)
    replies = [
        nodes.answer(message)
        for message in chosen.configure_train(1, model(*range(100)), ConfigRecord(), nodes)
    ]
    declined = [reply for reply in replies if not reply.content.array_records]
    trained = [reply for reply in replies if reply.content.array_records]
    return declined[0], trained[0]


def test_a_declining_reply_is_small_and_marked() -> None:
    declined, trained = declined_and_trained()
    assert not declined.has_error()
    assert set(declined.content["agewise"]) == {"agewise-declined", "partition-id"}
    assert "agewise-declined" not in trained.content["metrics"]
    assert "partition-id" in trained.content["metrics"]


def test_the_app_is_not_called_when_the_client_declines() -> None:
    called: list[int] = []
    app = ClientApp(mods=[age_mod("phased", CLIENTS, COHORT, SEED)])

    @app.train()
    def train(message: Message, context: Context) -> Message:
        called.append(int(context.node_config["partition-id"]))
        metrics = MetricRecord({"num-examples": 1})
        return Message(RecordDict({"a": model(1.0), "m": metrics}), reply_to=message)

    nodes, chosen = World(app, CLIENTS, 1), strategy("phased", decentralised=True)
    assert played(chosen, nodes, 1) == [sorted(called)]
    assert 0 < len(called) < CLIENTS


def test_settings_from_the_run_config() -> None:
    nodes = World(identify(counting_app(age_mod())), CLIENTS, 1)
    for context in nodes.contexts.values():
        context.run_config.update(
            {"agewise-policy": "phased", "agewise-cohort": COHORT, "agewise-seed": SEED}
        )
    chosen = strategy("phased", decentralised=True)
    centre = World(identify(counting_app()), CLIENTS, 2)
    assert played(chosen, nodes, 8) == played(strategy("phased"), centre, 8)


@pytest.mark.parametrize(
    ("run_config", "node_config", "config", "said"),
    [
        ({}, {}, {}, "cohort = None"),
        ({"agewise-cohort": "4"}, {}, {}, "cohort = '4'"),
        ({"agewise-cohort": 4, "agewise-policy": 3}, {}, {}, "policy = 3"),
        ({"agewise-cohort": 4, "agewise-policy": "random"}, {}, {}, "policy = random"),
        ({"agewise-cohort": 4}, {"num-partitions": None}, {}, "clients = None"),
        ({"agewise-cohort": 4}, {"partition-id": "0"}, {}, "partition-id = '0'"),
        ({"agewise-cohort": 4}, {"partition-id": 20}, {}, "client = 20"),
        ({"agewise-cohort": 4}, {}, {"server-round": 0}, "server-round = 0"),
        ({"agewise-cohort": 4}, {}, {"server-round": "1"}, "server-round = None"),
    ],
)
def test_wrong_settings_are_named(
    run_config: dict[str, object],
    node_config: dict[str, object],
    config: dict[str, object],
    said: str,
) -> None:
    World(ClientApp(), 0, 0)
    node = {"partition-id": 0, "num-partitions": CLIENTS, **node_config}
    context = Context(1, 1, node, RecordDict(), run_config)
    record = ConfigRecord({"server-round": 1, **config})  # type: ignore[dict-item]
    message = Message(RecordDict({"config": record}), 1, "train")
    with pytest.raises(ValueError, match=said):
        age_mod()(message, context, lambda message, context: message)


def test_other_messages_pass() -> None:
    def echo(message: Message, _: Context) -> Message:
        return Message(message.content, reply_to=message)

    nodes = world()
    replies = []
    for kind in ("evaluate", "evaluate.more", "query"):
        message = Message(RecordDict({"arrays": ArrayRecord()}), nodes.node_of(0), kind)
        context = nodes.contexts[nodes.node_of(0)]
        replies += [mod(message, context, echo) for mod in (age_mod(), identity_mod)]
    assert all(list(reply.content) == ["arrays"] for reply in replies)


def test_a_name_that_the_app_gives_itself_is_kept() -> None:
    nodes = world()
    context = nodes.contexts[nodes.node_of(5)]
    message = Message(RecordDict(), nodes.node_of(5), "train")

    def app(message: Message, _: Context) -> Message:
        return Message(RecordDict({"m": MetricRecord({"partition-id": 9})}), reply_to=message)

    assert identity_mod(message, context, app).content["m"]["partition-id"] == 9


def test_identify_leaves_the_apps_own_queries() -> None:
    app = counting_app()

    @app.query()
    def query(message: Message, context: Context) -> Message:
        return Message(RecordDict({"own": MetricRecord({"x": 1})}), reply_to=message)

    nodes = World(identify(app), CLIENTS, 1)
    own = nodes.answer(Message(RecordDict(), nodes.node_of(1), "query"))
    assert "own" in own.content
    strategy("phased").start(nodes, model(0.0), 1)
    assert len(nodes.queries()) == CLIENTS
    with pytest.raises(ValueError, match="agewise_identity"):
        identify(app)


@pytest.mark.parametrize(("policy", "decentralised"), [("oldest-first", False), ("phased", True)])
def test_one_run_config_serves_both_sides(policy: str, decentralised: bool) -> None:
    config = {
        "agewise-policy": policy,
        "agewise-clients": CLIENTS,
        "agewise-cohort": COHORT,
        "agewise-seed": SEED,
        "agewise-decentralised": decentralised,
    }
    nodes = World(identify(counting_app(age_mod())), CLIENTS, 1)
    for context in nodes.contexts.values():
        context.run_config.update(config)
    chosen = AgeStrategy.from_run_config(config, fraction_evaluate=0.0, empty_cohort="skip")
    assert chosen.decentralised is decentralised
    selector = Selector(policy, CLIENTS, COHORT, SEED, empty_cohort="skip")
    for found in played(chosen, nodes, 6):
        assert found == selector.select().ids.tolist()
        selector.report(found)
    assert AgeStrategy.from_run_config(config, cohort=7).cohort == 7
    with pytest.raises(ValueError, match="cohort = 'many'"):
        AgeStrategy.from_run_config(config, cohort="many")
