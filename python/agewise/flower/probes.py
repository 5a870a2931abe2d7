"""Probes: what a policy wants to know about clients before it selects.

A probe is one more message to a node, with the model. Its answer is recorded without crediting the
client, and its update is not averaged.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType
from flwr.serverapp import Grid

from agewise import Selector
from agewise.flower.keys import LOGGER, PROBE_KEY
from agewise.flower.node_assignment import NodeAssignment
from agewise.flower.replies import PendingRound, Update, of_one_layout, read_update, reject
from agewise.flower.sketches import sketched_arrays, sketches_of
from agewise.policy import ProbeKind


def probe_kind(message: Message) -> str | None:
    """What a train message asks for, if its update is only looked at: ``"update-step"`` (one step
    of training is enough) or ``"update-round"`` (a whole round); None for a round of training.

    An app that does not ask this trains a whole round for a probe, which is right as well.
    """
    for config in message.content.config_records.values():
        value = config.get(PROBE_KEY)
        if isinstance(value, str):
            return value
    return None


@dataclass(frozen=True)
class Prober:
    """Asks nodes what a policy wants to know."""

    selector: Selector
    assignment: NodeAssignment
    #: Makes a message of a kind with a config to a node: kind, group, config, node.
    message: Callable[[str, str, ConfigRecord, int], Message]
    #: The metrics with the loss of an evaluation, and of training.
    loss_key: str
    sketch_arrays: Sequence[str] | None
    seed: int
    timeout: float

    def ask(
        self,
        group: str,
        arrays: ArrayRecord,
        config: ConfigRecord,
        grid: Grid,
        nodes: Mapping[int, int],
    ) -> None:
        """Sends the probes of the policy to connected nodes, and tells it what they answer."""
        available = np.zeros(self.selector.clients, dtype=bool)
        available[list(nodes)] = True
        for kind, clients in self.selector.probes(available=available).items():
            asked = {nodes[int(client)]: int(client) for client in clients}
            own = ConfigRecord(dict(config))
            own[PROBE_KEY] = kind
            sent = MessageType.EVALUATE if kind == "loss" else MessageType.TRAIN
            LOGGER.info("agewise: Probing %d nodes (%s)", len(asked), kind)
            messages = [self.message(sent, group, own, node) for node in asked]
            replies = list(grid.send_and_receive(messages, timeout=self.timeout))
            received = PendingRound(group, arrays, asked).first_replies(replies)
            self.assignment.learn(received)
            self._observe(kind, received, arrays)

    def _observe(self, kind: ProbeKind, replies: list[Message], arrays: ArrayRecord) -> None:
        updates: list[Update] = []
        for reply in replies:
            client = self.assignment.partition(reply.metadata.src_node_id)
            if client is None or not reply.has_content():
                reject(reply, "a probe was not answered")
                continue
            update = read_update(client, reply, None, trained=kind != "loss")
            if isinstance(update, str):
                reject(reply, update)
            else:
                updates.append(update)
        if kind == "loss":
            losses = {update.client: update.metric(self.loss_key) for update in updates}
            known = {client: loss for client, loss in losses.items() if not math.isnan(loss)}
            if known:
                self.selector.observe(list(known), losses=list(known.values()))
            return
        updates = of_one_layout(updates, arrays)
        names = sketched_arrays(arrays, self.sketch_arrays)
        sketches = sketches_of(updates, arrays, names, self.seed)
        if sketches:
            self.selector.observe(list(sketches), sketches=np.stack(list(sketches.values())))
