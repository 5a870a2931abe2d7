"""The server: AgeStrategy selects and aggregates; the model is evaluated after every round."""

from flwr.app import ArrayRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import Result

from agewise.flower import AgeStrategy
from digits_agewise import task

app = ServerApp()


def participation(result: Result) -> str:
    """The metrics of participation that AgeStrategy adds."""
    last = result.train_metrics_clientapp[max(result.train_metrics_clientapp)]
    names = {
        "agewise-jain": "Jain's index",
        "agewise-var-interval": "variance of the interval",
        "agewise-longest-wait": "longest wait",
        "agewise-max-age": "greatest age now",
    }
    return ", ".join(f"{text} {last[key]:.4g}" for key, text in names.items() if key in last)


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Runs all rounds."""
    config = context.run_config
    model = task.trainer(str(config["model"]), int(config["agewise-seed"]))

    def test(server_round: int, arrays: ArrayRecord) -> MetricRecord:
        task.from_record(arrays, model)
        result = model.evaluate(task.digits().test)
        print(f"round {server_round}: accuracy {result.accuracy:.3f}", flush=True)
        return MetricRecord({"accuracy": result.accuracy, "loss": result.loss})

    wait_for = int(config["wait-for"]) or int(config["agewise-clients"])
    strategy = AgeStrategy.from_run_config(
        config,
        # The server evaluates the model, so clients do not have to.
        fraction_evaluate=0.0,
        min_train_nodes=wait_for,
        min_available_nodes=wait_for,
    )
    rounds = int(config["num-server-rounds"])
    result = strategy.start(grid, task.to_record(model), num_rounds=rounds, evaluate_fn=test)
    for server_round, metrics in result.train_metrics_clientapp.items():
        asked, reported = metrics["agewise-asked"], metrics["agewise-reported"]
        print(f"round {server_round}: asked {asked}, reported {reported}", flush=True)
    print(f"participation after the last round: {participation(result)}", flush=True)
