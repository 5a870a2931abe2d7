"""PyTorch models as tasks of :func:`agewise.compare`. PyTorch is imported with this module."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

import numpy as np

from agewise.checks import positive, shown
from agewise.task import Parameters, by_client

try:
    import torch
    from torch.utils.data import DataLoader, TensorDataset
except ImportError as error:
    raise ImportError("agewise.torch needs PyTorch: pip install torch") from error

#: Samples that are evaluated at a time.
_EVALUATED = 512


class TorchTask:
    """Clients that train a PyTorch model on their own data sets.

    - ``model``: a module, whose weights are the first model of every seed; or a class or function
      without arguments that makes one, which is called under each seed.
    - ``loss``: a function of outputs and targets that returns the mean loss of a batch, such as
      ``torch.nn.functional.cross_entropy``.
    - ``client_datasets``: for each client a data set, or a pair of tensors or arrays (inputs,
      targets); in a list, or in a dict by the names of the clients.
    - ``test``: a data set or a pair on which models are evaluated.
    - ``optimiser``: makes an optimiser of parameters; the default is SGD with a learning rate of
      0.05.
    - ``local``: how much a client trains in a round, such as ``"2 epochs"`` or ``"10 steps"``.
    - ``batch``: samples of a batch; a last batch of one sample is left out.
    - ``metric``: ``"accuracy"`` (of the largest output), or ``"loss"`` for other models.
    - ``device``: where models train; the default is a GPU if there is one.
    - ``threads``: the threads of PyTorch. More than one may change the last bits of results; use
      worker processes for more cores.

    A model consists of the floating-point tensors of its ``state_dict`` (with the statistics of
    batch normalisation), under their names. Batches and dropout follow from the seed that
    belongs to a client in a round, so on a CPU results are the same in every process.
    """

    def __init__(
        self,
        model: torch.nn.Module | Callable[[], torch.nn.Module],
        loss: Callable[[Any, Any], torch.Tensor],
        client_datasets: Sequence[Any] | Mapping[Any, Any],
        test: Any,
        *,
        optimiser: Callable[[Any], torch.optim.Optimizer] | None = None,
        local: str = "1 epochs",
        batch: int = 32,
        metric: str = "accuracy",
        device: str | None = None,
        threads: int = 1,
        name: str = "own data",
    ) -> None:
        if not callable(model):
            raise ValueError(f"model = {shown(model)}: expected a module or what makes one")
        self._model = model
        self._loss = loss
        named = by_client(client_datasets)
        self._data = {client: _dataset(f"data of client {client!r}", d) for client, d in named}
        self._test = _dataset("test", test)
        #: The number of samples of each client.
        self.clients = {client: len(data) for client, data in self._data.items()}
        self._optimiser = optimiser
        self._epochs, self._steps = _work(local)
        self._batch = positive("batch", batch)
        self._device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        self._threads = positive("threads", threads)
        #: By which models are compared.
        self.metric = metric
        #: What reports call the data.
        self.name = name
        self._net: torch.nn.Module | None = None
        self._counters: dict[str, torch.Tensor] = {}
        first = self._first(0)
        self._check_samples(first)
        #: What reports call the model.
        self.model = type(first).__name__
        #: The names and shapes of the tensors of a model.
        self.tensors = [(key, tuple(value.shape)) for key, value in _floats(first).items()]
        sizes = [value.numel() for value in _floats(first).values()]
        #: The last two tensors, which are the output layer of most models.
        self.sketch_range = (sum(sizes[:-2]), sum(sizes))

    def _check_samples(self, first: torch.nn.Module) -> None:
        """Checks that the tensors of all clients are like those of the test data, and that targets
        are classes of the model. Data sets of one's own are read only when they are needed.
        """
        if not isinstance(self._test, TensorDataset):
            return
        model, shape = deepcopy(first).cpu().eval(), self._test.tensors[0].shape[1:]
        with torch.no_grad():
            outputs = model(self._test.tensors[0][:1])
        by_class = self.metric == "accuracy" and outputs.ndim == 2
        named = [(f"data of client {client!r}", data) for client, data in self._data.items()]
        for what, data in [*named, ("test", self._test)]:
            if not isinstance(data, TensorDataset):
                continue
            inputs, targets = data.tensors
            if inputs.shape[1:] != shape:
                found, expected = list(inputs.shape[1:]), f"{list(shape)}, as in test"
                raise ValueError(f"{what} = inputs of shape {found}: expected {expected}")
            if not by_class or targets.ndim != 1 or targets.is_floating_point():
                continue
            classes = outputs.shape[1]
            wrong = torch.nonzero((targets < 0) | (targets >= classes))
            if len(wrong):
                row = int(wrong[0])
                expected = f"a class from 0 to {classes - 1}, the outputs of the model"
                raise ValueError(f"{what}, row {row}: {int(targets[row])}: expected {expected}")

    def __getstate__(self) -> dict[str, Any]:
        # A model on a GPU stays in its process.
        return self.__dict__ | {"_net": None, "_counters": {}}

    def _first(self, seed: int) -> torch.nn.Module:
        """The model before any training."""
        if isinstance(self._model, torch.nn.Module):
            return self._model
        with _seeded(seed):
            return self._model()

    def initial(self, seed: int) -> Parameters:
        """The first model under a seed."""
        values = _floats(self._first(seed)).values()
        return np.concatenate([_numbers(value) for value in values])

    def train(
        self, client: Any, parameters: Parameters, round: int, seed: int
    ) -> tuple[Parameters, dict[str, float]]:
        """Trains for a round."""
        return self._train(client, parameters, seed, self._epochs, self._steps)

    def train_step(
        self, client: Any, parameters: Parameters, round: int, seed: int
    ) -> tuple[Parameters, dict[str, float]]:
        """Trains for one step."""
        return self._train(client, parameters, seed, None, 1)

    def evaluate(self, parameters: Parameters) -> dict[str, float]:
        """The loss and the accuracy on the test data."""
        return self._evaluate(self._test, parameters)

    def client_loss(self, client: Any, parameters: Parameters) -> float:
        """The mean loss of all samples of a client."""
        return self._evaluate(self._data[client], parameters)["loss"]

    def state_dict(self, parameters: Parameters) -> dict[str, torch.Tensor]:
        """Parameters as PyTorch has them, for example of a model file."""
        with self._at_work(parameters) as net:
            return {key: value.detach().cpu().clone() for key, value in net.state_dict().items()}

    def _train(
        self, client: Any, parameters: Parameters, seed: int, epochs: int | None, steps: int | None
    ) -> tuple[Parameters, dict[str, float]]:
        data, losses, counts = self._data[client], [], []
        with self._at_work(parameters) as net, _seeded(seed):
            net.train()
            optimiser = (self._optimiser or _sgd)(net.parameters())
            generator = torch.Generator().manual_seed(seed)
            for inputs, targets in _batches(data, self._batch, generator, epochs, steps):
                optimiser.zero_grad()
                outputs = net(inputs.to(self._device))
                loss = self._loss(outputs, targets.to(self._device))
                loss.backward()  # type: ignore[no-untyped-call,unused-ignore]
                optimiser.step()
                losses.append(float(loss.detach()))
                counts.append(len(targets))
            trained = np.concatenate([_numbers(value) for value in _floats(net).values()])
        mean, square = np.average(losses, weights=counts), np.average(np.square(losses))
        metrics = {"loss": mean, "steps": len(losses), "samples": sum(counts)}
        return trained, metrics | {"root_mean_square": float(np.sqrt(square))}

    def _evaluate(self, data: Any, parameters: Parameters) -> dict[str, float]:
        samples, loss, correct = 0, 0.0, 0
        with self._at_work(parameters) as net, torch.no_grad():
            net.eval()
            for inputs, targets in _batches(data, _EVALUATED, None, 1, None):
                outputs = net(inputs.to(self._device))
                targets = targets.to(self._device)
                samples += len(targets)
                loss += float(self._loss(outputs, targets)) * len(targets)
                if self.metric == "accuracy":
                    correct += int((outputs.argmax(dim=-1) == targets).sum())
        metrics = {"loss": loss / samples, "samples": samples}
        return metrics | ({"accuracy": correct / samples} if self.metric == "accuracy" else {})

    @contextmanager
    def _at_work(self, parameters: Parameters) -> Iterator[torch.nn.Module]:
        """A model with these parameters on the device."""
        threads = torch.get_num_threads()
        torch.set_num_threads(self._threads)
        try:
            if self._net is None:
                self._net = deepcopy(self._first(0)).to(self._device)
                state = self._net.state_dict()
                counters = {k: v for k, v in state.items() if not v.is_floating_point()}
                self._counters = {key: value.clone() for key, value in counters.items()}
            begin = 0
            with torch.no_grad():
                for key, value in self._net.state_dict().items():
                    if key in self._counters:
                        # Such as the number of batches: it is not averaged and begins anew.
                        value.copy_(self._counters[key])
                        continue
                    piece = parameters[begin : begin + value.numel()].reshape(value.shape)
                    value.copy_(torch.from_numpy(piece))
                    begin += value.numel()
            yield self._net
        finally:
            torch.set_num_threads(threads)


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Random numbers of a seed; those of the program go on behind it."""
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        torch.manual_seed(seed)
        yield


def _sgd(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.05)


def _floats(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """The tensors that are trained, averaged and stored."""
    state = model.state_dict()
    return {key: value for key, value in state.items() if value.is_floating_point()}


def _numbers(value: torch.Tensor) -> Parameters:
    flat: Parameters = value.detach().cpu().to(torch.float32).numpy().ravel()
    return flat


def _dataset(what: str, given: Any) -> Any:
    if isinstance(given, (tuple, list)) and len(given) == 2:
        inputs, targets = (torch.as_tensor(np.asarray(part)) for part in given)
        if len(inputs) != len(targets):
            expected = f"as many targets as inputs, {len(inputs)}"
            raise ValueError(f"{what} = {len(targets)} targets: expected {expected}")
        for part, values in [("inputs", inputs), ("targets", targets)]:
            if values.is_floating_point() and not bool(values.isfinite().all()):
                finite = values.reshape(len(values), -1).isfinite().all(dim=1)
                row = int(torch.nonzero(~finite)[0])
                raise ValueError(f"{what}, row {row}: {part} not finite: expected finite numbers")
        given = TensorDataset(inputs, targets)
    if not hasattr(given, "__getitem__") or not hasattr(given, "__len__"):
        expected = "a data set with a length, or a pair of inputs and targets"
        raise ValueError(f"{what} = {shown(given)}: expected {expected}")
    if len(given) == 0:
        raise ValueError(f"{what} = no samples: expected at least one")
    return given


def _batches(
    data: Any,
    size: int,
    generator: torch.Generator | None,
    epochs: int | None,
    steps: int | None,
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Batches in a random order for so many epochs or steps; in order without a generator."""
    done = 0
    # Batch normalisation cannot train on one sample, and the next epoch has another last one.
    last = len(data) % size if generator is not None and len(data) > size else 0
    for _ in range(epochs or steps or 0):
        if isinstance(data, TensorDataset):
            count = len(data)
            if generator is None:
                order = torch.arange(count)
            else:
                order = torch.randperm(count, generator=generator)
            inputs, targets = data.tensors
            batches: Any = ((inputs[part], targets[part]) for part in order.split(size))
        else:
            shuffle = generator is not None
            batches = DataLoader(data, batch_size=size, shuffle=shuffle, generator=generator)
        for batch in batches:
            if steps is not None and done == steps:
                return
            if last == 1 and len(batch[1]) == 1:
                continue
            yield batch
            done += 1


def _work(local: str) -> tuple[int | None, int | None]:
    """The epochs or the steps of a round."""
    amount, _, unit = str(local).partition(" ")
    if amount.isdigit() and int(amount) > 0 and unit in ("epoch", "epochs", "step", "steps"):
        return (int(amount), None) if unit.startswith("epoch") else (None, int(amount))
    raise ValueError(f"local = {shown(local)}: expected for example '2 epochs' or '10 steps'")
