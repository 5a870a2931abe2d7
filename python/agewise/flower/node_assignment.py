"""The assignment of nodes to clients.

Flower draws a new random id for a node at every registration. Ages have to outlive that, so they
belong to partition ids, and this module keeps track of which node has which partition id.
"""

from collections.abc import Iterable, Mapping

from flwr.app import Message, RecordDict
from flwr.serverapp import Grid

from agewise.flower.keys import IDENTITY_MESSAGE, LOGGER, stated_partition


class NodeAssignment:
    """The partition ids 0 to `clients - 1` and the connected nodes that have them.

    An identified node has stated its partition id and keeps it. An anonymous node is assigned an
    unused partition id. It keeps that id until an identified node claims it, and is then assigned
    another one. A node is excluded, with one warning, if its partition id does not exist, if
    another connected node has it, or if all partition ids are assigned.
    """

    def __init__(self, clients: int) -> None:
        self._clients = clients
        # The stated partition id of each node; None if the node answered without one.
        self._stated: dict[int, int | None] = {}
        # The last partition id of each anonymous node.
        self._previous: dict[int, int] = {}
        self._nodes: dict[int, int] = {}
        self._partitions: dict[int, int] = {}
        self._connected: list[int] = []
        self._warned: set[tuple[int, str]] = set()

    @property
    def nodes(self) -> Mapping[int, int]:
        """The node of each assigned partition id, by increasing partition id."""
        return self._nodes

    def partition(self, node: int) -> int | None:
        """The partition id of a node, or None if it has none."""
        return self._partitions.get(node)

    def is_identified(self, node: int) -> bool:
        """Whether a node has stated its partition id."""
        return self._stated.get(node) is not None

    def identify(self, grid: Grid, connected: Iterable[int], timeout: float) -> None:
        """Asks new nodes for their partition ids and waits at most `timeout` seconds.

        A node that answers without a partition id is not asked again. A node that does not answer
        is asked again before the next round.
        """
        new = sorted(node for node in connected if node not in self._stated)
        if not new:
            return
        queries = [Message(RecordDict(), node, IDENTITY_MESSAGE) for node in new]
        stated: dict[int, int | None] = {}
        for reply in grid.send_and_receive(queries, timeout=timeout):
            node = reply.metadata.src_node_id
            if node in new:
                stated[node] = stated_partition(reply.content) if reply.has_content() else None
        self._stated.update(stated)
        anonymous = len(new) - sum(partition is not None for partition in stated.values())
        if anonymous > 0:
            LOGGER.warning(
                "agewise: %d of %d new nodes did not state their partition id and are assigned "
                "unused ones; agewise.flower.identify(app) lets a ClientApp state it",
                anonymous,
                len(new),
            )

    def learn(self, replies: Iterable[Message]) -> None:
        """Identifies anonymous nodes whose replies state a partition id.

        The partition id of an identified node does not change.
        """
        for reply in replies:
            node = reply.metadata.src_node_id
            if reply.has_content() and not self.is_identified(node):
                partition = stated_partition(reply.content)
                if partition is not None:
                    self._stated[node] = partition
        self.assign(self._connected)

    def assign(self, connected: Iterable[int]) -> None:
        """Assigns a partition id to each connected node."""
        self._connected = sorted(set(connected))
        nodes = self._assign_identified()
        self._assign_anonymous(nodes)
        self._nodes = dict(sorted(nodes.items()))
        self._partitions = {node: partition for partition, node in nodes.items()}

    def _assign_identified(self) -> dict[int, int]:
        nodes: dict[int, int] = {}
        stated = [
            (partition, node)
            for node in self._connected
            if (partition := self._stated.get(node)) is not None
        ]
        # If two nodes state the same partition id, the node that already has it keeps it. If
        # neither has it, the node with the lower id gets it.
        for partition, node in sorted(stated, key=lambda pair: (not self._had(*pair), pair)):
            if not 0 <= partition < self._clients:
                self._exclude(node, f"partition id {partition}, expected 0 to {self._clients - 1}")
            elif partition in nodes:
                self._exclude(node, f"partition id {partition} is that of node {nodes[partition]}")
            else:
                nodes[partition] = node
        return nodes

    def _assign_anonymous(self, nodes: dict[int, int]) -> None:
        anonymous = [node for node in self._connected if not self.is_identified(node)]
        previous = [(self._previous[node], node) for node in anonymous if node in self._previous]
        for partition, node in sorted(previous, key=lambda pair: (not self._had(*pair), pair)):
            nodes.setdefault(partition, node)
        assigned = set(nodes.values())
        remaining = [node for node in anonymous if node not in assigned]
        if not remaining:
            return
        # The partition id of an identified node that is disconnected is assigned last.
        known = set(self._stated.values())
        unused = [partition for partition in range(self._clients) if partition not in nodes]
        unused.sort(key=lambda partition: (partition in known, partition))
        for node, partition in zip(remaining, unused, strict=False):
            nodes[partition] = node
            self._previous[node] = partition
        for node in remaining[len(unused) :]:
            self._exclude(node, f"all {self._clients} partition ids are assigned")

    def _had(self, partition: int, node: int) -> bool:
        return self._nodes.get(partition) == node

    def _exclude(self, node: int, why: str) -> None:
        if (node, why) not in self._warned:
            self._warned.add((node, why))
            LOGGER.warning("agewise: node %d is excluded: %s", node, why)
