"""Which replies are accepted, and with which weights.

Flower's FedAvg stops the whole run at a reply that does not fit the others. Here such a reply is
rejected with a warning in the log, and its client is not credited.
"""

import copy
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict

from agewise.flower.keys import LOGGER, PARTITION_KEY

#: The core stores reported values with 32 bits.
_LARGEST = float(np.finfo(np.float32).max)

#: Names and shapes of arrays.
Shapes = tuple[tuple[str, tuple[int, ...]], ...]
#: What FedAvg requires to be equal in all replies: the names of the two records, and the shapes of
#: the arrays.
Layout = tuple[str, Shapes, str]


@dataclass(frozen=True)
class PendingRound:
    """A round whose messages were sent and whose replies have not been aggregated yet."""

    group: str = ""
    """The round as it appears in messages and in their replies."""
    arrays: ArrayRecord | None = None
    """The model that was sent."""
    clients: Mapping[int, int] = field(default_factory=dict)
    """The client number of each node that was sent a message."""
    weights: Mapping[int, float] = field(default_factory=dict)
    """The weight of each client, if the core determines it."""

    def first_replies(self, replies: Iterable[Message]) -> list[Message]:
        """The first reply of each node that was sent a message in this round."""
        kept: dict[int, Message] = {}
        for reply in replies:
            node = reply.metadata.src_node_id
            if node not in self.clients:
                reject(reply, "the node was not asked in this round")
            elif reply.has_content() and reply.metadata.group_id != self.group:
                reject(reply, f"it answers round {reply.metadata.group_id}, not {self.group}")
            elif node in kept:
                reject(reply, "the node has already replied in this round")
            else:
                kept[node] = reply
        return list(kept.values())


@dataclass(frozen=True)
class Update:
    """An accepted reply of a client."""

    client: int
    reply: Message
    layout: Layout

    @property
    def metrics(self) -> MetricRecord:
        """The metrics of the reply."""
        return next(iter(self.reply.content.metric_records.values()))

    def metric(self, key: str) -> float:
        """A metric, or NaN if the reply has no such number or it does not fit into 32 bits."""
        value = self.metrics.get(key)
        if isinstance(value, int | float) and abs(value) <= _LARGEST:
            return float(value)
        return math.nan


def shapes_of(arrays: ArrayRecord) -> Shapes:
    """Names and shapes, sorted by name."""
    return tuple(sorted((name, tuple(array.shape)) for name, array in arrays.items()))


def read_update(
    client: int, reply: Message, weight_key: str | None, *, trained: bool
) -> Update | str:
    """The reply as an update, or what is wrong with it. Without a key, its weight is not read."""
    content = reply.content
    if len(content.metric_records) != 1:
        return f"{len(content.metric_records)} MetricRecords, expected 1"
    ((metrics_name, metrics),) = content.metric_records.items()
    weight = 0 if weight_key is None else metrics.get(weight_key)
    if not isinstance(weight, int | float) or not 0 <= weight <= _LARGEST:
        return f"metric {weight_key!r} is {weight!r}, expected a number of at least 0"
    if not trained:
        return Update(client, reply, ("", (), metrics_name))
    if len(content.array_records) != 1:
        return f"{len(content.array_records)} ArrayRecords, expected 1"
    ((arrays_name, arrays),) = content.array_records.items()
    wrong = _wrong_array(arrays)
    if wrong is not None:
        return wrong
    return Update(client, reply, (arrays_name, shapes_of(arrays), metrics_name))


def _wrong_array(arrays: ArrayRecord) -> str | None:
    for name, array in arrays.items():
        try:
            values = array.numpy()
        except (ValueError, TypeError, OSError, EOFError) as error:
            return f"array {name!r} cannot be read: {error}"
        if values.shape != tuple(array.shape):
            return f"array {name!r} has shape {values.shape}, expected {tuple(array.shape)}"
        if values.dtype.kind not in "fiub":
            return f"array {name!r} has type {values.dtype}, expected numbers"
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            return f"array {name!r} has values that are infinite or not a number"
    return None


def of_one_layout(updates: Iterable[Update], sent: ArrayRecord | None) -> list[Update]:
    """The updates whose arrays have the layout of the model, by increasing client number.

    If no model was sent (an empty first model), or if records have different names, the most common
    layout is accepted. On a tie it is the layout of the lowest client number.
    """
    ordered = sorted(updates, key=lambda update: update.client)
    if sent:
        model = shapes_of(sent)
        for update in ordered:
            if update.layout[1] != model:
                reject(update.reply, "its arrays have other names or shapes than the model")
        ordered = [update for update in ordered if update.layout[1] == model]
    counts = Counter(update.layout for update in ordered)
    if len(counts) <= 1:
        return ordered
    common = max(counts, key=lambda layout: counts[layout])
    for update in ordered:
        if update.layout != common:
            reject(update.reply, "its records have other names or shapes than most replies")
    return [update for update in ordered if update.layout == common]


def reject(reply: Message, why: str) -> None:
    """Logs that a reply is rejected."""
    LOGGER.warning("agewise: reply of node %d is rejected: %s", reply.metadata.src_node_id, why)


def shared_metrics(updates: Sequence[Update]) -> set[str]:
    """The metrics that all replies have, with the same length if they are lists."""

    def kinds(update: Update) -> set[tuple[str, int | None]]:
        items = update.metrics.items()
        return {(name, len(value) if isinstance(value, list) else None) for name, value in items}

    each = [kinds(update) for update in updates]
    return {name for name, _ in set.intersection(*each)} if each else set()


def for_average(
    updates: Sequence[Update], key: str, weights: Sequence[float] | None, *, named: bool
) -> list[Message]:
    """The replies as FedAvg averages them; an empty list if the sum of their weights is 0.

    Weights replace the metric that FedAvg weights by. Only metrics that all replies have are
    averaged. The partition id is removed, unless `named` is set and all replies have one. The
    replies themselves are not changed, and arrays are shared.
    """
    common = shared_metrics(updates)
    if not named:
        common.discard(PARTITION_KEY)
    found = [update.metric(key) for update in updates] if weights is None else weights
    if math.fsum(found) <= 0:
        return []
    messages = []
    for update, weight in zip(updates, found, strict=True):
        metrics = MetricRecord({name: update.metrics[name] for name in sorted(common)})
        if weights is not None:
            metrics[key] = weight
        content = update.reply.content
        records = RecordDict(dict(content.array_records.items()))
        (name,) = content.metric_records
        records[name] = metrics
        message = copy.copy(update.reply)
        message.content = records
        messages.append(message)
    return messages


def move_by(share: float, old: ArrayRecord, mean: ArrayRecord) -> ArrayRecord:
    """The model `old + share * (mean - old)`."""
    moved = {}
    for name, array in mean.items():
        values, before = array.numpy(), old[name].numpy()
        # Counters of normalisation layers have no axes, and NumPy makes scalars of those.
        moved[name] = Array(np.asarray(before + share * (values - before)).astype(values.dtype))
    return ArrayRecord(moved)
