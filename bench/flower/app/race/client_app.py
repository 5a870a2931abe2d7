"""The client: trains the arrays it is sent on its part of MNIST, with the trainer that the run asks for."""

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

app = ClientApp()


def with_torch(arrays: ArrayRecord, context: Context, tuned: bool) -> tuple[ArrayRecord, float, int]:
    """As Flower's quickstart does it: a new model, its state, a loader, the loop."""
    from race import task_torch as task

    config = context.run_config
    net = task.build()
    net.load_state_dict(arrays.to_torch_state_dict())
    loader = task.load_data(
        str(config["data"]),
        int(context.node_config["partition-id"]),
        int(context.node_config["num-partitions"]),
        int(config["batch"]),
    )
    train = task.train_tuned if tuned else task.train
    loss = train(net, loader, int(config["epochs"]), float(config["lr"]))
    state = {name: tensor.contiguous() for name, tensor in net.state_dict().items()}
    return ArrayRecord(state), loss, len(loader.dataset)  # type: ignore[arg-type]


def with_agewise(arrays: ArrayRecord, context: Context, server_round: int) -> tuple[ArrayRecord, float, int]:
    """The same with agewise's trainer, which trains in the memory that NumPy sees."""
    from race import task_agewise as task

    config = context.run_config
    client = int(context.node_config["partition-id"])
    split = task.split(str(config["data"]), int(context.node_config["num-partitions"]))
    trainer = task.trainer()
    task.from_record(arrays, trainer)
    report = trainer.train(
        split.of(client),
        epochs=int(config["epochs"]),
        batch=int(config["batch"]),
        lr=float(config["lr"]),
        round=server_round,
        client=client,
    )
    return task.to_record(trainer), report.loss, len(split.of(client))


@app.train()
def train(message: Message, context: Context) -> Message:
    """One client's part of a round."""
    arrays = message.content.array_records["arrays"]
    who = context.run_config["trainer"]
    if who == "agewise":
        server_round = message.content.config_records["config"]["server-round"]
        if not isinstance(server_round, int):
            raise ValueError(f"server-round: {server_round!r}, expected a whole number")
        trained, loss, examples = with_agewise(arrays, context, server_round)
    else:
        trained, loss, examples = with_torch(arrays, context, tuned=who == "torch-tuned")
    metrics = MetricRecord({"train_loss": loss, "num-examples": examples})
    return Message(RecordDict({"arrays": trained, "metrics": metrics}), reply_to=message)
