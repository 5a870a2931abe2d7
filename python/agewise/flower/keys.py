"""The keys of records that server and clients exchange."""

import logging

from flwr.app import Message, MessageType, RecordDict

#: Flower's logger, so that our lines appear among its lines.
LOGGER = logging.getLogger("flwr")

#: The name of the query function that returns the partition id of a node, and its message type.
IDENTITY_ACTION = "agewise_identity"
IDENTITY_MESSAGE = f"{MessageType.QUERY}.{IDENTITY_ACTION}"

#: The partition id, in a node's config (Flower's own key) and in the metrics of a reply.
PARTITION_KEY = "partition-id"
#: The number of clients, in a node's config (Flower's own key).
PARTITIONS_KEY = "num-partitions"
#: The round from 1 on, in the config of a message (Flower's own key).
ROUND_KEY = "server-round"
#: The age of a client according to the server, in the config of a message: for clients without
#: stored age.
AGE_KEY = "agewise-age"
#: What a probe asks for, in the config of its message.
PROBE_KEY = "agewise-probe"
#: Whether clients decide on their own, in the run config.
DECENTRALISED_KEY = "agewise-decentralised"
#: A metric that marks the reply of a client that does not take part.
DECLINED_KEY = "agewise-declined"
#: The name of our own records, in replies and in a client's state.
RECORD_KEY = "agewise"


def stated_partition(content: RecordDict) -> int | None:
    """The partition id among the metrics of a reply, if there is a whole number."""
    for metrics in content.metric_records.values():
        value = metrics.get(PARTITION_KEY)
        if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
            return int(value)
    return None


def is_train(message: Message) -> bool:
    """Whether a message asks for training, with any name of the train function."""
    return message.metadata.message_type.partition(".")[0] == MessageType.TRAIN


def has_declined(reply: Message) -> bool:
    """Whether this is the reply of a client that decided not to take part."""
    if not reply.has_content():
        return False
    return any(DECLINED_KEY in metrics for metrics in reply.content.metric_records.values())
