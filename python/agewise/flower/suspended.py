"""Nodes that have failed so often in a row that they are not asked any more.

Back-off makes retries of a dead node rare, but each of them waits for the timeout of the run.
Flower does not say whether a node that is connected is alive. A node that was restarted has a new
id, so it is asked again.
"""

import json
from collections.abc import Iterable, Mapping

from agewise.flower.keys import LOGGER


class SuspendedNodes:
    """Failures in a row of each client, and the clients that are not asked because of them."""

    def __init__(self, after: int) -> None:
        self._after = after
        self._failures: dict[int, int] = {}
        # The node of each suspended client when it was suspended.
        self._nodes: dict[int, int] = {}

    @property
    def nodes(self) -> Mapping[int, int]:
        """The suspended clients with their nodes."""
        return dict(sorted(self._nodes.items()))

    def delivered(self, clients: Iterable[int]) -> None:
        """Notes clients whose updates were accepted."""
        for client in clients:
            self._failures.pop(client, None)

    def failed(self, nodes: Mapping[int, int]) -> None:
        """Notes clients that were asked and did not deliver, with their nodes."""
        for client, node in nodes.items():
            self._failures[client] = self._failures.get(client, 0) + 1
            if 0 < self._after <= self._failures[client] and client not in self._nodes:
                self._nodes[client] = node
                LOGGER.warning(
                    "agewise: node %d (client %d) has failed %d times in a row and is not asked "
                    "any more, until it comes back under another id or reinstate(%d) is called",
                    node,
                    client,
                    self._failures[client],
                    client,
                )

    def without(self, nodes: Mapping[int, int]) -> dict[int, int]:
        """The nodes of clients that may be asked. A client with another node is so again."""
        for client in [c for c, node in self._nodes.items() if nodes.get(c, node) != node]:
            LOGGER.info("agewise: client %d is back with node %d", client, nodes[client])
            self.reinstate(client)
        return {client: node for client, node in nodes.items() if client not in self._nodes}

    def reinstate(self, client: int) -> None:
        """Lets a client be asked again; its failures are counted anew. Unknown: a ValueError."""
        if client not in self._nodes:
            expected = f"one of {sorted(self._nodes)}" if self._nodes else "none is suspended"
            raise ValueError(f"client = {client!r}: expected a suspended client ({expected})")
        del self._nodes[client]
        self._failures.pop(client, None)

    def pack(self) -> str:
        """The state, as JSON."""
        rows = [
            [client, failures, self._nodes.get(client)]
            for client, failures in sorted(self._failures.items())
        ]
        return json.dumps(rows)

    def unpacked(self, state: object, clients: int) -> "SuspendedNodes":
        """Nodes with the same limit and this state. One that does not fit is a ValueError."""
        found = SuspendedNodes(self._after)
        try:
            rows = json.loads(state) if isinstance(state, str) else None
        except ValueError:
            rows = None
        if not isinstance(rows, list) or not all(_is_row(row, clients) for row in rows):
            expected = f"JSON of [client below {clients}, failures, node or null]"
            raise ValueError(f"state(failures) = {state!r}: expected {expected}")
        for client, failures, node in rows:
            found._failures[client] = failures
            if node is not None:
                found._nodes[client] = node
        return found


def _is_row(row: object, clients: int) -> bool:
    """Whether this is a client, the number of its failures, and its node if it is suspended."""
    if not isinstance(row, list) or len(row) != 3:
        return False
    client, failures, node = row
    is_known = _is_whole(client) and client < clients
    return is_known and _is_whole(failures) and (node is None or _is_whole(node))


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
