"""The server: AgeStrategy instead of FedAvg; the rest is as in any Flower app."""

from flwr.app import ArrayRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp

from agewise.flower import AgeStrategy
from torch_agewise import task

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Runs all rounds."""
    config = context.run_config
    net = task.build(int(config["agewise-seed"]))
    unseen = task.tensors(task.digits().test)

    def test(server_round: int, arrays: ArrayRecord) -> MetricRecord:
        net.load_state_dict(arrays.to_torch_state_dict())
        accuracy, loss = task.test(net, unseen)
        print(f"round {server_round}: accuracy {accuracy:.3f}", flush=True)
        return MetricRecord({"accuracy": accuracy, "loss": loss})

    wait_for = int(config["wait-for"]) or int(config["agewise-clients"])
    strategy = AgeStrategy.from_run_config(
        config,
        # The server evaluates the model, so clients do not have to.
        fraction_evaluate=0.0,
        min_train_nodes=wait_for,
        min_available_nodes=wait_for,
    )
    rounds = int(config["num-server-rounds"])
    strategy.start(grid, ArrayRecord(net.state_dict()), num_rounds=rounds, evaluate_fn=test)
