"""Selection for other strategies of Flower: who trains is decided here, everything else by them."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, cast

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Strategy

from agewise.checks import shown
from agewise.flower.evaluation import add_participation
from agewise.flower.keys import has_declined
from agewise.flower.replies import PendingRound
from agewise.flower.strategy import AgeStrategy

#: Arguments that a strategy of Flower has and this one takes over.
_SHARED = (
    "fraction_evaluate min_train_nodes min_evaluate_nodes min_available_nodes weighted_by_key "
    "arrayrecord_key configrecord_key"
).split()
#: Strategies of boosted trees.
_TREES = ("FedXgbBagging", "FedXgbCyclic")


class AgeSelection(AgeStrategy):
    """Selects the clients of another strategy: FedProx, FedAdam, FedMedian, Krum, QFedAvg, or one
    with differential privacy around it.

    The strategy configures the messages, aggregates the replies and evaluates, as it does without
    agewise. What differs is who is asked: the cohort of the policy instead of a random sample, so
    the `fraction_train` of the strategy is not used. Replies that are accepted credit their
    clients; replies that cannot be used are left out, as in
    [`AgeStrategy`][agewise.flower.AgeStrategy], which also describes the arguments. Weights are
    those of the strategy. The strategies of boosted trees (FedXgbBagging and FedXgbCyclic) are
    refused, because their models change shape.

    `state_dict` has the state of the selection, and not what the strategy remembers.

    >>> from flwr.serverapp.strategy import FedProx
    >>> strategy = AgeSelection(FedProx(proximal_mu=0.1), clients=100, cohort=15)
    >>> strategy.rounds_done
    0
    """

    def __init__(self, strategy: Strategy, *, clients: int, cohort: int, **arguments: Any) -> None:
        if not isinstance(strategy, Strategy) or isinstance(strategy, AgeStrategy):
            expected = "a strategy of Flower that does not select by age already"
            raise ValueError(f"strategy = {shown(strategy)}: expected {expected}")
        if type(_base(strategy)).__name__ in _TREES:
            expected = (
                "a strategy of models whose arrays keep their shapes; trees grow, and replies of "
                "another shape than the model are refused. `agewise.Selector` in a loop of your "
                "own can choose the clients of boosted trees"
            )
            raise ValueError(f"strategy = {type(_base(strategy)).__name__}: expected {expected}")
        for name in ["weighting", "decentralised"]:
            if name in arguments:
                expected = "none, as the strategy decides about it (AgeStrategy has it)"
                raise ValueError(f"{name} = {shown(arguments[name])}: expected {expected}")
        self.strategy = strategy
        self._base = _base(strategy)
        if arguments.get("probes") and self._base is not strategy:
            expected = "False around a wrapper for privacy, which does not protect probes"
            raise ValueError(f"probes = True: expected {expected}")
        shared = {name: getattr(self._base, name) for name in _SHARED if hasattr(self._base, name)}
        super().__init__(clients=clients, cohort=cohort, **(shared | arguments))

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """The messages of the strategy to the cohort of the round."""
        # It selects, and its messages say whom.
        super().configure_train(server_round, arrays, config, grid)
        selected = self._training
        if not selected.clients:
            return []
        only = cast(Grid, CohortGrid(grid, list(selected.clients)))
        # Strategies write into it, and messages of earlier rounds shall keep theirs.
        own = ConfigRecord(dict(config))
        with _asking_all(self._base, len(selected.clients)):
            number = self._before + server_round
            messages = list(self.strategy.configure_train(number, arrays, own, only))
        for message in messages:
            message.metadata.group_id = selected.group
        asked = {message.metadata.dst_node_id for message in messages}
        # A strategy of one's own may ask fewer; the others have not failed.
        clients = {node: client for node, client in selected.clients.items() if node in asked}
        self._training = PendingRound(selected.group, arrays, clients, {})
        return messages

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """What the strategy makes of the accepted replies, by increasing partition id."""
        pending, self._training = self._training, PendingRound()
        received = pending.first_replies(replies)
        self._assignment.learn(received)
        errors = [reply for reply in received if reply.has_error()]
        taken = [reply for reply in received if not has_declined(reply)]
        updates = self._read(taken, pending, trained=True)
        accepted = [update.reply for update in updates]
        number = self._before + server_round
        arrays, found = self.strategy.aggregate_train(number, [*accepted, *errors])
        declined = {reply.metadata.src_node_id for reply in received if has_declined(reply)}
        if arrays is None:
            # It has dropped the round, as wrappers for privacy do when a node has failed. Clients
            # that delivered have neither taken part nor failed.
            declined.update(reply.metadata.src_node_id for reply in accepted)
            updates = []
        self._credit(updates, pending, declined)
        metrics = MetricRecord() if found is None else found
        metrics["agewise-asked"] = metrics["agewise-cohort"] = len(pending.clients)
        metrics["agewise-reported"] = len(updates)
        add_participation(metrics, self._selector)
        return arrays, metrics

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """The messages of the strategy to the nodes that it samples, without suspended ones."""
        number = self._before + server_round
        if self._suspended.nodes:
            connected = set(grid.get_node_ids()) - set(self._suspended.nodes.values())
            grid = cast(Grid, CohortGrid(grid, sorted(connected)))
        return self.strategy.configure_evaluate(number, arrays, config, grid)

    def aggregate_evaluate(
        self, server_round: int, replies: Iterable[Message]
    ) -> MetricRecord | None:
        """What the strategy makes of the replies."""
        return self.strategy.aggregate_evaluate(self._before + server_round, replies)

    def summary(self) -> None:
        """Logs the settings of the strategy, and those of the selection."""
        self.strategy.summary()
        super().summary()


class CohortGrid:
    """A grid on which only some nodes are connected: a cohort, or those that may be asked."""

    def __init__(self, grid: Grid, nodes: list[int]) -> None:
        self._grid = grid
        self._nodes = nodes

    def get_node_ids(self) -> Iterable[int]:
        """These nodes."""
        return self._nodes

    def __getattr__(self, name: str) -> Any:
        return getattr(self._grid, name)


def _base(strategy: Strategy) -> Any:
    """The strategy that samples nodes: the one inside of all wrappers."""
    while not hasattr(strategy, "fraction_train") and isinstance(
        getattr(strategy, "strategy", None), Strategy
    ):
        strategy = strategy.strategy  # type: ignore[attr-defined]
    return strategy


@contextmanager
def _asking_all(strategy: Any, nodes: int) -> Iterator[None]:
    """A strategy samples all nodes that it sees."""
    wanted = {"fraction_train": 1.0, "min_train_nodes": nodes, "min_available_nodes": nodes}
    before = {name: getattr(strategy, name) for name in wanted if hasattr(strategy, name)}
    try:
        for name in before:
            setattr(strategy, name, wanted[name])
        yield
    finally:
        for name, value in before.items():
            setattr(strategy, name, value)
