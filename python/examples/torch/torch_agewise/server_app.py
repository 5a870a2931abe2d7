"""The server: FedAvg's place is taken by AgeStrategy; the rest is as in any Flower app."""

from agewise.flower import AgeStrategy
from flwr.app import ArrayRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp

from torch_agewise import task
from torch_agewise.task import Settings

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Plays the rounds."""
    settings = Settings.of(context)
    net = task.build(settings.seed)
    unseen = task.tensors(task.digits().test)

    def test(server_round: int, arrays: ArrayRecord) -> MetricRecord:
        net.load_state_dict(arrays.to_torch_state_dict())
        accuracy, loss = task.test(net, unseen)
        print(f"round {server_round}: accuracy {accuracy:.3f}", flush=True)
        return MetricRecord({"accuracy": accuracy, "loss": loss})

    strategy = AgeStrategy(
        policy=settings.policy,
        clients=settings.clients,
        cohort=settings.cohort,
        seed=settings.seed,
        decentralised=settings.decentralised,
        # The server tests; the clients need not.
        fraction_evaluate=0.0,
        min_train_nodes=settings.wait_for,
        min_available_nodes=settings.wait_for,
    )
    first = ArrayRecord(net.state_dict())
    strategy.start(grid, first, num_rounds=settings.rounds, evaluate_fn=test)
