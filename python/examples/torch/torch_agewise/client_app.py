"""The client: trains the PyTorch model that it is sent on its own digits."""

import time

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from agewise.flower import age_mod, identify, server_round
from torch_agewise import task

# With agewise-decentralised the client decides whether it trains; the run config has the settings.
app = identify(ClientApp(mods=[age_mod()]))


@app.train()
def train(message: Message, context: Context) -> Message:
    """Trains for one round."""
    began = time.perf_counter()
    config = context.run_config
    client, seed = int(context.node_config["partition-id"]), int(config["agewise-seed"])
    clients = int(config["agewise-clients"])
    data = task.tensors(task.split(clients, str(config["partition"]), seed).of(client))
    net = task.build(seed)
    net.load_state_dict(message.content.array_records["arrays"].to_torch_state_dict())
    loss = task.train(
        net,
        data,
        epochs=int(config["local-epochs"]),
        batch=int(config["batch-size"]),
        lr=float(config["learning-rate"]),
        # Different batches in every round and for every client, the same in every run.
        seed=(seed * 1_000_003 + server_round(message)) * clients + client,
    )
    metrics = MetricRecord(
        {
            "train_loss": loss,
            "num-examples": len(data),
            "duration": time.perf_counter() - began,
        }
    )
    content = RecordDict({"arrays": ArrayRecord(net.state_dict()), "metrics": metrics})
    return Message(content, reply_to=message)
