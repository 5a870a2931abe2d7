"""A client that does no work. It shifts every array by a value of its own: Flower stores equal arrays once, and
those of clients that train are never equal.
"""

import numpy as np
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

app = ClientApp()


@app.train()
def train(message: Message, context: Context) -> Message:
    """Answers with the arrays it was sent, shifted."""
    shift = np.float32(1e-6 * (1 + context.node_config["partition-id"]))
    arrays = [array + shift for array in message.content["arrays"].to_numpy_ndarrays()]
    content = RecordDict(
        {"arrays": ArrayRecord(arrays), "metrics": MetricRecord({"num-examples": 600})}
    )
    return Message(content=content, reply_to=message)
