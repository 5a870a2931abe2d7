"""The client side of a selection."""

from __future__ import annotations

from typing import Any

from agewise import _agewise
from agewise.checks import whole
from agewise.policy import decided_by_clients
from agewise.settings import settings


class Client:
    """The client side of a policy in which clients decide on their own.

    With the same seed the decisions are those of :class:`Selector`, except that no client is
    forced.

    >>> import agewise
    >>> clients = [Client("markov-optimal", 100, 15, number, seed=1) for number in range(100)]
    >>> ages = [client.initial_age for client in clients]
    >>> willing = [k for k, client in enumerate(clients) if client.takes_part(0, ages[k])]
    >>> willing == agewise.Selector("markov-optimal", 100, 15, seed=1).select().ids.tolist()
    True
    >>> Client("random", 100, 15, 0)
    Traceback (most recent call last):
        ...
    ValueError: policy = random: expected a policy in which clients decide on their own
    """

    def __init__(
        self,
        policy: str,
        clients: int,
        cohort: int,
        client: int,
        seed: int = 0,
        *,
        max_age: int | str = "auto",
        start: str = "stationary",
    ) -> None:
        """The client with the number ``client``, counted from 0."""
        #: The policy with its options.
        self.policy = decided_by_clients(policy)
        #: The number of the client.
        self.client = client
        options = settings(policy, clients, cohort, seed, max_age, start, None, None, "skip", True)
        self._made = options, whole("client", client)
        self._inner = _agewise.Client(*self._made)

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key not in ("_inner",)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._inner = _agewise.Client(*self._made)

    @property
    def initial_age(self) -> int:
        """The age of the client before round 0."""
        return self._inner.initial_age

    def takes_part(self, round: int, age: int) -> bool:
        """Whether the client takes part in a round (counted from 0).

        ``age`` is the number of rounds since it last took part.
        """
        return self._inner.takes_part(whole("round", round), whole("age", age))
