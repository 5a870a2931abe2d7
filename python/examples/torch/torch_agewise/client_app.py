"""The client: trains the PyTorch model that it is sent on its own digits."""

import time

from agewise.flower import age_mod, identify, identity_mod
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.clientapp.typing import ClientAppCallable

from torch_agewise import task
from torch_agewise.task import Settings

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
    began = time.perf_counter()
    settings = Settings.of(context)
    client = int(context.node_config["partition-id"])
    server_round = task.round_of(message)
    mine = task.tensors(task.split(settings.clients, settings.partition, settings.seed).of(client))
    net = task.build(settings.seed)
    net.load_state_dict(message.content.array_records["arrays"].to_torch_state_dict())
    # Other batches in every round and for every client, the same in every run.
    seed = (settings.seed * 1_000_003 + server_round) * settings.clients + client
    loss = task.train(net, mine, settings.epochs, settings.batch, settings.lr, seed)
    metrics = MetricRecord(
        {
            "train_loss": loss,
            "num-examples": len(mine),
            "duration": time.perf_counter() - began,
        }
    )
    content = RecordDict({"arrays": ArrayRecord(net.state_dict()), "metrics": metrics})
    return Message(content, reply_to=message)
