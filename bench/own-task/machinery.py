"""What a client costs beside its training: rounds of a task whose clients return the model as they got it.

`python machinery.py [ROUNDS]`. Prints for each engine and size of model the median milliseconds of a round divided by its
clients. A round is everything that it has in a comparison: the selection, sending the model, the checks of updates, the
mean, and the checkpoint of the run; models are evaluated after the last round only. Then it does the same with clients
that wait for half a second, which takes no processor from anybody: what a round lasts beyond the waiting is machinery,
also on a machine that others use.
"""

import math
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import agewise

CLIENTS, COHORT, WORKERS = 100, 15, 2
#: The models `2nn` has about 200,000 parameters and `cnn` 1,663,370.
SIZES = [20_000, 200_000, 1_663_370]


class Nothing:
    """A task without work."""

    metric = "loss"
    clients = [1] * CLIENTS

    def __init__(self, parameters, seconds=0.0):
        self.parameters, self.seconds = parameters, seconds

    def initial(self, seed):
        """The first model."""
        return np.zeros(self.parameters, dtype=np.float32)

    def train(self, client, parameters, round, seed):
        """Waits, and returns the model."""
        time.sleep(self.seconds)
        return parameters, {"loss": 1.0}

    def evaluate(self, parameters):
        """A number."""
        return {"loss": 1.0}


class Times:
    """Notes how long rounds last."""

    def __init__(self):
        self.last, self.rounds = time.perf_counter(), []

    def on_round(self, policy, seed, metrics):
        """A round has ended."""
        now = time.perf_counter()
        self.rounds.append(now - self.last)
        self.last = now


def seconds(engine, task, rounds):
    """Of a round, in the median; the first five warm up."""
    times = Times()
    with tempfile.TemporaryDirectory() as folder:
        agewise.compare(
            task=task,
            engine=engine,
            threads=WORKERS,
            policies=["random"],
            cohort=COHORT,
            rounds=rounds + 5,
            seeds=1,
            eval_from=rounds + 5,
            out=Path(folder) / "run",
            callbacks=times,
            progress=False,
        )
    # The last round has an evaluation.
    return statistics.median(times.rounds[5:-1])


if __name__ == "__main__":
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    print("engine     parameters  ms per client")
    for engine in ["threads", "processes"]:
        for parameters in SIZES:
            found = 1000 * seconds(engine, Nothing(parameters), rounds) / COHORT
            print(f"{engine:9}  {parameters:10,}  {found:13.2f}", flush=True)
    waiting = 0.5 * math.ceil(COHORT / WORKERS)
    found = seconds("processes", Nothing(SIZES[-1], 0.5), 10)
    print(f"{COHORT} clients that wait 0.5 s, {WORKERS} workers: {waiting:.2f} s of waiting, {found:.2f} s in a round")
