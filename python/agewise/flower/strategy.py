"""The server's side: a strategy that chooses by age and credits who came."""

import json
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg, Result

from agewise import Client, Selector
from agewise.checks import names, positive, whole
from agewise.flower import checkpoint
from agewise.flower.figures import add_participation, evaluation_draw, later_rounds
from agewise.flower.keys import (
    AGE_KEY,
    LOGGER,
    ROUND_KEY,
    has_declined,
)
from agewise.flower.places import Places
from agewise.flower.replies import (
    Asked,
    Update,
    for_average,
    move_by,
    of_one_layout,
    read_update,
    refuse,
)
from agewise.flower.sketches import sketched_arrays, sketches_of

MetricsAverage = Callable[[list[RecordDict], str], MetricRecord]


class AgeStrategy(FedAvg):
    """FedAvg whose clients are chosen by age.

    It takes FedAvg's arguments, and these (by name):

    - `clients`: how many clients there are; their partition ids are 0 to `clients - 1`.
    - `cohort`: how many of them train in a round, on average; `round(fraction_train * clients)` if
      not given.
    - `policy`: any policy by name, with options if it has some: `"phased(reshuffle=0.05)"`.
    - `seed`, `max_age`, `start`, `sizes`, `empty_cohort`: as in
      [`agewise.Selector`][agewise.Selector].
    - `weighting`: how replies are weighed. Not given: by `weighted_by_key`, as FedAvg does.
      `"uniform"`, `"data-size"` (wants `sizes`), `"draw-count"`, `"unbiased"`: with the cohort's
      weights. The weight of those who failed is shared by those who came; `"unbiased"` moves the
      model by the sum of the cohort's weights.
    - `decentralised`: everyone is asked, and clients with [`age_mod`][agewise.flower.age_mod]
      decide on their own.
    - `loss_key`, `duration_key`, `root_mean_square_key`: the metrics of a train reply that tell its
      loss, its seconds, and the root of the mean square of the losses of its samples.
    - `sketch_arrays`: the names of the arrays whose change is sketched for policies that look at
      updates; the last two if not given, in most models the output layer's weights and biases.
    - `identify_timeout`: how many seconds new nodes have to say which partition they hold.

    `min_train_nodes` is a number of nodes to wait for, like `min_available_nodes`; how many train
    is up to the policy. The strategy goes on where it is: a second `start`, or one after
    `load_state_dict`, continues the numbers of the rounds.

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
        policy: str = "markov-optimal",
        seed: int = 0,
        max_age: int = 10,
        start: str = "stationary",
        weighting: str | None = None,
        sizes: Sequence[float] | None = None,
        empty_cohort: str = "force-one",
        decentralised: bool = False,
        loss_key: str = "train_loss",
        duration_key: str = "duration",
        root_mean_square_key: str = "train_loss_rms",
        sketch_arrays: Sequence[str] | None = None,
        identify_timeout: float = 120.0,
    ) -> None:
        clients, seed, max_age = (
            positive("clients", clients),
            whole("seed", seed),
            whole("max_age", max_age),
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
                "the number of clients; rounds would wait for ever"
            )
        if weighting == "data-size" and sizes is None:
            raise ValueError(
                "sizes = None: expected the data sizes of all clients; "
                "without a weighting, replies are weighed by their own number of examples"
            )
        if decentralised and weighting not in (None, "uniform"):
            raise ValueError(
                f"weighting = {weighting!r}: expected None or 'uniform' where clients decide: "
                "the server has no cohort to weigh"
            )
        self._settings: dict[str, int | str] = {
            "policy": policy,
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
            # Sketches of other arrays cannot be compared with those of a state.
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
                sizes=sizes,
                empty_cohort=empty_cohort,
            )

        self._new_selector = new_selector
        self._selector = self._new_selector()
        if decentralised:
            # Says so if the policy cannot be decided by clients.
            Client(policy, clients, cohort, 0, seed, max_age=max_age, start=start)
        self.clients = clients
        self.cohort = cohort
        self.policy = policy
        self.seed = seed
        self.weighting = weighting
        self.decentralised = decentralised
        self.loss_key = loss_key
        self.duration_key = duration_key
        self.root_mean_square_key = root_mean_square_key
        self.identify_timeout = identify_timeout
        self._own_train_metrics = train_metrics_aggr_fn is not None
        self._own_evaluate_metrics = evaluate_metrics_aggr_fn is not None
        self._places = Places(clients)
        self._asked = Asked()
        self._evaluating = Asked()
        # The rounds before the present `start`, which counts from 1.
        self._before = 0

    # Rounds

    @property
    def rounds_done(self) -> int:
        """How many rounds were played, those before `load_state_dict` included."""
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
        """Plays `num_rounds` more rounds.

        As in FedAvg, but rounds go on from `rounds_done + 1`: in the config of messages, in
        `evaluate_fn` and in the result. The result of a run in which nobody ever reported has the
        initial arrays.
        """
        before = self.rounds_done
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
        """Asks the cohort of the round (everyone, where clients decide)."""
        self._asked = Asked()
        if self.fraction_train == 0.0:
            return []
        if self._selector.wants_sketches and arrays:
            # A wrong name is said before anybody trains.
            sketched_arrays(arrays, self._sketch_arrays)
        owners = self._seat(grid, self.min_train_nodes)
        weights: dict[int, float] = {}
        if self.decentralised:
            chosen = list(owners)
        else:
            available = np.zeros(self.clients, dtype=bool)
            available[list(owners)] = True
            cohort = self._selector.select(available=available)
            chosen = [int(number) for number in cohort.ids]
            if self.weighting is not None:
                weights = dict(zip(chosen, map(float, cohort.weights), strict=True))
        LOGGER.info("configure_train: Asking %d nodes (out of %d)", len(chosen), len(owners))
        nodes = {owners[number]: number for number in chosen}
        group = str(self._before + server_round)
        self._asked = Asked(group, arrays, nodes, weights)
        ages = self._selector.ages
        return [
            self._message(MessageType.TRAIN, group, arrays, config, node, int(ages[number]))
            for node, number in nodes.items()
        ]

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Averages the replies that count, credits their clients and ends the round.

        A reply counts if its node was asked in this round and has not replied before, it has no
        error, exactly one ArrayRecord with finite numbers only and one MetricRecord with a weight,
        and the names and shapes of its arrays are those of the model. The sum is taken by increasing
        partition id, so that it does not depend on who came first.
        """
        asked, self._asked = self._asked, Asked()
        received = asked.replies_among(replies)
        self._places.learn(received)
        came = [reply for reply in received if not has_declined(reply)]
        errors = [reply for reply in came if reply.has_error()]
        updates = self._read(came, asked, trained=True)
        counted = for_average(
            updates,
            self.weighted_by_key,
            self._weights(updates, asked),
            named=self._own_train_metrics,
        )
        arrays, metrics = super().aggregate_train(self._before + server_round, [*counted, *errors])
        if arrays is not None and self.weighting == "unbiased" and asked.arrays is not None:
            arrays = move_by(math.fsum(asked.weights.values()), asked.arrays, arrays)
        self._credit(updates, asked)
        metrics = MetricRecord() if metrics is None else metrics
        cohort = len(came) if self.decentralised else len(asked.nodes)
        metrics["agewise-asked"] = len(asked.nodes)
        metrics["agewise-cohort"] = cohort
        metrics["agewise-reported"] = len(updates)
        add_participation(metrics, self._selector)
        return arrays, metrics

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Asks a share of the connected clients, drawn from the seed and the round."""
        self._evaluating = Asked()
        if self.fraction_evaluate == 0.0:
            return []
        owners = self._seat(grid, self.min_evaluate_nodes)
        wanted = max(int(len(owners) * self.fraction_evaluate), self.min_evaluate_nodes)
        group = str(self._before + server_round)
        drawn = sorted(owners, key=lambda number: evaluation_draw(self.seed, group, number))
        chosen = sorted(drawn[:wanted])
        LOGGER.info("configure_evaluate: Sampled %d nodes (out of %d)", len(chosen), len(owners))
        nodes = {owners[number]: number for number in chosen}
        self._evaluating = Asked(group, None, nodes)
        return [
            self._message(MessageType.EVALUATE, group, arrays, config, node, None) for node in nodes
        ]

    def aggregate_evaluate(
        self, server_round: int, replies: Iterable[Message]
    ) -> MetricRecord | None:
        """Averages the metrics of the replies that count, by increasing partition id."""
        asked, self._evaluating = self._evaluating, Asked()
        received = asked.replies_among(replies)
        errors = [reply for reply in received if reply.has_error()]
        updates = self._read(received, asked, trained=False)
        named = self._own_evaluate_metrics
        counted = for_average(updates, self.weighted_by_key, None, named=named)
        return super().aggregate_evaluate(self._before + server_round, [*counted, *errors])

    # State

    def state_dict(self) -> dict[str, int | str]:
        """All that has to be kept to go on later: numbers and texts, for JSON or a `ConfigRecord`.

        Keep it together with the arrays of the same round, for example in `evaluate_fn`, which
        `start` calls after each round.
        """
        return checkpoint.pack(self._selector, self._settings)

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Goes on from the state of a strategy with the same policy, numbers and seed.

        Anything else is a ValueError, and the strategy stays as it was.
        """
        self._selector = checkpoint.unpack(state, self._new_selector(), self._settings)

    def summary(self) -> None:
        """Logs the settings, FedAvg's first."""
        super().summary()
        LOGGER.info("\t└──> agewise:")
        who = "each client" if self.decentralised else "the server"
        LOGGER.info("\t\t├── Policy: '%s', decided by %s", self.policy, who)
        LOGGER.info("\t\t├── Clients: %d, %d in a round", self.clients, self.cohort)
        weighting = f"'{self.weighted_by_key}'" if self.weighting is None else self.weighting
        LOGGER.info("\t\t├── Weights: %s", weighting)
        LOGGER.info("\t\t└── Seed: %d, rounds done: %d", self.seed, self.rounds_done)

    # Who is there

    def _seat(self, grid: Grid, minimum: int) -> Mapping[int, int]:
        """Waits for enough nodes and gives each its number: the node of each number."""
        minimum = max(minimum, self.min_available_nodes)
        while len(connected := list(grid.get_node_ids())) < minimum:
            LOGGER.info(
                "Waiting for nodes to connect: %d connected (minimum required: %d).",
                len(connected),
                minimum,
            )
            time.sleep(1)
        # Where clients decide, the replies of the first round tell who they are.
        if not self.decentralised or self.rounds_done > 0:
            self._places.ask(grid, connected, self.identify_timeout)
        self._places.settle(connected)
        return self._places.owners

    def _message(
        self,
        kind: str,
        group: str,
        arrays: ArrayRecord,
        config: ConfigRecord,
        node: int,
        age: int | None,
    ) -> Message:
        """A message with its own config; where clients decide, it tells the age one should have."""
        own = ConfigRecord(dict(config))
        own[ROUND_KEY] = int(group)
        if self.decentralised and age is not None and self._places.is_sure(node):
            own[AGE_KEY] = age
        content = RecordDict({self.arrayrecord_key: arrays, self.configrecord_key: own})
        return Message(content, node, kind, group_id=group)

    # What came back

    def _read(self, replies: list[Message], asked: Asked, *, trained: bool) -> list[Update]:
        """The replies that count, by increasing number."""
        weight_key = None if trained and self.weighting else self.weighted_by_key
        updates = []
        for reply in filter(Message.has_content, replies):
            number = self._places.number(reply.metadata.src_node_id)
            if number is None:
                refuse(reply, "its node has no place")
                continue
            update = read_update(number, reply, weight_key, trained=trained)
            if isinstance(update, str):
                refuse(reply, update)
            else:
                updates.append(update)
        return of_one_layout(updates, asked.arrays)

    def _weights(self, updates: list[Update], asked: Asked) -> list[float] | None:
        """The weights of the updates, unless they weigh by what they say themselves."""
        if self.weighting is None:
            return None
        numbers = [asked.nodes[update.reply.metadata.src_node_id] for update in updates]
        # Where clients decide there is no cohort: all weigh the same.
        return [asked.weights.get(number, 1.0) for number in numbers]

    def _credit(self, updates: list[Update], asked: Asked) -> None:
        """Ends the round for the selector, which hears what the replies tell."""
        self._selector.report(
            [update.number for update in updates],
            losses=[update.figure(self.loss_key) for update in updates],
            durations=[update.figure(self.duration_key) for update in updates],
            root_mean_squares=[update.figure(self.root_mean_square_key) for update in updates],
        )
        if self._selector.wants_sketches and asked.arrays:
            # Apart from the rest, because a reply that counts may have none.
            sketched = sketched_arrays(asked.arrays, self._sketch_arrays)
            sketches = sketches_of(updates, asked.arrays, sketched, self.seed)
            if sketches:
                self._selector.note(list(sketches), sketches=np.stack(list(sketches.values())))
