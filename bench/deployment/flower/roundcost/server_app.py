"""FedAvg with every node in every round and no evaluation, with a clock.

The time of a round runs from the call of `configure_train` to the return of `aggregate_train`: choosing the nodes,
making and sending the messages, the way to the clients and back, and the average. Beyond it lies only the empty
evaluation that Flower's loop runs in every round.
"""

import statistics
import time

from flwr.app import ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from roundcost.task import initial_arrays

app = ServerApp()


class TimedFedAvg(FedAvg):
    """FedAvg that notes how long each round took."""

    def __init__(self, nodes: int) -> None:
        super().__init__(
            fraction_train=1.0,
            fraction_evaluate=0.0,
            min_train_nodes=nodes,
            min_available_nodes=nodes,
        )
        self.nodes = nodes
        self.seconds: list[float] = []
        self.began = 0.0

    def configure_train(self, server_round, arrays, config, grid):
        """Starts the clock."""
        self.began = time.perf_counter()
        return super().configure_train(server_round, arrays, config, grid)

    def aggregate_train(self, server_round, replies):
        """Stops the clock. A round that lost a client would be cheaper than it should be: that is an error."""
        replies = list(replies)
        failed = sum(reply.has_error() for reply in replies)
        if failed > 0 or len(replies) != self.nodes:
            raise RuntimeError(f"round {server_round}: {len(replies)} replies, {failed} of them errors")
        aggregated = super().aggregate_train(server_round, replies)
        self.seconds.append(time.perf_counter() - self.began)
        print(f"flower round {server_round}: {self.seconds[-1]:.4f} s", flush=True)
        return aggregated


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Runs the rounds and prints the median of those after the warm-up."""
    warmup, measured = context.run_config["warmup-rounds"], context.run_config["measured-rounds"]
    strategy = TimedFedAvg(context.run_config["nodes"])
    strategy.start(grid, ArrayRecord(initial_arrays()), num_rounds=warmup + measured)
    seconds = strategy.seconds[warmup:]
    print(
        f"flower seconds per round: median {statistics.median(seconds):.4f} of {len(seconds)}",
        flush=True,
    )
