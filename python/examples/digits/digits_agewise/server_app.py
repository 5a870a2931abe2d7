"""The server: asks who is old enough, averages, and tests the model after every round."""

from agewise.flower import AgeStrategy
from flwr.app import ArrayRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import Result

from digits_agewise.task import Settings, digits, from_record, to_record, trainer

app = ServerApp()


def participation(result: Result) -> str:
    """How evenly the clients took part: figures that AgeStrategy adds to the metrics."""
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
    """Plays the rounds."""
    settings = Settings.of(context)
    model = trainer(settings.model, settings.seed)

    def test(server_round: int, arrays: ArrayRecord) -> MetricRecord:
        from_record(arrays, model)
        result = model.evaluate(digits().test)
        print(f"round {server_round}: accuracy {result.accuracy:.3f}", flush=True)
        return MetricRecord({"accuracy": result.accuracy, "loss": result.loss})

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
    result = strategy.start(grid, to_record(model), num_rounds=settings.rounds, evaluate_fn=test)
    for server_round, metrics in result.train_metrics_clientapp.items():
        asked, reported = metrics["agewise-asked"], metrics["agewise-reported"]
        print(f"round {server_round}: asked {asked}, reported {reported}", flush=True)
    print(f"participation after the last round: {participation(result)}", flush=True)
