"""Tasks and rules of one's own for tests, in a module that worker processes can import."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: A comparison of two policies by such a task, in a second.
ASKED: dict[str, Any] = {
    "policies": ["random", "oldest-first"],
    "cohort": 4,
    "rounds": 5,
    "seeds": 2,
    "targets": [0.9],
    "progress": False,
}


class Lines:
    """Regression by SGD; every client has a line of its own. Measured by its loss."""

    name = "lines"
    model = "linear"
    metric = "loss"

    def __init__(self, clients: int = 12, width: int = 3) -> None:
        rng = np.random.default_rng(1)
        self.x = rng.normal(size=(clients, 20, width)).astype(np.float32)
        slopes = 1 + 0.3 * rng.normal(size=(clients, width)).astype(np.float32)
        self.y = np.einsum("kij,kj->ki", self.x, slopes)
        self.clients: Any = {f"client-{number}": 20 for number in range(clients)}

    def initial(self, seed: int) -> Any:
        return np.full(self.x.shape[2], 0.01 * seed)

    def train(self, client: Any, parameters: NDArray[np.float32], round: int, seed: int) -> Any:
        number = int(client.split("-")[1])
        losses = []
        for sample in np.random.default_rng(seed).permutation(20)[:10]:
            error = self.x[number, sample] @ parameters - self.y[number, sample]
            losses.append(error * error)
            parameters -= 0.05 * error * self.x[number, sample]
        return parameters, {"loss": float(np.mean(losses))}

    def evaluate(self, parameters: NDArray[np.float32]) -> Any:
        return {"loss": np.mean((self.x @ parameters - self.y) ** 2), "samples": self.y.size}

    def client_loss(self, client: Any, parameters: NDArray[np.float32]) -> Any:
        number = int(client.split("-")[1])
        return np.mean((self.x[number] @ parameters - self.y[number]) ** 2)


class Classes:
    """A softmax regression on three clouds of points. Measured by its accuracy."""

    def __init__(self, clients: int = 9) -> None:
        rng = np.random.default_rng(2)
        self.labels = np.arange(clients * 10) % 3
        centres = np.array([[2, 0], [-1, 2], [-1, -2]])
        self.points = centres[self.labels] + rng.normal(size=(len(self.labels), 2))
        self.clients = [10] * clients
        self.tensors = [("weight", (2, 3)), ("bias", (3,))]
        self.sketch_range = (6, 9)

    def _probabilities(self, model: Any, points: Any) -> Any:
        scores = points @ model[:6].reshape(2, 3) + model[6:]
        scores = np.exp(scores - scores.max(axis=1, keepdims=True))
        return scores / scores.sum(axis=1, keepdims=True)

    def initial(self, seed: int) -> Any:
        return np.zeros(9)

    def train(self, client: int, parameters: Any, round: int, seed: int) -> Any:
        mine = slice(10 * client, 10 * client + 10)
        points, labels = self.points[mine], self.labels[mine]
        found = self._probabilities(parameters, points)
        loss = -np.log(found[np.arange(10), labels])
        found[np.arange(10), labels] -= 1
        gradient = np.concatenate([(points.T @ found / 10).ravel(), found.mean(axis=0)])
        root = float(np.sqrt((loss**2).mean()))
        metrics = {"loss": loss.mean(), "steps": 1, "samples": 10, "root_mean_square": root}
        return parameters - 0.5 * gradient, metrics

    def evaluate(self, parameters: Any) -> Any:
        found = self._probabilities(parameters, self.points)
        right = found.argmax(axis=1) == self.labels
        loss = -np.log(found[np.arange(len(self.labels)), self.labels]).mean()
        return {"loss": loss, "accuracy": right.mean(), "samples": len(right)}


class Noisy(Lines):
    """Takes its randomness from elsewhere."""

    def train(self, client: Any, parameters: NDArray[np.float32], round: int, seed: int) -> Any:
        seed = int.from_bytes(os.urandom(4))
        return super().train(client, parameters, round, seed)


class Dying(Lines):
    """Its process is killed when it trains in some round, as often as there are files."""

    def __init__(self, files: list[Path], round: int = 2) -> None:
        super().__init__()
        self.files = files
        self.round = round

    def train(self, client: Any, parameters: NDArray[np.float32], round: int, seed: int) -> Any:
        left = [file for file in self.files if file.exists()]
        if round == self.round and left:
            left[0].unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().train(client, parameters, round, seed)


class Held(Lines):
    """Says in a folder which processes train in some round, and keeps them there while that folder
    exists.
    """

    def __init__(self, folder: Path, round: int = 2) -> None:
        super().__init__()
        self.folder = folder
        self.round = round

    def train(self, client: Any, parameters: NDArray[np.float32], round: int, seed: int) -> Any:
        while round == self.round and self.folder.exists():
            (self.folder / str(os.getpid())).touch()
            time.sleep(0.05)
        return super().train(client, parameters, round, seed)


class Wrong(Lines):
    """Returns something wrong for one client in one round."""

    def __init__(self, wrong: Any, method: str = "train") -> None:
        super().__init__()
        self.wrong = wrong
        self.method = method

    def train(self, client: Any, parameters: NDArray[np.float32], round: int, seed: int) -> Any:
        if self.method == "train" and round == 1:
            return self.wrong
        return super().train(client, parameters, round, seed)

    def evaluate(self, parameters: NDArray[np.float32]) -> Any:
        return self.wrong if self.method == "evaluate" else super().evaluate(parameters)


class Raising(Lines):
    """Raises an exception for one client while a file exists."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.file = file

    def train(self, client: Any, parameters: NDArray[np.float32], round: int, seed: int) -> Any:
        if round == 3 and self.file.exists():
            self.fail(client)
        return super().train(client, parameters, round, seed)

    def fail(self, client: Any) -> None:
        raise LookupError(f"no data of {client}")


class Mean:
    """The weighted mean, with momentum if asked for."""

    def __init__(self, beta: float = 0.0) -> None:
        self.beta = beta
        self.momentum: Any = np.empty(0)

    def aggregate(self, parameters: Any, updates: Any, weights: Any, clients: Any) -> Any:
        assert updates.shape == (len(weights), len(parameters)) == (len(clients), len(parameters))
        step = weights @ updates - parameters
        if self.momentum.size:
            step = step + self.beta * self.momentum
        self.momentum = step.astype(np.float32)
        return parameters + self.momentum

    def state(self) -> Any:
        return self.momentum

    def load_state(self, numbers: Any) -> None:
        self.momentum = numbers


if __name__ == "__main__":
    # A comparison in a process that its own task kills, or that is killed while its workers train.
    import agewise

    out, given, engine = sys.argv[1:]
    task = Dying([Path(given)]) if engine == "threads" else Held(Path(given))
    threads = 1 if engine == "threads" else 2
    agewise.compare(task=task, out=out, engine=engine, threads=threads, **ASKED)
