"""The client: trains the model that it is sent on its own digits."""

from flwr.app import Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from agewise.flower import age_mod, identify, server_round
from digits_agewise import task

# With agewise-decentralised the client decides whether it trains; the run config has the settings.
app = identify(ClientApp(mods=[age_mod()]))


@app.train()
def train(message: Message, context: Context) -> Message:
    """Trains for one round."""
    config = context.run_config
    client, seed = int(context.node_config["partition-id"]), int(config["agewise-seed"])
    split = task.split(int(config["agewise-clients"]), str(config["partition"]), seed)
    model = task.trainer(str(config["model"]), seed)
    task.from_record(message.content.array_records["arrays"], model)
    report = model.train(
        split.of(client),
        epochs=int(config["local-epochs"]),
        batch=int(config["batch-size"]),
        lr=float(config["learning-rate"]),
        # The order of the batches is a function of these three.
        seed=seed,
        round=server_round(message),
        client=client,
    )
    metrics = MetricRecord(
        {
            "train_loss": report.loss,
            "num-examples": len(split.of(client)),
            "duration": report.seconds,
        }
    )
    content = RecordDict({"arrays": task.to_record(model), "metrics": metrics})
    return Message(content, reply_to=message)
