"""A Flower world without its engine: a Grid whose nodes are ClientApps, called on the spot."""

import contextlib
import importlib
import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from flwr.app import (
    Array,
    ArrayRecord,
    Context,
    Error,
    Message,
    MetricRecord,
    RecordDict,
)
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid

from agewise.flower import AgeStrategy

Mutation = Callable[[Message], Message | None]


def model(*values: float) -> ArrayRecord:
    """A model of one array."""
    return ArrayRecord({"w": Array(np.array(values, dtype=np.float32))})


def weights_of(arrays: ArrayRecord) -> np.ndarray:
    """The array of such a model."""
    return arrays["w"].numpy()


def trained_value(number: int, server_round: int) -> float:
    """What a client of this world adds to the model in a round."""
    return float(np.float32(0.1) * np.float32(number + 1) + np.float32(0.01) * server_round)


def examples(number: int) -> int:
    """How many examples a client of this world has."""
    return 10 + 3 * number


def made_strategy(clients: int, cohort: int, seed: int, **more: Any) -> AgeStrategy:
    """A strategy without evaluation by clients."""
    return AgeStrategy(clients=clients, cohort=cohort, seed=seed, fraction_evaluate=0.0, **more)


def counting_app(*mods: object, train_mods: Sequence[Any] = ()) -> ClientApp:
    """An app that adds `trained_value` to the model and counts its trainings in its state."""
    app = ClientApp(mods=list(mods))

    @app.train(mods=list(train_mods))
    def train(message: Message, context: Context) -> Message:
        number = int(context.node_config["partition-id"])
        server_round = message.content.config_records["config"]["server-round"]
        assert isinstance(server_round, int)
        trained = weights_of(message.content.array_records["arrays"]) + trained_value(
            number, server_round
        )
        metrics = MetricRecord({"num-examples": examples(number), "train_loss": 1.0 / (number + 1)})
        record = RecordDict({"arrays": ArrayRecord({"w": Array(trained)}), "metrics": metrics})
        return Message(record, reply_to=message)

    @app.evaluate()
    def evaluate(message: Message, context: Context) -> Message:
        number = int(context.node_config["partition-id"])
        metrics = MetricRecord({"num-examples": examples(number), "eval_loss": 0.1 * number})
        return Message(RecordDict({"metrics": metrics}), reply_to=message)

    return app


class World(Grid):
    """Nodes that come and go. Replies arrive in a random order."""

    def __init__(self, app: ClientApp, nodes: int, seed: int) -> None:
        with contextlib.suppress(ImportError):
            # A message needs a sender; older versions of Flower know none.
            identity = importlib.import_module("flwr.supercore.task_identity").TaskIdentity
            identity.run_id, identity.node_id, identity.task_id = 1, 1, 1
        self.app = app
        self.random = random.Random(seed)
        self.contexts: dict[int, Context] = {}
        self.sent: list[Message] = []
        #: What becomes of the replies of a node; None makes it silent.
        self.mutations: dict[int, Mutation] = {}
        for partition in range(nodes):
            self.connect(partition, partitions=nodes)

    def connect(self, partition: object, partitions: int = 0, node: int | None = None) -> int:
        """A node registers, with a random id as in Flower."""
        node = self.random.getrandbits(62) + 1 if node is None else node
        config = {"partition-id": partition, "num-partitions": partitions}
        if partition is None:
            del config["partition-id"]
        self.contexts[node] = Context(1, node, config, RecordDict(), {})
        return node

    def disconnect(self, node: int) -> None:
        """A node goes away, and its memory with it."""
        del self.contexts[node]

    def node_of(self, partition: int) -> int:
        """The node that holds a partition."""
        holders = [
            node
            for node, context in self.contexts.items()
            if context.node_config.get("partition-id") == partition
        ]
        assert len(holders) == 1, holders
        return holders[0]

    def partitions(self, kind: str, server_round: int) -> list[int]:
        """The partitions that were sent such messages in a round."""
        return [
            int(self.contexts[message.metadata.dst_node_id].node_config["partition-id"])
            for message in self.sent
            if message.metadata.message_type == kind
            and message.content["config"]["server-round"] == server_round
        ]

    def model_of(self, server_round: int) -> ArrayRecord:
        """The model that was sent to be trained in a round."""
        sent = (
            message.content.array_records["arrays"]
            for message in self.sent
            if message.metadata.message_type == "train"
            and message.content["config"]["server-round"] == server_round
        )
        return next(sent)

    def queries(self) -> list[int]:
        """The nodes that were asked for their partition ids."""
        return [
            message.metadata.dst_node_id
            for message in self.sent
            if message.metadata.message_type.startswith("query")
        ]

    def answer(self, message: Message) -> Message:
        """What a node makes of a message. As in Flower, an exception becomes an error."""
        context = self.contexts[message.metadata.dst_node_id]
        try:
            return self.app(message, context)
        except Exception as error:
            return Message(Error(code=2, reason=repr(error)), reply_to=message)

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        replies = []
        for message in messages:
            self.sent.append(message)
            mutation = self.mutations.get(message.metadata.dst_node_id)
            reply = self.answer(message)
            changed = reply if mutation is None else mutation(reply)
            if changed is not None:
                replies.append(changed)
        self.random.shuffle(replies)
        return replies

    def get_node_ids(self) -> Iterable[int]:
        nodes = list(self.contexts)
        self.random.shuffle(nodes)
        return nodes

    # The rest of a Grid is not used by strategies.

    def set_run(self, run: object) -> None:
        raise NotImplementedError

    @property
    def run(self) -> object:  # type: ignore[override]
        raise NotImplementedError

    def create_message(self, *_: object, **__: object) -> Message:
        raise NotImplementedError

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        raise NotImplementedError

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        raise NotImplementedError
