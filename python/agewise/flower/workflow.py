"""Selection for strategies of Flower's workflows, which secure aggregation needs.

SecAgg and SecAgg+ are workflows (`flwr.server.workflow`) around strategies of
`flwr.server.strategy`, the interface before `flwr.serverapp`. The server learns there who took
part, and sums only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flwr.server.client_manager import ClientManager, SimpleClientManager
from flwr.server.strategy import Strategy

from agewise import Selector
from agewise.checks import positive, shown
from agewise.flower.lost_rounds import LostRounds
from agewise.policy import PolicyLike


class WorkflowSelection(Strategy):
    """Selects the clients of a strategy of `flwr.server.strategy` inside a workflow.

    - `strategy`: everything but the choice of the clients that train is its own.
    - `cohort`: the mean number of clients that train in a round.
    - `min_available_nodes`: how many nodes each round waits for; the default is the cohort.
    - `policy`, `seed` and other arguments: as in [`agewise.Selector`][agewise.Selector].

    A client is a node here, as long as it is connected under its id, because a workflow has no
    other name for it: another run begins with new ages. Nodes that join are admitted.
    Policies that look at losses or updates know nothing, as secure aggregation hides both.

    >>> from flwr.server.strategy import FedAvg
    >>> WorkflowSelection(FedAvg(), cohort=15, policy="oldest-first").cohort
    15
    """

    def __init__(
        self,
        strategy: Strategy,
        *,
        cohort: int,
        policy: PolicyLike = "oldest-first",
        min_available_nodes: int | None = None,
        seed: int = 0,
        **arguments: Any,
    ) -> None:
        if not isinstance(strategy, Strategy):
            expected = "a strategy of flwr.server.strategy; others go into AgeSelection"
            raise ValueError(f"strategy = {shown(strategy)}: expected {expected}")
        self.strategy = strategy
        self.cohort = positive("cohort", cohort)
        least = cohort if min_available_nodes is None else min_available_nodes
        self._nodes = positive("min_available_nodes", least)
        if self._nodes < self.cohort:
            expected = f"at least {self.cohort}, the cohort"
            raise ValueError(f"min_available_nodes = {self._nodes}: expected {expected}")
        self._policy, self._seed, self._arguments = policy, seed, arguments
        #: Who has trained when; None before the first round.
        self.selector: Selector | None = None
        self._selected: list[str] = []
        self._lost = LostRounds()

    def configure_fit(self, server_round: int, parameters: Any, client_manager: Any) -> Any:
        """What the strategy sends, to the cohort of the round."""
        client_manager.wait_for(self._nodes, 86400)
        connected = client_manager.all()
        if self.selector is None:
            names = sorted(connected, key=int)
            self.selector = Selector(
                self._policy, names, self.cohort, self._seed, **self._arguments
            )
        elif self._selected:
            # The workflow has given the round before up, and does not say whose fault it was.
            failed = self._lost.dropped(self._selected, self.selector.failed)
            self.selector.report([], failed=failed)
        for name in sorted(set(connected) - set(self.selector.names), key=int):
            self.selector.admit(name=name)
        asked = [name for name in connected if name not in self._lost.held_back]
        self._selected = list(self.selector.select(available=asked or list(connected)))
        only = _Only({name: connected[name] for name in self._selected})
        return self.strategy.configure_fit(server_round, parameters, only)

    def aggregate_fit(self, server_round: int, results: Any, failures: Any) -> Any:
        """What the strategy makes of the results, whose clients are credited."""
        assert self.selector is not None
        delivered = [client.cid for client, _ in results]
        missing = [name for name in self._selected if name not in delivered]
        self.selector.report(delivered, failed=missing)
        self._selected = []
        self._lost.delivered(delivered)
        return self.strategy.aggregate_fit(server_round, results, failures)

    def initialize_parameters(self, client_manager: ClientManager) -> Any:
        """Those of the strategy."""
        return self.strategy.initialize_parameters(client_manager)

    def configure_evaluate(self, server_round: int, parameters: Any, client_manager: Any) -> Any:
        """What the strategy sends to the clients that it samples."""
        return self.strategy.configure_evaluate(server_round, parameters, client_manager)

    def aggregate_evaluate(self, server_round: int, results: Any, failures: Any) -> Any:
        """What the strategy makes of the results."""
        return self.strategy.aggregate_evaluate(server_round, results, failures)

    def evaluate(self, server_round: int, parameters: Any) -> Any:
        """The evaluation of the strategy on the server."""
        return self.strategy.evaluate(server_round, parameters)


class _Only(SimpleClientManager):
    """A client manager that knows the cohort, and samples all of it, whatever is asked for."""

    def __init__(self, clients: Mapping[str, Any]) -> None:
        super().__init__()
        self.clients = dict(clients)

    def sample(self, *_: Any, **__: Any) -> list[Any]:
        """The cohort."""
        return list(self.clients.values())
