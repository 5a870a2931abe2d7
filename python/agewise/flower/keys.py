"""The words that server and clients use between them."""

import logging

from flwr.app import Message, MessageType, RecordDict

#: Flower's own logger, so that our lines appear among its lines.
LOGGER = logging.getLogger("flwr")

#: The name of the query function that says which partition a node holds, and the type of its
#: messages.
IDENTITY_ACTION = "agewise_identity"
IDENTITY_MESSAGE = f"{MessageType.QUERY}.{IDENTITY_ACTION}"

#: The number of the client, in a node's config (Flower's own key) and in the metrics of a reply.
PARTITION_KEY = "partition-id"
#: How many clients there are, in a node's config (Flower's own key).
PARTITIONS_KEY = "num-partitions"
#: The round from 1 on, in the config of a message (Flower's own key).
ROUND_KEY = "server-round"
#: The age that the server believes a client has, in the config of a message: for a client without
#: memory.
AGE_KEY = "agewise-age"
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
    """Whether a message asks for training, under whichever name of a train function."""
    return message.metadata.message_type.partition(".")[0] == MessageType.TRAIN


def has_declined(reply: Message) -> bool:
    """Whether this is the reply of a client that decided not to take part."""
    if not reply.has_content():
        return False
    return any(DECLINED_KEY in metrics for metrics in reply.content.metric_records.values())
