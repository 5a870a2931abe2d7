"""The server side: a strategy that selects clients by age and credits those that report."""

import json
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg, Result

from agewise import Client, Selector
from agewise.checks import max_age_or_auto, names, positive, switch, whole
from agewise.flower import checkpoint
from agewise.flower.evaluation import add_participation, evaluation_draw, later_rounds
from agewise.flower.keys import (
    AGE_KEY,
    LOGGER,
    ROUND_KEY,
    has_declined,
)
from agewise.flower.lost_rounds import LostRounds
from agewise.flower.node_assignment import NodeAssignment
from agewise.flower.probes import Prober
from agewise.flower.replies import (
    PendingRound,
    Update,
    for_average,
    move_by,
    of_one_layout,
    read_update,
    reject,
)
from agewise.flower.sketches import sketched_arrays, sketches_of
from agewise.flower.suspended import SuspendedNodes
from agewise.policy import PolicyLike, decided_by_clients, policy_name

MetricsAverage = Callable[[list[RecordDict], str], MetricRecord]


class AgeStrategy(FedAvg):
    """FedAvg with client selection by age.

    It takes the arguments of FedAvg, and these by keyword:

    - `clients`: the number of clients; their partition ids are 0 to `clients - 1`.
    - `cohort`: the mean number of clients that train in a round; `round(fraction_train * clients)`
      if not given.
    - `policy`: any policy by name, with options if it has some: `"phased(reshuffle=0.05)"`; or a
      class of your own ([`agewise.Selects`][agewise.Selects]).
    - `seed`, `max_age`, `start`, `sizes`, `empty_cohort`: as in
      [`agewise.Selector`][agewise.Selector]; `sizes="num-examples"` learns the sizes from the
      metric `weighted_by_key` of replies.
    - `weighting`: how replies are weighted. If not given, by `weighted_by_key` as in FedAvg.
      `"uniform"`, `"data-size"` (requires `sizes`), `"draw-count"` and `"unbiased"` use the weights
      of the cohort. The weight of clients that failed is distributed over those that reported;
      `"unbiased"` moves the model by the sum of the weights of the cohort.
    - `decentralised`: every node gets a train message, and clients with
      [`age_mod`][agewise.flower.age_mod] decide on their own whether to train.
    - `loss_key`, `duration_key`, `root_mean_square_key`: the metrics of a train reply that hold its
      loss, its duration in seconds, and the root mean square of the losses of its samples.
    - `sketch_arrays`: the names of the arrays whose change is sketched for policies that look at
      updates. The default is the last two, in most models the weights and biases of the output
      layer.
    - `identify_timeout`: how many seconds new nodes have to state their partition id.
    - `suspend_after`: after so many failures in a row a node is not asked any more, for training or
      evaluation, until it comes back under another node id or
      [`reinstate`][agewise.flower.AgeStrategy.reinstate] is called; 0: never.
    - `probes`: whether the policy may ask clients before it selects, with one more message to each
      (`age-herding` before the first round, `power-of-choice` in every round). Losses are those of
      evaluate messages, in the metric `probe_loss_key`; updates those of train messages, of which
      [`probe_kind`][agewise.flower.probe_kind] tells an app that one step is enough.
      `probe_timeout` is how many seconds nodes have to answer.

    `min_train_nodes` is a number of nodes to wait for, like `min_available_nodes`; the policy
    decides how many train. A second `start`, or one after `load_state_dict`, continues the round
    numbers.

    >>> strategy = AgeStrategy(clients=100, cohort=15, policy="oldest-first", seed=1)
    >>> strategy.rounds_done
    0
    """

    def __init__(
        self,
        fraction_train: float = 1.0,
        fraction_evaluate: float = 1.0,
        min_train_nodes: int = 2,
        min_evaluate_nodes: int = 2,
        min_available_nodes: int = 2,
        weighted_by_key: str = "num-examples",
        arrayrecord_key: str = "arrays",
        configrecord_key: str = "config",
        train_metrics_aggr_fn: MetricsAverage | None = None,
        evaluate_metrics_aggr_fn: MetricsAverage | None = None,
        *,
        clients: int,
        cohort: int | None = None,
        policy: PolicyLike = "markov-optimal",
        seed: int = 0,
        max_age: int | str = "auto",
        start: str = "stationary",
        weighting: str | None = None,
        sizes: Sequence[float] | str | None = None,
        empty_cohort: str = "force-one",
        decentralised: bool = False,
        loss_key: str = "train_loss",
        duration_key: str = "duration",
        root_mean_square_key: str = "train_loss_rms",
        sketch_arrays: Sequence[str] | None = None,
        identify_timeout: float = 120.0,
        suspend_after: int = 8,
        probes: bool = False,
        probe_loss_key: str = "eval_loss",
        probe_timeout: float = 3600.0,
    ) -> None:
        clients, seed, max_age = (
            positive("clients", clients),
            whole("seed", seed),
            max_age_or_auto(max_age),
        )
        if cohort is None:
            cohort = max(1, round(fraction_train * clients))
        cohort = positive("cohort", cohort)
        if fraction_train > 0:
            fraction_train = cohort / clients
        super().__init__(
            fraction_train,
            fraction_evaluate,
            min_train_nodes,
            min_evaluate_nodes,
            min_available_nodes,
            weighted_by_key,
            arrayrecord_key,
            configrecord_key,
            train_metrics_aggr_fn,
            evaluate_metrics_aggr_fn,
        )
        needed = max(min_available_nodes, min_train_nodes)
        if needed > clients:
            raise ValueError(
                f"min_available_nodes or min_train_nodes = {needed}: expected at most {clients}, "
                "the number of clients; otherwise rounds never begin"
            )
        if weighting == "data-size" and sizes is None:
            raise ValueError(
                "sizes = None: expected the data sizes of all clients, or 'num-examples'; "
                "without a weighting, replies are weighted by their own number of examples"
            )
        if isinstance(sizes, str) and sizes != "num-examples":
            raise ValueError(
                f"sizes = {sizes!r}: expected the data sizes of all clients, or 'num-examples', "
                "which learns them from replies"
            )
        if decentralised and switch("probes", probes):
            raise ValueError("probes = True: expected False with decentralised=True")
        if decentralised and weighting not in (None, "uniform"):
            raise ValueError(
                f"weighting = {weighting!r}: expected None or 'uniform' with decentralised=True, "
                "where the server has no cohort to weight"
            )
        self._settings: dict[str, int | str] = {
            "policy": policy_name(policy),
            "clients": clients,
            "cohort": cohort,
            "seed": seed,
            "max-age": max_age,
        }
        self._sketch_arrays = names("sketch_arrays", sketch_arrays)
        if self._sketch_arrays is not None:
            named = [name for name in self._sketch_arrays if isinstance(name, str)]
            if not named or named != self._sketch_arrays:
                given = self._sketch_arrays
                raise ValueError(f"sketch_arrays = {given}: expected names of arrays, or None")
            # Sketches of different arrays cannot be compared.
            self._settings["sketch-arrays"] = json.dumps(self._sketch_arrays)

        def new_selector() -> Selector:
            return Selector(
                policy,
                clients,
                cohort,
                seed,
                max_age=max_age,
                start=start,
                weighting=weighting,
                sizes=None if isinstance(sizes, str) else sizes,
                empty_cohort=empty_cohort,
            )

        self._new_selector = new_selector
        self._selector = self._new_selector()
        if decentralised:
            # Raises an error if clients cannot decide by this policy.
            chosen = decided_by_clients(policy)
            Client(chosen, clients, cohort, 0, seed, max_age=max_age, start=start)
        self.clients = clients
        self.cohort = cohort
        self.policy = policy_name(policy)
        self.seed = seed
        self.weighting = weighting
        self.decentralised = decentralised
        self.loss_key = loss_key
        self.duration_key = duration_key
        self.root_mean_square_key = root_mean_square_key
        self.identify_timeout = identify_timeout
        self.probes = switch("probes", probes)
        self.probe_loss_key = probe_loss_key
        self.probe_timeout = probe_timeout
        self._learns_sizes = isinstance(sizes, str)
        self._own_train_metrics = train_metrics_aggr_fn is not None
        self._own_evaluate_metrics = evaluate_metrics_aggr_fn is not None
        self._assignment = NodeAssignment(clients)
        self._training = PendingRound()
        self._evaluating = PendingRound()
        self._lost = LostRounds()
        # The number of rounds before the current `start`, which counts from 1.
        self._before = 0
        self._suspended = SuspendedNodes(whole("suspend_after", suspend_after))
        # The nodes whose failures have been logged.
        self._warned: set[int] = set()

    @classmethod
    def from_run_config(cls, config: Mapping[str, object], **arguments: Any) -> Self:
        """A strategy with the settings of a run config, which `age_mod` reads too.

        The keys are `agewise-policy`, `agewise-clients`, `agewise-cohort`, `agewise-seed`,
        `agewise-max-age`, `agewise-start` and `agewise-decentralised`. Arguments take precedence.

        >>> AgeStrategy.from_run_config({"agewise-clients": 100}, cohort=15).clients
        100
        """
        names = ["policy", "clients", "cohort", "seed", "max_age", "start", "decentralised"]
        keys = {name: f"agewise-{name.replace('_', '-')}" for name in names}
        stated: dict[str, Any] = {name: config[key] for name, key in keys.items() if key in config}
        return cls(**(stated | arguments))

    # Rounds

    @property
    def rounds_done(self) -> int:
        """The number of finished rounds, including those before `load_state_dict`."""
        return self._selector.round

    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord,
        num_rounds: int = 3,
        timeout: float = 3600,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: Callable[[int, ArrayRecord], MetricRecord | None] | None = None,
    ) -> Result:
        """Runs `num_rounds` more rounds.

        As in FedAvg, but round numbers continue at `rounds_done + 1`: in the config of messages, in
        `evaluate_fn` and in the result. The result of a run in which no client ever reported has
        the initial arrays.
        """
        before = self.rounds_done
        # A round of a run that was broken off is played again, and not lost.
        self._training = PendingRound()
        if before > 0:
            LOGGER.info("agewise: continuing at round %d", before + 1)

        def evaluate(server_round: int, arrays: ArrayRecord) -> MetricRecord | None:
            return None if evaluate_fn is None else evaluate_fn(before + server_round, arrays)

        self._before = before
        try:
            result = super().start(
                grid,
                initial_arrays,
                num_rounds,
                timeout,
                train_config,
                evaluate_config,
                None if evaluate_fn is None else evaluate,
            )
        finally:
            self._before = 0

        return later_rounds(result, before, initial_arrays)

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """The train messages to the cohort of the round (to all nodes if clients decide).

        If the replies of the round before were never aggregated, as a strategy around this one has
        dropped them, that round is over, and one of its members may have failed.
        """
        group = str(self._before + server_round)
        self._end_dropped_round(group)
        self._training = PendingRound()
        if self.fraction_train == 0.0:
            return []
        if self._selector.needs.update_sketches and arrays:
            # A wrong name is an error before any client trains.
            sketched_arrays(arrays, self._sketch_arrays)
        nodes = self._suspended.without(self._assign(grid, self.min_train_nodes))
        weights: dict[int, float] = {}
        nodes = {c: n for c, n in nodes.items() if c not in self._lost.held_back} or nodes
        if not nodes:
            LOGGER.warning("agewise: all connected nodes have failed too often, and none is asked")
            return []
        if self.decentralised:
            failed = self._selector.failed
            waits = {c for c in nodes if c in failed and failed[c].eligible_from > self.rounds_done}
            # If all clients are in back-off, all of them are asked.
            selected = [client for client in nodes if client not in waits] or list(nodes)
        else:
            available = np.zeros(self.clients, dtype=bool)
            available[list(nodes)] = True
            if self.probes and arrays:
                self._prober(arrays).ask(f"{group}-probe", arrays, config, grid, nodes)
            cohort = self._selector.select(available=available)
            selected = [int(client) for client in cohort.ids]
            if self.weighting is not None:
                weights = dict(zip(selected, map(float, cohort.weights), strict=True))
        LOGGER.info("configure_train: Asking %d nodes (out of %d)", len(selected), len(nodes))
        clients = {nodes[client]: client for client in selected}
        self._training = PendingRound(group, arrays, clients, weights)
        ages = self._selector.ages
        return [
            self._message(MessageType.TRAIN, group, arrays, config, node, int(ages[client]))
            for node, client in clients.items()
        ]

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Averages the accepted replies, credits their clients and ends the round.

        A reply is accepted if its node was asked in this round and has not replied before, it has
        no error, exactly one ArrayRecord with finite numbers only and one MetricRecord with a
        weight, and the names and shapes of its arrays are those of the model. The sum is taken by
        increasing partition id, so that it does not depend on the order of the replies.
        """
        pending, self._training = self._training, PendingRound()
        received = pending.first_replies(replies)
        self._assignment.learn(received)
        participating = [reply for reply in received if not has_declined(reply)]
        errors = [reply for reply in participating if reply.has_error()]
        updates = self._read(participating, pending, trained=True)
        counted = for_average(
            updates,
            self.weighted_by_key,
            self._weights(updates, pending),
            named=self._own_train_metrics,
        )
        arrays, metrics = super().aggregate_train(self._before + server_round, [*counted, *errors])
        if arrays is not None and self.weighting == "unbiased" and pending.arrays is not None:
            arrays = move_by(math.fsum(pending.weights.values()), pending.arrays, arrays)
        declined = {reply.metadata.src_node_id for reply in received if has_declined(reply)}
        self._credit(updates, pending, declined)
        metrics = MetricRecord() if metrics is None else metrics
        cohort = len(participating) if self.decentralised else len(pending.clients)
        metrics["agewise-asked"] = len(pending.clients)
        metrics["agewise-cohort"] = cohort
        metrics["agewise-reported"] = len(updates)
        add_participation(metrics, self._selector)
        return arrays, metrics

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """The evaluate messages to a random share of the connected clients.

        The share is a function of the seed and the round.
        """
        self._evaluating = PendingRound()
        if self.fraction_evaluate == 0.0:
            return []
        nodes = self._suspended.without(self._assign(grid, self.min_evaluate_nodes))
        wanted = max(int(len(nodes) * self.fraction_evaluate), self.min_evaluate_nodes)
        group = str(self._before + server_round)
        shuffled = sorted(nodes, key=lambda client: evaluation_draw(self.seed, group, client))
        clients = {nodes[client]: client for client in sorted(shuffled[:wanted])}
        LOGGER.info("configure_evaluate: Sampled %d nodes (out of %d)", len(clients), len(nodes))
        self._evaluating = PendingRound(group, None, clients)
        return [
            self._message(MessageType.EVALUATE, group, arrays, config, node, None)
            for node in clients
        ]

    def aggregate_evaluate(
        self, server_round: int, replies: Iterable[Message]
    ) -> MetricRecord | None:
        """Averages the metrics of the accepted replies, by increasing partition id."""
        pending, self._evaluating = self._evaluating, PendingRound()
        received = pending.first_replies(replies)
        errors = [reply for reply in received if reply.has_error()]
        updates = self._read(received, pending, trained=False)
        named = self._own_evaluate_metrics
        counted = for_average(updates, self.weighted_by_key, None, named=named)
        return super().aggregate_evaluate(self._before + server_round, [*counted, *errors])

    # State

    def state_dict(self) -> dict[str, int | str]:
        """The state needed to continue later: numbers and strings, for JSON or a `ConfigRecord`.

        Save it together with the arrays of the same round, for example in `evaluate_fn`, which
        `start` calls after each round.
        """
        return checkpoint.pack(self._selector, self._settings, self._suspended)

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Continues from the state of a strategy with the same arguments.

        A state of other arguments is a ValueError, and the strategy does not change.
        """
        self._selector, self._suspended = checkpoint.unpack(
            state, self._new_selector(), self._settings, self._suspended, self.clients
        )

    # Failures

    @property
    def suspended(self) -> Mapping[int, int]:
        """The clients that have failed `suspend_after` times in a row, with their nodes."""
        return self._suspended.nodes

    def reinstate(self, client: int) -> None:
        """Asks a suspended client again, when its back-off and its turn allow it.

        A client that is not suspended is a ValueError.
        """
        self._suspended.reinstate(client)

    def summary(self) -> None:
        """Logs the settings, FedAvg's first."""
        super().summary()
        LOGGER.info("\t└──> agewise:")
        decided_by = "each client" if self.decentralised else "the server"
        LOGGER.info("\t\t├── Policy: '%s', decided by %s", self.policy, decided_by)
        LOGGER.info("\t\t├── Clients: %d, %d in a round", self.clients, self.cohort)
        weighting = f"'{self.weighted_by_key}'" if self.weighting is None else self.weighting
        LOGGER.info("\t\t├── Weights: %s", weighting)
        LOGGER.info("\t\t└── Seed: %d, rounds done: %d", self.seed, self.rounds_done)

    # Nodes

    def _assign(self, grid: Grid, minimum: int) -> Mapping[int, int]:
        """Waits for enough nodes; returns the node of each connected client."""
        minimum = max(minimum, self.min_available_nodes)
        while len(connected := list(grid.get_node_ids())) < minimum:
            LOGGER.info(
                "Waiting for nodes to connect: %d connected (minimum required: %d).",
                len(connected),
                minimum,
            )
            time.sleep(1)
        # If clients decide, their replies of the first round identify them.
        if not self.decentralised or self.rounds_done > 0:
            self._assignment.identify(grid, connected, self.identify_timeout)
        self._assignment.assign(connected)
        return self._assignment.nodes

    def _prober(self, arrays: ArrayRecord) -> Prober:
        """Asks what the policy wants to know."""

        def message(kind: str, group: str, config: ConfigRecord, node: int) -> Message:
            return self._message(kind, group, arrays, config, node, None)

        return Prober(
            self._selector,
            self._assignment,
            message,
            self.probe_loss_key,
            self._sketch_arrays,
            self.seed,
            self.probe_timeout,
        )

    def _message(
        self,
        kind: str,
        group: str,
        arrays: ArrayRecord,
        config: ConfigRecord,
        node: int,
        age: int | None,
    ) -> Message:
        """A message with its own config, which has the age of the client if clients decide."""
        own = ConfigRecord(dict(config))
        own[ROUND_KEY] = int(group.partition("-")[0])
        if self.decentralised and age is not None and self._assignment.is_identified(node):
            own[AGE_KEY] = age
        content = RecordDict({self.arrayrecord_key: arrays, self.configrecord_key: own})
        return Message(content, node, kind, group_id=group)

    # Replies

    def _read(
        self, replies: list[Message], pending: PendingRound, *, trained: bool
    ) -> list[Update]:
        """The accepted replies, by increasing client number."""
        weight_key = None if trained and self.weighting else self.weighted_by_key
        updates = []
        for reply in filter(Message.has_content, replies):
            client = self._assignment.partition(reply.metadata.src_node_id)
            if client is None:
                reject(reply, "the node has no partition id")
                continue
            update = read_update(client, reply, weight_key, trained=trained)
            if isinstance(update, str):
                reject(reply, update)
            else:
                updates.append(update)
        return of_one_layout(updates, pending.arrays)

    def _weights(self, updates: list[Update], pending: PendingRound) -> list[float] | None:
        """The weights of the updates; None if they are weighted by a metric of their own."""
        if self.weighting is None:
            return None
        clients = [pending.clients[update.reply.metadata.src_node_id] for update in updates]
        # If clients decide there is no cohort, and all weights are equal.
        return [pending.weights.get(client, 1.0) for client in clients]

    def _failed(
        self, updates: list[Update], pending: PendingRound, declined: set[int]
    ) -> dict[int, int]:
        """The clients that were asked and did not deliver, with their nodes, logged once each."""
        credited = {update.client for update in updates}
        failed: dict[int, int] = {}
        for node, asked_as in pending.clients.items():
            client = self._assignment.partition(node)
            if client is None and not self.decentralised:
                client = asked_as
            if client is None or client in credited or node in declined:
                continue
            failed[client] = node
            if node not in self._warned:
                self._warned.add(node)
                LOGGER.warning(
                    "agewise: node %d (client %d) was asked in round %s and did not deliver; "
                    "if it goes on like that, it is asked less and less often",
                    node,
                    client,
                    pending.group,
                )
        return dict(sorted(failed.items()))

    def _stated_sizes(self, updates: list[Update]) -> list[float] | None:
        """The data sizes that clients state, if they are learnt; NaN for those that state none."""
        if not self._learns_sizes:
            return None
        stated = [update.metric(self.weighted_by_key) for update in updates]
        return [size if size > 0 else math.nan for size in stated]

    def _end_dropped_round(self, group: str) -> None:
        """Ends the round before this one if it was never aggregated."""
        dropped = self._training
        if not dropped.clients or dropped.group == group:
            return
        members = set(dropped.clients.values())
        failed = self._lost.dropped(members, self._selector.failed)
        LOGGER.warning(
            "agewise: the replies of round %s were dropped by another strategy, because of %s",
            dropped.group,
            f"client {failed[0]}" if len(failed) == 1 else f"one of {len(members)} clients",
        )
        node_of = {client: node for node, client in dropped.clients.items()}
        self._suspended.failed({client: node_of[client] for client in failed})
        self._selector.report([], failed=failed)

    def _credit(self, updates: list[Update], pending: PendingRound, declined: set[int]) -> None:
        """Ends the round of the selector with the metrics of the replies, and with who failed."""
        clients = [update.client for update in updates]
        failed = self._failed(updates, pending, declined)
        self._lost.delivered(clients)
        self._suspended.delivered(clients)
        self._suspended.failed(failed)
        self._selector.report(
            clients,
            failed=list(failed),
            losses=[update.metric(self.loss_key) for update in updates],
            durations=[update.metric(self.duration_key) for update in updates],
            root_mean_squares=[update.metric(self.root_mean_square_key) for update in updates],
            sizes=self._stated_sizes(updates),
        )
        if self._selector.needs.update_sketches and pending.arrays:
            # Reported separately, because an accepted reply may have no sketch.
            sketched = sketched_arrays(pending.arrays, self._sketch_arrays)
            sketches = sketches_of(updates, pending.arrays, sketched, self.seed)
            if sketches:
                found = np.stack(list(sketches.values()))
                self._selector.observe(list(sketches), sketches=found)
