"""Tasks of one's own: what clients train, and how good a model is."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from agewise.checks import shown, whole

Parameters = NDArray[np.float32]


class Task(Protocol):
    """What clients train: any object with these members.

    A model is one array of float32, whatever its numbers mean. These attributes and methods are
    optional:

    - ``name`` and ``model``: what reports call the data and the model.
    - ``metric``: ``"accuracy"`` (the default) or ``"loss"``, by which models are compared.
    - ``client_loss(client, parameters)``: the mean loss of all samples of a client, for policies
      that ask for it.
    - ``train_step(client, parameters, round, seed)``: like ``train`` with one step only, for
      policies that ask what one step would change. Without it a whole round is trained for that.
    - ``tensors``: a list of (name, shape) of the parts of a model in their order, for model files.
    - ``sketch_range``: the begin and the end of the parameters whose changes are compared by
      policies that look at updates; the default is all. Best are those of the output layer.
    - ``thread_safe``: True if several clients may be trained at the same time by
      ``engine="threads"``; otherwise they are trained one after the other.
    """

    #: The number of samples of each client: a list, or a dict by any names.
    clients: Sequence[int] | Mapping[Any, int]

    def initial(self, seed: int) -> ArrayLike:
        """The first model of a run."""
        ...

    def train(
        self, client: Any, parameters: Parameters, round: int, seed: int
    ) -> tuple[ArrayLike, Mapping[str, float]]:
        """Trains a client: returns its new parameters (not their change), and metrics.

        ``client`` is the name of the client, or its number if ``clients`` is a list. ``parameters``
        are a copy that may be changed. ``seed`` is a whole number below 2**32 that belongs to this
        seed, round and client: all randomness should follow from it. Metrics are ``loss``, and
        optionally ``samples``, ``steps`` and ``root_mean_square`` (of the losses of all samples).
        """
        ...

    def evaluate(self, parameters: Parameters) -> Mapping[str, Any]:
        """How good a model is: ``loss`` (a mean), ``samples``, and ``accuracy`` (a share) or
        ``class_samples`` and ``class_correct`` (lists with one number for each class).
        """
        ...


class GuardedTask:
    """Calls a task by client numbers, and checks what it returns."""

    def __init__(self, task: Any, seed: int) -> None:
        if isinstance(task, type):
            raise ValueError(f"task = {shown(task)}: expected an object, {task.__name__}(...)")
        for method in ["initial", "train", "evaluate"]:
            if not callable(getattr(task, method, None)):
                expected = f"an object with a method {method}"
                raise ValueError(f"task = {shown(task)}: expected {expected}")
        self._task = task
        self._clients, self.sizes = _clients(task)
        self.name = str(getattr(task, "name", type(task).__name__))
        self.model = str(getattr(task, "model", "own model"))
        self.metric = getattr(task, "metric", "accuracy")
        if self.metric not in ("accuracy", "loss"):
            expected = "'accuracy' or 'loss'"
            raise ValueError(f"metric of the task = {shown(self.metric)}: expected {expected}")
        #: The number of parameters, which the first model tells.
        self.parameters = 0
        self.parameters = len(self.initial(seed))
        self.tensors = _tensors(task, self.parameters)
        begin, end = getattr(task, "sketch_range", (0, self.parameters))
        if not 0 <= begin < end <= self.parameters:
            expected = f"a begin and a larger end from 0 to {self.parameters}"
            raise ValueError(f"sketch_range of the task = ({begin}, {end}): expected {expected}")
        self.sketch_range = (int(begin), int(end))

    @property
    def thread_safe(self) -> bool:
        """Whether several clients may be trained at the same time in one process."""
        return bool(getattr(self._task, "thread_safe", False))

    def initial(self, seed: int) -> Parameters:
        """The first model under a seed."""
        return self._model(self._task.initial(seed), f"initial({seed})")

    def train(
        self, number: int, parameters: Parameters, round: int, seed: int, one_step: bool
    ) -> tuple[Parameters, int, int, float, float]:
        """Trains a client: new parameters, steps, samples, mean loss and mean square loss."""
        client = self._clients[number]
        step = getattr(self._task, "train_step", None) if one_step else None
        method = "train" if step is None else "train_step"
        where = f"client {client!r} in round {round}"
        try:
            found = (step or self._task.train)(client, parameters, round, seed)
        except Exception as error:
            error.add_note(f"in {method} of {where} with seed {seed}")
            raise
        if not (isinstance(found, tuple) and len(found) == 2 and isinstance(found[1], Mapping)):
            expected = "a tuple of new parameters and a dict of metrics"
            raise ValueError(f"{method} of {where} = {shown(found)}: expected {expected}")
        update, metrics = self._model(found[0], f"update of {where}"), found[1]

        def metric(name: str, default: float | None) -> float:
            return _number(f"metrics of {where}", metrics, name, default)

        loss = metric("loss", None)
        root = metric("root_mean_square", loss)
        samples = metric("samples", self.sizes[number])
        return update, int(metric("steps", 1)), int(samples), loss, root * root

    def evaluate(self, parameters: Parameters) -> tuple[int, float, list[int], list[int]]:
        """Samples, the sum of their losses, and by class all samples and the correct ones."""
        found = self._task.evaluate(parameters)
        if not isinstance(found, Mapping):
            expected = "a dict with loss, samples and accuracy"
            raise ValueError(f"evaluate = {shown(found)}: expected {expected}")
        by_class = "class_samples" in found
        counts = [whole("class_samples of evaluate", c) for c in found.get("class_samples", ())]
        correct = [whole("class_correct of evaluate", c) for c in found.get("class_correct", ())]
        if len(counts) != len(correct) or any(c > n for c, n in zip(correct, counts, strict=True)):
            expected = f"one number for each of the {len(counts)} classes, at most its samples"
            raise ValueError(f"class_correct of evaluate = {correct}: expected {expected}")
        default = sum(counts) if by_class else (1 if self.metric == "loss" else None)
        samples = int(_number("evaluate", found, "samples", default))
        if samples < 1:
            raise ValueError(f"samples of evaluate = {samples}: expected at least 1")
        if self.metric == "accuracy" and not by_class:
            accuracy = _number("evaluate", found, "accuracy", None)
            if not 0 <= accuracy <= 1:
                expected = "a share from 0 to 1"
                raise ValueError(f"accuracy of evaluate = {accuracy}: expected {expected}")
            counts, correct = [samples], [round(accuracy * samples)]
        nothing = None if self.metric == "loss" else math.nan
        return samples, _number("evaluate", found, "loss", nothing) * samples, counts, correct

    def client_loss(self, number: int, parameters: Parameters) -> float:
        """The mean loss of all samples of a client."""
        client = self._clients[number]
        if not hasattr(self._task, "client_loss"):
            expected = "a task with a method client_loss(client, parameters)"
            raise ValueError(f"loss of client {client!r} = unknown: expected {expected}")
        loss = self._task.client_loss(client, parameters)
        return _number(f"client_loss of client {client!r}", {"loss": loss}, "loss", None)

    def _model(self, given: object, what: str) -> Parameters:
        """Parameters as the compiled part takes them."""
        try:
            with np.errstate(over="ignore"):
                array = np.ascontiguousarray(given, dtype=np.float32)
        except (TypeError, ValueError):
            array = np.empty(0, dtype=np.float32)
        if array.ndim != 1 or array.size == 0 or self.parameters not in (0, array.size):
            shape = f"{getattr(given, 'dtype', type(given).__name__)} {list(np.shape(array))}"
            count = f"{self.parameters} " if self.parameters else ""
            expected = f"one array of {count}float32 numbers"
            raise ValueError(f"{what} = {shape}: expected {expected}")
        if not np.isfinite(array).all():
            place = int(np.flatnonzero(~np.isfinite(array))[0])
            expected = "finite numbers; is the learning rate too large?"
            raise ValueError(f"{what} = {array[place]} at place {place}: expected {expected}")
        return array


def by_client(given: Sequence[Any] | Mapping[Any, Any]) -> list[tuple[Any, Any]]:
    """What each client has, by its name, or by its number if it was given in a list."""
    return list(given.items() if isinstance(given, Mapping) else enumerate(given))


def _clients(task: object) -> tuple[list[Hashable], list[int]]:
    """The names and the sizes of the clients of a task."""
    given = getattr(task, "clients", None)
    if isinstance(given, Mapping):
        names, sizes = list(given), list(given.values())
    elif given is None or isinstance(given, (str, bytes)) or not hasattr(given, "__len__"):
        expected = "a list of numbers of samples, or a dict from clients to them"
        raise ValueError(f"clients of the task = {shown(given)}: expected {expected}")
    else:
        sizes = list(given)
        names = list(range(len(sizes)))
    if not sizes:
        raise ValueError("clients of the task = []: expected at least one client")
    for name, size in zip(names, sizes, strict=True):
        if not isinstance(size, (int, np.integer)) or isinstance(size, bool) or size < 1:
            expected = "a whole number of samples, 1 or more"
            raise ValueError(f"size of client {name!r} = {shown(size)}: expected {expected}")
    return names, [int(size) for size in sizes]


def _tensors(task: object, parameters: int) -> list[tuple[str, list[int]]]:
    given = getattr(task, "tensors", None)
    if given is None:
        return [("parameters", [parameters])]
    tensors = [(str(name), [int(length) for length in shape]) for name, shape in given]
    total = sum(math.prod(shape) for _, shape in tensors)
    if total != parameters:
        expected = f"shapes of {parameters} numbers together, as in initial"
        raise ValueError(f"tensors of the task = {total} numbers: expected {expected}")
    return tensors


def _number(what: str, found: Mapping[str, Any], name: str, default: float | None) -> float:
    value = found.get(name, default)
    try:
        if value is None or isinstance(value, (str, bytes)):
            raise TypeError
        return float(value)
    except (TypeError, ValueError):
        shown_value = "missing" if name not in found else shown(value)
        raise ValueError(f"{name} of {what} = {shown_value}: expected a number") from None
