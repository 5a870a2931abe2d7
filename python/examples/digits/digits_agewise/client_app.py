"""The client: trains what it is sent on its own digits."""

from agewise.flower import age_mod, identify, identity_mod
from flwr.app import Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.clientapp.typing import ClientAppCallable

from digits_agewise.task import Settings, from_record, round_of, split, to_record, trainer

# Takes what it needs to know from the run config.
decide_alone = age_mod()


def by_mode(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
    """As the run config has it: the client decides whether it trains, or only says who it is."""
    mod = decide_alone if Settings.of(context).decentralised else identity_mod
    return mod(message, context, call_next)


app = identify(ClientApp(mods=[by_mode]))


@app.train()
def train(message: Message, context: Context) -> Message:
    """One client's part of a round."""
    settings = Settings.of(context)
    client = int(context.node_config["partition-id"])
    mine = split(settings.clients, settings.partition, settings.seed).of(client)
    model = trainer(settings.model, settings.seed)
    from_record(message.content.array_records["arrays"], model)
    report = model.train(
        mine,
        epochs=settings.epochs,
        batch=settings.batch,
        lr=settings.lr,
        # The order of the batches is a function of these three.
        seed=settings.seed,
        round=round_of(message),
        client=client,
    )
    metrics = MetricRecord(
        {
            "train_loss": report.loss,
            "num-examples": len(mine),
            "duration": report.seconds,
        }
    )
    return Message(RecordDict({"arrays": to_record(model), "metrics": metrics}), reply_to=message)
