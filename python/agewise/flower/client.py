"""The client side: stating the partition id, and deciding locally whether to take part."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from flwr.app import ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from agewise import Client
from agewise.flower.keys import (
    AGE_KEY,
    DECENTRALISED_KEY,
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

#: In a client's state: the round since which its age is counted.
_SINCE_KEY = "age-counts-from"


def identify(app: ClientApp) -> ClientApp:
    """Lets an app state its partition id when the server asks for it, and returns the app.

    It registers a query function under its own name, so the query functions of the app are not
    affected. A mod cannot do this: Flower calls mods only around registered functions.

    >>> from flwr.clientapp import ClientApp
    >>> app = identify(ClientApp())
    """
    app.query(IDENTITY_ACTION)(_answer_identity)
    return app


def identity_mod(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
    """A mod that adds the node's `partition-id` to the metrics of its train replies.

    With this mod and without [`identify`][agewise.flower.identify] the server learns the partition
    id of a node from its first train reply. A node whose config has no `partition-id` stays
    anonymous.

    >>> from flwr.clientapp import ClientApp
    >>> app = ClientApp(mods=[identity_mod])
    """
    if message.metadata.message_type == IDENTITY_MESSAGE:
        return _answer_identity(message, context)
    reply = call_next(message, context)
    if is_train(message):
        _add_partition(reply, context)
    return reply


def age_mod(
    policy: str | None = None,
    clients: int | None = None,
    cohort: int | None = None,
    seed: int | None = None,
    *,
    max_age: int | str | None = None,
    start: str | None = None,
) -> Mod:
    """A mod that lets the client decide whether it trains: the decentralised mode.

    Arguments that are not given are taken from the run config (`agewise-policy`,
    `agewise-clients`, `agewise-cohort`, `agewise-seed`, `agewise-max-age`, `agewise-start`). The
    defaults are `"markov-optimal"`, the node's `num-partitions`, (no default), 0,
    `"auto"` and `"stationary"`. All clients and the server need the same values. If
    `agewise-decentralised` is false in the run config, the mod only states the partition id, like
    [`identity_mod`][agewise.flower.identity_mod].

    When a train message arrives, the client decides by its partition id, its age and the round. If
    it does not take part, it declines with a small reply, and the app is not called. If it takes
    part, the app trains, and the age becomes 0.

    The age is stored in `context.state` as the round since which it is counted, so rounds without a
    message count too. The client cannot know whether its reply was accepted, and assumes that it
    was. An app that raises or returns an error leaves the age unchanged. A client without stored
    age (a new run, a node that was restarted) uses the age that the server states in the message,
    and the initial age of its policy if the message has none.

    >>> from flwr.clientapp import ClientApp
    >>> app = ClientApp(mods=[age_mod("phased", clients=100, cohort=15)])
    """
    given = (policy, clients, cohort, seed, max_age, start)

    def mod(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
        if message.metadata.message_type == IDENTITY_MESSAGE:
            return _answer_identity(message, context)
        if not is_train(message):
            return call_next(message, context)
        if context.run_config.get(DECENTRALISED_KEY) is False:
            return identity_mod(message, context, call_next)
        client = _client(_settings(given, context), _required_partition(context))
        round_from_zero = server_round(message) - 1
        since = _since(client, message.content, context.state, round_from_zero)
        context.state[RECORD_KEY] = ConfigRecord({_SINCE_KEY: since})
        if not client.takes_part(round_from_zero, round_from_zero - since):
            refusal = MetricRecord({DECLINED_KEY: 1, PARTITION_KEY: _required_partition(context)})
            return Message(RecordDict({RECORD_KEY: refusal}), reply_to=message)
        reply = call_next(message, context)
        if not reply.has_error():
            context.state[RECORD_KEY] = ConfigRecord({_SINCE_KEY: round_from_zero + 1})
            _add_partition(reply, context)
        return reply

    return mod


def server_round(message: Message) -> int:
    """The round of a message, counted from 1."""
    found = _config_number(message.content, ROUND_KEY)
    if found is None or found < 1:
        raise ValueError(f"{ROUND_KEY} = {found}: expected a round of at least 1 in the config")
    return found


def _partition(context: Context) -> int | None:
    value = context.node_config.get(PARTITION_KEY)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _required_partition(context: Context) -> int:
    partition = _partition(context)
    if partition is None:
        value = context.node_config.get(PARTITION_KEY)
        raise ValueError(
            f"{PARTITION_KEY} = {value!r}: expected the partition id in the node config"
        )
    return partition


def _answer_identity(message: Message, context: Context) -> Message:
    partition = _partition(context)
    metrics = MetricRecord({} if partition is None else {PARTITION_KEY: partition})
    return Message(RecordDict({RECORD_KEY: metrics}), reply_to=message)


def _add_partition(reply: Message, context: Context) -> None:
    """Adds the partition id to the metrics of a reply, unless the app has added it."""
    partition = _partition(context)
    if partition is None or not reply.has_content():
        return
    for metrics in reply.content.metric_records.values():
        metrics.setdefault(PARTITION_KEY, partition)


def _config_number(content: RecordDict, key: str) -> int | None:
    for config in content.config_records.values():
        value = config.get(key)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    return None


def _since(client: Client, content: RecordDict, state: RecordDict, round_from_zero: int) -> int:
    """The round since which the age of the client is counted."""
    memory = state.get(RECORD_KEY)
    since = memory.get(_SINCE_KEY) if isinstance(memory, ConfigRecord) else None
    # A stored round in the future means that the server was restored to an earlier state.
    if isinstance(since, int) and since <= round_from_zero:
        return since
    stated = _config_number(content, AGE_KEY)
    age = client.initial_age if stated is None or stated < 0 else stated
    return round_from_zero - age


_Given = tuple[str | None, int | None, int | None, int | None, int | str | None, str | None]
_Settings = tuple[str, int, int, int, int | str, str]


def _settings(given: _Given, context: Context) -> _Settings:
    """The arguments; if not given, the run config; otherwise the defaults."""
    policy, clients, cohort, seed, max_age, start = given
    partitions = context.node_config.get(PARTITIONS_KEY)
    return (
        _text(policy, "policy", context, "markov-optimal"),
        _whole(clients, "clients", context, partitions),
        _whole(cohort, "cohort", context, None),
        _whole(seed, "seed", context, 0),
        _max_age(max_age, context),
        _text(start, "start", context, "stationary"),
    )


def _max_age(given: int | str | None, context: Context) -> int | str:
    value = context.run_config.get("agewise-max-age", "auto") if given is None else given
    return value if value == "auto" else _whole(value, "max-age", context, None)  # type: ignore[arg-type]


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
            f"{name} = {value!r}: expected a string, in age_mod or as agewise-{name} "
            "in the run config"
        )
    return value


@lru_cache(maxsize=1024)
def _client(settings: _Settings, partition: int) -> Client:
    policy, clients, cohort, seed, max_age, start = settings
    return Client(policy, clients, cohort, partition, seed, max_age=max_age, start=start)
