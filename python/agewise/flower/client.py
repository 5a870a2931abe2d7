"""The client's side: saying who one is, and deciding on one's own whether to take part."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from flwr.app import ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from agewise import Client
from agewise.flower.keys import (
    AGE_KEY,
    DECLINED_KEY,
    IDENTITY_ACTION,
    IDENTITY_MESSAGE,
    PARTITION_KEY,
    PARTITIONS_KEY,
    RECORD_KEY,
    ROUND_KEY,
    is_train,
)

if TYPE_CHECKING:
    from flwr.clientapp.typing import ClientAppCallable, Mod

#: In a client's state: the round from which its age is counted.
_SINCE_KEY = "age-counts-from"


def identify(app: ClientApp) -> ClientApp:
    """Lets an app answer the server's question which partition it holds, and returns the app.

    It registers a query function under a name of its own, so that the query functions of the app
    stay as they are. A mod cannot do this: Flower calls mods only around functions that are
    registered.

    >>> from flwr.clientapp import ClientApp
    >>> app = identify(ClientApp())
    """
    app.query(IDENTITY_ACTION)(_answer_identity)
    return app


def identity_mod(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
    """A mod that adds the node's `partition-id` to the metrics of its train replies.

    With this mod and without [`identify`][agewise.flower.identify] the server learns a node's
    number from the first training that it takes part in. A node whose config has no `partition-id`
    says nothing.

    >>> from flwr.clientapp import ClientApp
    >>> app = ClientApp(mods=[identity_mod])
    """
    if message.metadata.message_type == IDENTITY_MESSAGE:
        return _answer_identity(message, context)
    reply = call_next(message, context)
    if is_train(message):
        _sign(reply, context)
    return reply


def age_mod(
    policy: str | None = None,
    clients: int | None = None,
    cohort: int | None = None,
    seed: int | None = None,
    *,
    max_age: int | None = None,
    start: str | None = None,
) -> Mod:
    """A mod that lets the client decide whether it trains: the decentralised mode.

    What is not given here is taken from the run config (`agewise-policy`, `agewise-clients`,
    `agewise-cohort`, `agewise-seed`, `agewise-max-age`, `agewise-start`), and else is
    `"markov-optimal"`, the node's `num-partitions`, (no default), 0, 10 and `"stationary"`. All
    clients and the server need the same values.

    When a train message comes, the client makes its draw from its number, its age and the round. If
    it is not its turn, it answers at once with a small reply that says so, and the app is not
    called. If it is, the app trains, and the age begins again at 0.

    The age is kept in `context.state`, as the round from which it is counted: rounds without a
    message count. The client cannot know whether its reply was accepted and assumes that it was; an
    app that raises an error or returns one leaves the age as it is. A client without memory (a new
    run, a node that was restarted) takes the age that the server believes it to have, if the
    message says so, and otherwise the first age of its policy.

    >>> from flwr.clientapp import ClientApp
    >>> app = ClientApp(mods=[age_mod("phased", clients=100, cohort=15)])
    """
    given = (policy, clients, cohort, seed, max_age, start)

    def mod(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
        if message.metadata.message_type == IDENTITY_MESSAGE:
            return _answer_identity(message, context)
        if not is_train(message):
            return call_next(message, context)
        client = _client(_settings(given, context), _own_number(context))
        server_round = _config_number(message.content, ROUND_KEY)
        if server_round is None or server_round < 1:
            raise ValueError(
                f"{ROUND_KEY} = {server_round}: expected the round in the config, 1 or more"
            )
        round_from_zero = server_round - 1
        since = _since(client, message.content, context.state, round_from_zero)
        context.state[RECORD_KEY] = ConfigRecord({_SINCE_KEY: since})
        if not client.takes_part(round_from_zero, round_from_zero - since):
            refusal = MetricRecord({DECLINED_KEY: 1, PARTITION_KEY: _own_number(context)})
            return Message(RecordDict({RECORD_KEY: refusal}), reply_to=message)
        reply = call_next(message, context)
        if not reply.has_error():
            context.state[RECORD_KEY] = ConfigRecord({_SINCE_KEY: round_from_zero + 1})
            _sign(reply, context)
        return reply

    return mod


def _partition(context: Context) -> int | None:
    value = context.node_config.get(PARTITION_KEY)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _own_number(context: Context) -> int:
    number = _partition(context)
    if number is None:
        value = context.node_config.get(PARTITION_KEY)
        raise ValueError(
            f"{PARTITION_KEY} = {value!r}: expected the number of the client in the node config"
        )
    return number


def _answer_identity(message: Message, context: Context) -> Message:
    number = _partition(context)
    metrics = MetricRecord({} if number is None else {PARTITION_KEY: number})
    return Message(RecordDict({RECORD_KEY: metrics}), reply_to=message)


def _sign(reply: Message, context: Context) -> None:
    """Adds the node's number to the metrics of a reply, unless the app did it itself."""
    number = _partition(context)
    if number is None or not reply.has_content():
        return
    for metrics in reply.content.metric_records.values():
        metrics.setdefault(PARTITION_KEY, number)


def _config_number(content: RecordDict, key: str) -> int | None:
    for config in content.config_records.values():
        value = config.get(key)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    return None


def _since(client: Client, content: RecordDict, state: RecordDict, round_from_zero: int) -> int:
    """The round from which the client's age counts."""
    memory = state.get(RECORD_KEY)
    since = memory.get(_SINCE_KEY) if isinstance(memory, ConfigRecord) else None
    # A memory of rounds that are still to come is that of another course of events: the server went
    # back.
    if isinstance(since, int) and since <= round_from_zero:
        return since
    believed = _config_number(content, AGE_KEY)
    age = client.first_age if believed is None or believed < 0 else believed
    return round_from_zero - age


_Given = tuple[str | None, int | None, int | None, int | None, int | None, str | None]
_Settings = tuple[str, int, int, int, int, str]


def _settings(given: _Given, context: Context) -> _Settings:
    """What was given, then what the run config says, then the defaults."""
    policy, clients, cohort, seed, max_age, start = given
    partitions = context.node_config.get(PARTITIONS_KEY)
    return (
        _text(policy, "policy", context, "markov-optimal"),
        _whole(clients, "clients", context, partitions),
        _whole(cohort, "cohort", context, None),
        _whole(seed, "seed", context, 0),
        _whole(max_age, "max-age", context, 10),
        _text(start, "start", context, "stationary"),
    )


def _whole(given: int | None, name: str, context: Context, default: object) -> int:
    value = context.run_config.get(f"agewise-{name}", default) if given is None else given
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(
            f"{name} = {value!r}: expected a whole number, in age_mod or as agewise-{name} "
            "in the run config"
        )
    return value


def _text(given: str | None, name: str, context: Context, default: str) -> str:
    value = context.run_config.get(f"agewise-{name}", default) if given is None else given
    if not isinstance(value, str):
        raise ValueError(
            f"{name} = {value!r}: expected a text, in age_mod or as agewise-{name} "
            "in the run config"
        )
    return value


@lru_cache(maxsize=1024)
def _client(settings: _Settings, number: int) -> Client:
    policy, clients, cohort, seed, max_age, start = settings
    return Client(policy, clients, cohort, number, seed, max_age=max_age, start=start)
