"""FedAvg with a clock. A round lasts from the call of `configure_train` to the return of `aggregate_train`; the
global model is evaluated once, after the last round and outside the clock.
"""

import time
from collections.abc import Iterable

from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

app = ServerApp()


class TimedFedAvg(FedAvg):
    """FedAvg that prints how long each round took."""

    def __init__(self, nodes: int, cohort: int) -> None:
        super().__init__(
            # Flower rounds down: half a node more than wanted is safe from the rounding of the share.
            fraction_train=(cohort + 0.5) / nodes,
            fraction_evaluate=0.0,
            min_train_nodes=cohort,
            min_available_nodes=nodes,
        )
        self.cohort = cohort
        self.began = 0.0

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Starts the clock."""
        self.began = time.perf_counter()
        return super().configure_train(server_round, arrays, config, grid)

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Stops the clock. A round that lost a client would be cheaper than it should be: that is an error."""
        replies = list(replies)
        failed = sum(reply.has_error() for reply in replies)
        if failed > 0 or len(replies) != self.cohort:
            raise RuntimeError(f"round {server_round}: {len(replies)} replies, {failed} of them errors")
        aggregated = super().aggregate_train(server_round, replies)
        print(f"race round {server_round}: {time.perf_counter() - self.began:.3f} s", flush=True)
        return aggregated


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Runs the rounds and prints the accuracy after the last one."""
    config = context.run_config
    strategy = TimedFedAvg(int(config["clients"]), int(config["cohort"]))
    folder = str(config["data"])
    if config["trainer"] == "agewise":
        from race import task_agewise

        first = task_agewise.to_record(task_agewise.trainer())
    else:
        from race import task_torch

        first = ArrayRecord(task_torch.build().state_dict())
    rounds = int(config["warmup-rounds"]) + int(config["measured-rounds"])
    last = strategy.start(grid, first, num_rounds=rounds).arrays
    if config["trainer"] == "agewise":
        trainer = task_agewise.trainer()
        task_agewise.from_record(last, trainer)
        accuracy = trainer.evaluate(task_agewise.dataset(folder).test).accuracy
    else:
        net = task_torch.build()
        net.load_state_dict(last.to_torch_state_dict())
        accuracy = task_torch.accuracy(net, folder)
    print(f"race accuracy after {rounds} rounds: {accuracy:.4f}", flush=True)
