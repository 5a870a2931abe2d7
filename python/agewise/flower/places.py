"""Which node is which client.

Flower draws a new random id for a node at every registration. An age has to outlive that, so
clients have numbers (partition ids), and this is the book of who has which.
"""

from collections.abc import Iterable, Mapping

from flwr.app import Message, RecordDict
from flwr.serverapp import Grid

from agewise.flower.keys import IDENTITY_MESSAGE, LOGGER, stated_partition


class Places:
    """The numbers 0 to `clients - 1` and the nodes that have them.

    A node that states its number has it for sure. A node that states none is a guest: it gets a
    free number, keeps it while nobody states it, and has to move otherwise. A node that cannot have
    a number (somebody who is connected has it, it does not exist, or all are taken) is left out,
    which is said once.
    """

    def __init__(self, clients: int) -> None:
        self._clients = clients
        # What each node stated; None for one that was asked and stated nothing.
        self._stated: dict[int, int | None] = {}
        # The number a guest had last.
        self._homes: dict[int, int] = {}
        self._owners: dict[int, int] = {}
        self._numbers: dict[int, int] = {}
        self._connected: list[int] = []
        self._warned: set[tuple[int, str]] = set()

    @property
    def owners(self) -> Mapping[int, int]:
        """The node of each number that has one, by increasing number."""
        return self._owners

    def number(self, node: int) -> int | None:
        """The number of a node, if it has one."""
        return self._numbers.get(node)

    def is_sure(self, node: int) -> bool:
        """Whether a node has stated its number."""
        return self._stated.get(node) is not None

    def ask(self, grid: Grid, connected: Iterable[int], timeout: float) -> None:
        """Asks the nodes that are new which number they have, and waits for so many seconds.

        Who answers and states none is not asked again; who does not answer is, before the next round.
        """
        strangers = sorted(node for node in connected if node not in self._stated)
        if not strangers:
            return
        questions = [Message(RecordDict(), node, IDENTITY_MESSAGE) for node in strangers]
        stated: dict[int, int | None] = {}
        for reply in grid.send_and_receive(questions, timeout=timeout):
            node = reply.metadata.src_node_id
            if node in strangers:
                stated[node] = stated_partition(reply.content) if reply.has_content() else None
        self._stated.update(stated)
        silent = len(strangers) - sum(number is not None for number in stated.values())
        if silent > 0:
            LOGGER.warning(
                "agewise: %d of %d new nodes did not say which partition they hold and get free "
                "places; agewise.flower.identify(app) lets a ClientApp say it",
                silent,
                len(strangers),
            )

    def learn(self, replies: Iterable[Message]) -> None:
        """Looks which numbers these replies state, and moves the guests among their senders there.

        A number that was stated stays: nodes do not change places at will.
        """
        for reply in replies:
            node = reply.metadata.src_node_id
            if reply.has_content() and not self.is_sure(node):
                number = stated_partition(reply.content)
                if number is not None:
                    self._stated[node] = number
        self.settle(self._connected)

    def settle(self, connected: Iterable[int]) -> None:
        """Finds a number for each of the connected nodes."""
        self._connected = sorted(set(connected))
        owners = self._seat_sure()
        self._seat_guests(owners)
        self._owners = dict(sorted(owners.items()))
        self._numbers = {node: number for number, node in owners.items()}

    def _seat_sure(self) -> dict[int, int]:
        owners: dict[int, int] = {}
        stated = [
            (number, node)
            for node in self._connected
            if (number := self._stated.get(node)) is not None
        ]
        # Of two nodes with one number the one that had it keeps it, then the lower id.
        for number, node in sorted(stated, key=lambda pair: (not self._had(*pair), pair)):
            if not 0 <= number < self._clients:
                self._leave_out(node, f"partition id {number}, expected 0 to {self._clients - 1}")
            elif number in owners:
                self._leave_out(node, f"partition id {number} is that of node {owners[number]}")
            else:
                owners[number] = node
        return owners

    def _seat_guests(self, owners: dict[int, int]) -> None:
        guests = [node for node in self._connected if self._stated.get(node) is None]
        homes = [(home, node) for node in guests if (home := self._homes.get(node)) is not None]
        for home, node in sorted(homes, key=lambda pair: (not self._had(*pair), pair)):
            owners.setdefault(home, node)
        seated = set(owners.values())
        homeless = [node for node in guests if node not in seated]
        if not homeless:
            return
        # The number of a client that is away is only taken when no other is left.
        known = set(self._stated.values())
        free = [number for number in range(self._clients) if number not in owners]
        free.sort(key=lambda number: (number in known, number))
        for node, number in zip(homeless, free, strict=False):
            owners[number] = node
            self._homes[node] = number
        for node in homeless[len(free) :]:
            self._leave_out(node, f"all {self._clients} places are taken")

    def _had(self, number: int, node: int) -> bool:
        return self._owners.get(number) == node

    def _leave_out(self, node: int, why: str) -> None:
        if (node, why) not in self._warned:
            self._warned.add((node, why))
            LOGGER.warning("agewise: node %d is left out: %s", node, why)
