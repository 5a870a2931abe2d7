"""A round of the `cnn` workload with a PyTorch task: a hand-written loop, agewise's worker processes, and Flower.

One contestant per call: `python measure.py loop|agewise|flower ROUNDS SEED`. Prints the seconds of each round, the
processor seconds of all processes of the contestant in it, and those of everything on the machine; the first round warms
up. AGEWISE_DATA names a folder with the MNIST files. `run` lets the contestants take turns.
"""

import multiprocessing
import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "flower/app"))
from race import task_torch  # noqa: E402

CLIENTS, COHORT, EPOCHS, BATCH, RATE = 100, 15, int(os.environ.get("BENCH_EPOCHS", "5")), 50, 0.1
PROCESSES = os.cpu_count() or 1
FOLDER = os.environ["AGEWISE_DATA"]


def shares():
    """The images and labels of each client: 600 of them."""
    images, labels = task_torch.samples(FOLDER, "train")
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(1))
    return [(images[order[k::CLIENTS]], labels[order[k::CLIENTS]]) for k in range(CLIENTS)]


def processor_seconds():
    """What this process and all that it has started have used."""
    parents, used = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        # The fields from the state on: the parent is the second, times in ticks are 12 to 15.
        parents[int(folder.name)] = int(fields[1])
        used[int(folder.name)] = sum(map(int, fields[11:15]))
    ours = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in ours and pid not in ours}:
        ours |= more
    return sum(used.get(pid, 0) for pid in ours) / os.sysconf("SC_CLK_TCK")


def machine_seconds():
    """What all processors of the machine have worked."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    # User, nice and system time, and interrupts; the fourth and fifth field are idle time.
    return sum(int(fields[place]) for place in (0, 1, 2, 5, 6)) / os.sysconf("SC_CLK_TCK")


class Clock:
    """Prints what a round has taken."""

    def __init__(self, name):
        self.name, self.round = name, 0
        self.begin()

    def begin(self):
        """A round begins."""
        self.wall, self.cpu = time.perf_counter(), processor_seconds()
        self.machine = machine_seconds()

    def end(self):
        """A round is over."""
        wall, cpu = time.perf_counter() - self.wall, processor_seconds() - self.cpu
        machine = machine_seconds() - self.machine
        print(f"{self.name} {self.round} {wall:.3f} {cpu:.2f} {machine:.2f}", flush=True)
        self.round += 1
        self.begin()


def train_by_hand(net, images, labels, seed):
    """The usual loop, over tensors that are there already; gives the mean loss."""
    torch.manual_seed(seed)
    optimiser, total, batches = torch.optim.SGD(net.parameters(), lr=RATE), 0.0, 0
    net.train()
    for _ in range(EPOCHS):
        for part in torch.randperm(len(labels)).split(BATCH):
            optimiser.zero_grad()
            loss = F.cross_entropy(net(images[part]), labels[part])
            loss.backward()
            optimiser.step()
            total, batches = total + loss.item(), batches + 1
    return total / batches


def loop(rounds, seed):
    """Worker processes with a pool, parameters sent with each client, and an average."""
    net, data = task_torch.build(), shares()

    def work(pipe):
        torch.set_num_threads(1)
        own = task_torch.build()
        while (job := pipe.recv()) is not None:
            client, state, number = job
            own.load_state_dict({name: torch.from_numpy(value) for name, value in state.items()})
            loss = train_by_hand(own, *data[client], 1000 * number + client)
            pipe.send(({name: value.numpy() for name, value in own.state_dict().items()}, loss))

    fork = multiprocessing.get_context("fork")
    pipes = []
    for _ in range(PROCESSES):
        ours, theirs = fork.Pipe()
        fork.Process(target=work, args=(theirs,), daemon=True).start()
        pipes.append(ours)
    rng, clock = np.random.default_rng(seed), Clock("loop")
    state = {name: value.numpy() for name, value in net.state_dict().items()}
    for number in range(rounds):
        waiting = rng.choice(CLIENTS, COHORT, replace=False).tolist()
        for pipe in pipes:
            pipe.send((waiting.pop(), state, number))
        trained, busy = [], list(pipes)
        while busy:
            for pipe in multiprocessing.connection.wait(busy):
                trained.append(pipe.recv()[0])
                if waiting:
                    pipe.send((waiting.pop(), state, number))
                else:
                    busy.remove(pipe)
        state = {name: np.mean([model[name] for model in trained], axis=0) for name in state}
        clock.end()
    for pipe in pipes:
        pipe.send(None)


def by_agewise(rounds, seed):
    """`agewise.compare` with a TorchTask in worker processes, with a run folder and checkpoints."""
    import agewise
    from agewise.torch import TorchTask

    images, labels = task_torch.samples(FOLDER, "t10k")
    task = TorchTask(
        task_torch.build,
        F.cross_entropy,
        shares(),
        (images[:100], labels[:100]),
        optimiser=lambda parameters: torch.optim.SGD(parameters, lr=RATE),
        local=f"{EPOCHS} epochs",
        batch=BATCH,
        device="cpu",
    )
    clock = Clock("agewise")

    class Listens:
        def on_round(self, policy, seed, metrics):
            clock.end()

    with tempfile.TemporaryDirectory() as folder:
        agewise.compare(
            task=task,
            engine="processes",
            policies=["random"],
            cohort=COHORT,
            rounds=rounds,
            seed=seed,
            seeds=1,
            eval_from=rounds,
            out=Path(folder) / "run",
            callbacks=Listens(),
            progress=False,
        )


def flower(rounds, seed):
    """Flower's simulation on Ray with FedAvg, and the hand-written loop in its client."""
    from flwr.app import ArrayRecord, MetricRecord, RecordDict
    from flwr.app import Message as FlowerMessage
    from flwr.clientapp import ClientApp
    from flwr.serverapp import ServerApp
    from flwr.serverapp.strategy import FedAvg
    from flwr.simulation import run_simulation

    app, server = ClientApp(), ServerApp()

    @app.train()
    def train(message, context):
        torch.set_num_threads(1)
        images, labels = task_torch.samples(FOLDER, "train")
        order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(1))
        mine = order[int(context.node_config["partition-id"]) :: CLIENTS]
        net = task_torch.build()
        net.load_state_dict(message.content.array_records["arrays"].to_torch_state_dict())
        loss = train_by_hand(net, images[mine], labels[mine], seed)
        metrics = MetricRecord({"train_loss": loss, "num-examples": len(mine)})
        record = RecordDict({"arrays": ArrayRecord(net.state_dict()), "metrics": metrics})
        return FlowerMessage(record, reply_to=message)

    class Timed(FedAvg):
        def aggregate_train(self, *arguments):
            found = super().aggregate_train(*arguments)
            clock.end()
            return found

    @server.main()
    def main(grid, context):
        nonlocal clock
        strategy = Timed((COHORT + 0.5) / CLIENTS, 0.0, COHORT, 2, CLIENTS)
        clock = Clock("flower")
        strategy.start(grid, ArrayRecord(task_torch.build().state_dict()), num_rounds=rounds)

    clock = Clock("flower")
    resources = {"client_resources": {"num_cpus": 1, "num_gpus": 0.0}}
    resources["init_args"] = {"num_cpus": PROCESSES, "log_to_driver": False}
    run_simulation(server, app, CLIENTS, backend_config=resources)


if __name__ == "__main__":
    who, rounds, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    torch.set_num_threads(1)
    {"loop": loop, "agewise": by_agewise, "flower": flower}[who](rounds, seed)
