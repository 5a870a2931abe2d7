"""Where the code of a task runs: in the threads of this process, in worker processes, or on a Ray
cluster.
"""

from __future__ import annotations

import contextlib
import importlib
import mmap
import os
import pickle
import queue
import socket
import subprocess
import sys
import threading
import warnings
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from agewise.checks import shown
from agewise.shared_models import Model, SharedModels, shared_memory
from agewise.task import GuardedTask, Parameters

#: How often a client is trained again after its worker process has ended.
ATTEMPTS = 3
#: Set in worker processes, which start no workers of their own.
WORKER = "AGEWISE_WORKER"
#: Samples, the sum of their losses, and by class all samples and the correct ones.
Scores = tuple[int, float, list[int], list[int]]


class Engine(Protocol):
    """Calls a task from many threads at once. Models come with a number of their own: the same
    number is the same model.
    """

    task: GuardedTask
    #: How many calls there can be at a time; None if that is for the caller to say.
    workers: int | None

    def initial(self, seed: int) -> Parameters:
        """The first model."""
        ...

    def train(
        self, client: int, model: Model, round: int, seed: int, one_step: bool
    ) -> tuple[Parameters, int, int, float, float]:
        """Trains a client."""
        ...

    def evaluate(self, model: Model) -> Scores:
        """Evaluates a model."""
        ...

    def client_loss(self, client: int, model: Model) -> float:
        """The loss of a client."""
        ...

    def activity(self) -> dict[str, str]:
        """What each worker does at the moment, by the name of the worker."""
        ...

    def close(self) -> None:
        """Ends what was started."""
        ...


def engine(name: str, task: GuardedTask, workers: int | None) -> Engine:
    """The engine of a name, with so many workers; the default is one for each core."""
    if name == "threads":
        return ThreadEngine(task)
    if name == "processes":
        return ProcessEngine(task, workers or os.cpu_count() or 1)
    if name == "ray":
        found: Engine = importlib.import_module("agewise.ray").RayEngine(task, workers)
        return found
    raise ValueError(f"engine = {shown(name)}: expected 'threads', 'processes' or 'ray'")


class ThreadEngine:
    """Calls the task in this process: one call at a time, unless the task is thread-safe."""

    def __init__(self, task: GuardedTask) -> None:
        self.task = task
        self.workers: int | None = None
        lock = threading.Lock()
        self._turn: contextlib.AbstractContextManager[Any] = (
            contextlib.nullcontext() if task.thread_safe else lock
        )

    def initial(self, seed: int) -> Parameters:
        """The first model."""
        with self._turn:
            return self.task.initial(seed)

    def train(
        self, client: int, model: Model, round: int, seed: int, one_step: bool
    ) -> tuple[Parameters, int, int, float, float]:
        """Trains a client."""
        with self._turn:
            # Here and below: the task may change what it is given, and keep it.
            return self.task.train(client, model[1].copy(), round, seed, one_step)

    def evaluate(self, model: Model) -> Scores:
        """Evaluates a model."""
        with self._turn:
            return self.task.evaluate(model[1].copy())

    def client_loss(self, client: int, model: Model) -> float:
        """The loss of a client."""
        with self._turn:
            return self.task.client_loss(client, model[1].copy())

    def activity(self) -> dict[str, str]:
        """Nothing that is not said for the runs: these are their threads."""
        return {}

    def close(self) -> None:
        """Nothing was started."""


class WorkerEndedError(Exception):
    """A worker process ended while it had something to do."""


class PlaceLostError(Exception):
    """A worker could not be started, and others will do its work."""


class Pool:
    """Calls the task in workers, which are started when they are needed.

    A worker that ends while it has something to do is replaced, and the work is done again: results
    are a function of the arguments of a call, so nothing else notices.
    """

    def __init__(self, task: GuardedTask, workers: int) -> None:
        self.task = task
        #: How many calls there can be at a time.
        self.workers: int | None = workers
        self._running: set[Any] = set()
        # What each of them does; a dict is replaced key by key, which needs no lock.
        self._doing: dict[Any, str] = {}
        self._free: queue.SimpleQueue[Any] = queue.SimpleQueue()
        for _ in range(workers):
            self._free.put(None)

    def _begin(self) -> Any:
        """A new worker with a method ``call`` and an ``end`` that returns what ended it."""
        raise NotImplementedError

    def initial(self, seed: int) -> Parameters:
        """The first model."""
        return self.task.initial(seed)

    def train(
        self, client: int, model: Model, round: int, seed: int, one_step: bool
    ) -> tuple[Parameters, int, int, float, float]:
        """Trains a client."""
        job = ("train", model, client, round, seed, one_step)
        trained: tuple[Parameters, int, int, float, float] = self._call(
            f"training client {client} in round {round}", *job
        )
        return trained

    def evaluate(self, model: Model) -> Scores:
        """Evaluates a model."""
        found: Scores = self._call("evaluating", "evaluate", model)
        return found

    def client_loss(self, client: int, model: Model) -> float:
        """The loss of a client."""
        what = f"evaluating client {client}"
        return float(self._call(what, "client_loss", model, client))

    def activity(self) -> dict[str, str]:
        """What each worker does at the moment."""
        doing = dict(self._doing)
        return {worker.name: doing.get(worker, "waiting") for worker in list(self._running)}

    def close(self) -> None:
        """Ends all workers."""
        for worker in self._running:
            worker.end()
        self._running.clear()

    def _call(self, what: str, *job: Any) -> Any:
        attempts, message = 0, ""
        while attempts < ATTEMPTS:
            worker = self._free.get()
            keeps_place = True
            try:
                if worker is None:
                    worker = self._begin()
                    self._running.add(worker)
                self._doing[worker] = what
                return worker.call(*job)
            except PlaceLostError:
                keeps_place = False
            except WorkerEndedError:
                self._running.discard(worker)
                self._doing.pop(worker, None)
                message = f"{worker.name} ended with {worker.end()} while {what}"
                warnings.warn(f"{message}; another one does it again", stacklevel=2)
                worker = None
                attempts += 1
            finally:
                self._doing.pop(worker, None)
                if keeps_place:
                    self._free.put(worker)
        raise RuntimeError(
            f"{message}, as {ATTEMPTS} in a row did; is there enough memory for "
            f"{self.workers} workers? `threads` is their number"
        )


class ProcessEngine(Pool):
    """Calls the task in worker processes, with which it shares memory."""

    def __init__(self, task: GuardedTask, workers: int) -> None:
        if os.name != "posix":
            raise ValueError(f"engine = 'processes': expected 'threads' on {sys.platform}")
        if WORKER in os.environ:
            raise RuntimeError(
                "agewise was asked to start worker processes in a worker process. Put the call "
                'into `if __name__ == "__main__":`, because workers import the main program.'
            )
        super().__init__(task, workers)
        self._start = start_message(task)
        # Each call that is under way needs one model.
        self._models = SharedModels(workers, task.parameters)

    def _begin(self) -> Worker:
        return Worker(self._start, self._models, self.workers or 1)

    def close(self) -> None:
        """Ends all workers."""
        super().close()
        self._models.close()


class Worker:
    """A process with a copy of the task, and memory that it shares with this one: for the models
    that it is sent, which all workers share, and for what it makes of them.
    """

    def __init__(self, start: bytes, models: SharedModels, workers: int) -> None:
        self._models = models
        memory = shared_memory(4 * models.parameters)
        ours, theirs = socket.socketpair()
        threads = str(max(1, (os.cpu_count() or 1) // workers))
        libraries = ["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"]
        path = os.pathsep.join(entry or str(Path.cwd()) for entry in sys.path)
        environment = dict.fromkeys(libraries, threads) | dict(os.environ)
        environment |= {"PYTHONPATH": path, WORKER: "1"}
        descriptors = [theirs.fileno(), models.memory, memory]
        self._process = subprocess.Popen(
            # Without the current folder in front of all others.
            [
                *[sys.executable, "-P", "-m", "agewise.worker"],
                *map(str, [*descriptors, models.parameters]),
            ],
            pass_fds=descriptors,
            stdin=subprocess.DEVNULL,
            env=environment,
        )
        self.name = f"worker process {self._process.pid}"
        theirs.close()
        self._after = np.frombuffer(mmap.mmap(memory, 4 * models.parameters), dtype=np.float32)
        os.close(memory)
        self._connection = Connection(ours.detach())
        try:
            self._connection.send_bytes(start)
            self._answer()
        except BaseException:
            self.end()
            raise

    def call(self, method: str, model: Model, *arguments: Any) -> Any:
        """The result of a method of the task for a model."""
        with self._models.place_of(model) as place:
            try:
                self._connection.send((method, place, arguments))
            except OSError:
                raise WorkerEndedError from None
            result = self._answer()
        return (self._after.copy(), *result) if method == "train" else result

    def _answer(self) -> Any:
        try:
            result, error, trace = self._connection.recv()
        except (EOFError, OSError):
            raise WorkerEndedError from None
        return result_of(self.name, result, error, trace)

    def end(self) -> int:
        """Ends the process; returns its exit code."""
        with contextlib.suppress(OSError):
            self._connection.close()
        self._process.kill()
        return self._process.wait()


def result_of(worker: str, result: Any, error: Exception | None, trace: str) -> Any:
    """The result of a call in a worker, unless it raised an exception."""
    if error is not None:
        error.add_note(f"Traceback of {worker}:\n{trace}")
        raise error
    return result


def start_message(task: GuardedTask) -> bytes:
    """What a worker has to know: the main program, if it has to import that, and the task."""
    pickler: Any = pickle
    with contextlib.suppress(ImportError):
        # It takes what is defined in the main program along.
        pickler = importlib.import_module("cloudpickle")
    try:
        pickled = pickler.dumps(task)
    except Exception as error:
        error.add_note(
            "The task is sent to workers with pickle. `pip install cloudpickle` helps where its "
            "parts are defined in a notebook or locally; engine='threads' needs none of that."
        )
        raise
    needs_main = pickler is pickle and b"__main__" in pickled
    main = getattr(sys.modules["__main__"], "__file__", None) if needs_main else None
    return pickle.dumps((main, pickled))
