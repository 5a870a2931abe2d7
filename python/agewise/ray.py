"""Tasks on a Ray cluster: ``engine="ray"`` of :func:`agewise.compare`."""

from __future__ import annotations

import os
import threading
import warnings
from typing import Any

from agewise.engines import PlaceLostError, Pool, WorkerEndedError, result_of, start_message
from agewise.shared_models import Model
from agewise.task import GuardedTask, Parameters
from agewise.worker import answer, load

try:
    import ray
    from ray.exceptions import RayActorError
except ImportError as error:
    raise ImportError("engine='ray' needs Ray: pip install ray") from error

#: How many seconds a worker has to start, before others do its work.
START_TIMEOUT = 60.0


class RayEngine(Pool):
    """Calls the task in actors of the cluster, one for each CPU that it has when it begins.

    A cluster to which this process is connected is used, or the one that ``RAY_ADDRESS`` names;
    without either Ray is started on this machine. A machine that leaves the cluster costs the
    clients that it was training, which are trained again elsewhere.
    """

    def __init__(self, task: GuardedTask, workers: int | None) -> None:
        if not ray.is_initialized():
            ray.init(log_to_driver=False)
        super().__init__(task, workers or max(1, int(ray.cluster_resources().get("CPU", 1))))
        self._start = ray.put(start_message(task))
        self._places = self.workers or 1
        self._models = PutModels(self._places)
        self._lock = threading.Lock()

    def _begin(self) -> Actor:
        while True:
            actor = Actor(self._start, self._models)
            if actor.is_ready(START_TIMEOUT):
                return actor
            actor.end()
            with self._lock:
                if self._places > 1:
                    # The cluster has become smaller, or others use it.
                    self._places -= 1
                    raise PlaceLostError
            warnings.warn("no CPU of the Ray cluster is free; waiting for one", stacklevel=2)


class PutModels:
    """The models that were put into the store of the cluster last: one that many clients train from
    is put there once, and each machine fetches it once.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._references: dict[int, Any] = {}
        self._lock = threading.Lock()

    def reference(self, model: Model) -> Any:
        """What actors are passed for a model."""
        number, parameters = model
        with self._lock:
            # Those that were used last are at the end.
            known = self._references.pop(number, None)
            self._references[number] = ray.put(parameters) if known is None else known
            if len(self._references) > self._most:
                del self._references[next(iter(self._references))]
            return self._references[number]


class Actor:
    """A process of the cluster with a copy of the task."""

    def __init__(self, start: Any, models: PutModels) -> None:
        self._models = models
        self._handle = _REMOTE.remote(start)
        self._about = self._handle.about.remote()
        self.name = "Ray actor"
        self._why = "its machine or its process"

    def is_ready(self, timeout: float) -> bool:
        """Waits until it has the task."""
        ready, _ = ray.wait([self._about], timeout=timeout)
        if ready:
            process, error, trace = self._get(self._about)
            self.name = f"Ray actor {process}"
            result_of(self.name, None, error, trace)
        return bool(ready)

    def call(self, method: str, model: Model, *arguments: Any) -> Any:
        """The result of a method of the task for a model."""
        called = self._handle.call.remote(method, self._models.reference(model), arguments)
        return result_of(self.name, *self._get(called))

    def _get(self, reference: Any) -> Any:
        try:
            return ray.get(reference)
        except RayActorError as error:
            self._why = type(error).__name__
            raise WorkerEndedError from None

    def end(self) -> str:
        """Ends the actor; returns what has ended it."""
        ray.kill(self._handle)
        return self._why


class _Serves:
    """What runs in an actor."""

    def __init__(self, start: bytes) -> None:
        self._task: GuardedTask | None = None
        self._failed: tuple[Exception | None, str] = None, ""
        try:
            self._task = load(start)
        except Exception as error:
            self._failed = error, ""

    def about(self) -> tuple[str, Exception | None, str]:
        """Where it runs, and why it cannot be used."""
        return f"{ray.util.get_node_ip_address()}:{os.getpid()}", *self._failed

    def call(self, method: str, parameters: Parameters, arguments: Any) -> Any:
        """The answer to a call. What Ray passes is read-only, and a task may change it."""
        assert self._task is not None
        return answer(self._task, method, parameters.copy(), arguments)


#: How actors are made.
_REMOTE: Any = ray.remote(num_cpus=1, max_restarts=0)(_Serves)
