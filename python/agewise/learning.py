"""Data sets, partitions, and the trainer."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from agewise import _agewise
from agewise.checks import document, numbers, shown, whole, within


class Images:
    """Images with labels, and how their pixels become numbers. Parts of a set share its memory.

    >>> pixels = np.zeros((4, 28, 28), dtype=np.uint8)
    >>> images = Images(pixels, [0, 1, 2, 9])
    >>> len(images), images.shape, images.take([3]).labels
    (4, (28, 28, 1), array([9], dtype=uint8))
    """

    _inner: _agewise.Images

    def __init__(
        self,
        pixels: ArrayLike,
        labels: ArrayLike,
        classes: int = 10,
        *,
        scale: str = "standardised",
        like: Images | None = None,
    ) -> None:
        """Pixels of 8 bits, one image after the other: rows, columns, and channels if there are several.

        ``scale`` is ``standardised`` (mean 0 and deviation 1 over these images) or ``unit`` (0 to 1). Test images are scaled
        ``like`` the training images.
        """
        array = np.asarray(pixels)
        if array.dtype != np.uint8 or array.ndim not in (3, 4):
            shape = f"{array.dtype} {list(array.shape)}"
            raise ValueError(f"pixels = {shape}: expected uint8 [images, rows, columns(, channels)]")
        given = np.asarray(labels)
        whole_numbers = given.size == 0 or np.issubdtype(given.dtype, np.integer)
        if given.ndim != 1 or not whole_numbers or (given.size and not 0 <= given.min() <= given.max() < 256):
            raise ValueError(f"labels = {shown(labels)}: expected a list of classes from 0 to 255")
        self._inner = _agewise.Images(
            np.ascontiguousarray(array if array.ndim == 4 else array[..., None]),
            given.astype(np.uint8),
            within("classes", classes, 1, 256),
            scale,
            None if like is None else _images("like", like)._inner,
        )

    @classmethod
    def _of(cls, inner: _agewise.Images) -> Images:
        images = cls.__new__(cls)
        images._inner = inner
        return images

    def __len__(self) -> int:
        return len(self._inner)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Rows, columns and channels of every image."""
        return self._inner.shape

    @property
    def classes(self) -> int:
        """The number of classes."""
        return self._inner.classes

    @property
    def labels(self) -> NDArray[np.uint8]:
        """The class of each image. A copy."""
        return self._inner.labels

    @property
    def pixels(self) -> NDArray[np.uint8]:
        """The pixels: image, row, column, channel. A copy."""
        return self._inner.pixels

    def take(self, indices: ArrayLike) -> Images:
        """Some of these images, by their places; no pixel is copied."""
        array = np.asarray(indices)
        if array.ndim != 1 or (array.size and not np.issubdtype(array.dtype, np.integer)):
            raise ValueError(f"indices = {shown(indices)}: expected a list of whole numbers")
        wrong = array[(array < 0) | (array >= len(self))]
        if wrong.size:
            raise ValueError(f"indices = {wrong[0]}: expected places from 0 to {len(self) - 1}")
        return Images._of(self._inner.take(array.tolist()))

    def __repr__(self) -> str:
        rows, columns, channels = self.shape
        return f"Images({len(self)} of {rows}x{columns}x{channels}, {self.classes} classes)"


@dataclass(frozen=True)
class Dataset:
    """Images to learn from, and others to be tested on."""

    name: str
    train: Images
    test: Images


def load_data(
    name: str = "digits",
    folder: str | PathLike[str] | None = None,
    *,
    scale: str = "standardised",
) -> Dataset:
    """A data set by its name: ``digits`` (7,000 real digits inside the package), ``mnist``, ``fashion-mnist``, ``cifar-10``,
    ``cifar-100``.

    Files are looked for in ``folder``, in the folder that the environment variable AGEWISE_DATA names, and in the default
    folder of ``agewise data fetch``.

    >>> digits = load_data()
    >>> digits.train, len(digits.test)
    (Images(6000 of 28x28x1, 10 classes), 1000)
    """
    train, test = _agewise.load_data(name, folder, scale)
    return Dataset(name, Images._of(train), Images._of(test))


class Partition:
    """Who has which images."""

    def __init__(self, inner: _agewise.Partition) -> None:
        self._inner = inner

    @property
    def clients(self) -> int:
        """The number of clients."""
        return self._inner.clients

    @property
    def sizes(self) -> NDArray[np.uint64]:
        """How many images each client has."""
        return self._inner.sizes

    @property
    def histograms(self) -> NDArray[np.uint32]:
        """How many images of each class each client has: one row for each client."""
        return self._inner.histograms

    def indices(self, client: int) -> NDArray[np.uint32]:
        """The images of one client, by their numbers, in increasing order."""
        return self._inner.indices(within("client", client, 0, self.clients - 1))

    def of(self, client: int) -> Images:
        """The images of one client; no pixel is copied."""
        return Images._of(self._inner.of(within("client", client, 0, self.clients - 1)))

    def __len__(self) -> int:
        return self.clients

    def __repr__(self) -> str:
        return f"Partition({self.clients} clients)"


def partition(
    images: Images,
    clients: int = 100,
    law: str = "iid",
    *,
    sizes: str = "equal",
    least: int = 1,
    seed: int = 0,
) -> Partition:
    """Shares images among clients, as ``agewise compare`` does with the same seed.

    ``law`` spreads the labels: ``iid``, ``dirichlet:0.3``, ``shards:2``. ``sizes`` spreads the sizes: ``equal``, ``zipf:2.0``,
    ``lognormal:1.0``. Nobody has fewer images than ``least``.

    >>> shares = partition(load_data().train, clients=20, law="shards:2", seed=1)
    >>> shares.sizes[:3], shares.of(0)
    (array([300, 300, 300], dtype=uint64), Images(300 of 28x28x1, 10 classes))
    """
    return Partition(
        _agewise.partition(
            _images("images", images)._inner,
            whole("clients", clients),
            law,
            sizes,
            whole("least", least),
            whole("seed", seed),
        )
    )


@dataclass(frozen=True)
class LocalReport:
    """What came of a client's training."""

    steps: int
    samples: int
    #: The mean loss of the batches, each before its step.
    loss: float
    #: How long it took.
    seconds: float
    #: The root of the mean square of the losses of all samples, each before its step.
    root_mean_square: float


@dataclass(frozen=True, eq=False)
class Evaluation:
    """How well a model does on images."""

    samples: int
    accuracy: float
    loss: float
    #: The accuracy on each class; NaN where there is no image of it.
    class_accuracy: NDArray[np.float64]


class Trainer:
    """A model of agewise's own engine, trained on one core.

    Its parameters are one NumPy array, and training changes that very array. Other Python threads run while it trains, so several
    trainers use several cores.

    >>> digits = load_data()
    >>> trainer = Trainer("softmax", seed=1)
    >>> report = trainer.train(digits.train, epochs=1, batch=50, lr=0.1)
    >>> report.steps, trainer.evaluate(digits.test).accuracy > 0.8
    (120, True)
    >>> Trainer("cn")
    Traceback (most recent call last):
        ...
    ValueError: model = cn: expected one of softmax, 2nn, cnn, cnn-cifar (did you mean cnn?)
    """

    def __init__(
        self,
        model: str = "cnn",
        *,
        shape: tuple[int, int, int] = (28, 28, 1),
        classes: int = 10,
        seed: int = 0,
    ) -> None:
        """``softmax``, ``2nn``, ``cnn`` or ``cnn-cifar`` for images of so many rows, columns and channels, with first
        parameters as PyTorch draws them by default, from this seed."""
        #: The name of the model.
        self.model = model
        sides = tuple(shape) if isinstance(shape, (tuple, list)) else ()
        if len(sides) != 3 or not all(0 < whole("shape", side) <= 4096 for side in sides):
            raise ValueError(f"shape = {shown(shape)}: expected rows, columns and channels, 1 to 4096")
        self._made = (model, (sides[0], sides[1], sides[2]), whole("classes", classes))
        self._inner = _agewise.Trainer(*self._made, whole("seed", seed))
        self._memory = self._inner.parameters
        self._tensors = self._inner.tensors
        self._lock = threading.Lock()

    @property
    def parameters(self) -> NDArray[np.float32]:
        """All parameters: the memory that is trained, not a copy. Do not write to it while another thread trains.

        >>> trainer = Trainer("softmax")
        >>> trainer.parameters[:] = 0
        >>> trainer.parameters.shape, float(abs(trainer.parameters).max())
        ((7850,), 0.0)
        """
        # A view: whoever reshapes it does not reshape ours.
        return self._memory[:]

    @parameters.setter
    def parameters(self, values: ArrayLike) -> None:
        array = np.asarray(values, dtype=np.float32)
        if array.shape != self.parameters.shape:
            expected = f"an array of {len(self.parameters)} numbers"
            raise ValueError(f"parameters = {list(array.shape)}: expected {expected}")
        self.parameters[:] = array

    @property
    def output_layer(self) -> slice:
        """Where the last layer's weights and biases are in :attr:`parameters`: what :func:`agewise.sketch` looks at.

        >>> Trainer("2nn").output_layer
        slice(197200, 199210, None)
        """
        return slice(*self._inner.output_layer)

    def arrays(self) -> dict[str, NDArray[np.float32]]:
        """The tensors by name, as views of :attr:`parameters`: nothing is copied.

        Convolutions have PyTorch's shape. Dense layers behind images take pixels with their channels side by side, where
        PyTorch takes one channel after the other; :meth:`state_dict` has its order.

        >>> {name: view.shape for name, view in Trainer("cnn").arrays().items()}["conv2.weight"]
        (64, 32, 5, 5)
        """
        views = {}
        for name, shape, first in self._tensors:
            flat = self.parameters[first : first + int(np.prod(shape))]
            if len(shape) == 4:
                outputs, channels, rows, columns = shape
                views[name] = flat.reshape(outputs, rows, columns, channels).transpose(0, 3, 1, 2)
            else:
                views[name] = flat.reshape(shape)
        return views

    def state_dict(self) -> dict[str, NDArray[np.float32]]:
        """Copies of all tensors with PyTorch's names, shapes and order.

        >>> first, second = Trainer("cnn", seed=1), Trainer("cnn", seed=2)
        >>> second.load_state_dict(first.state_dict())
        >>> bool((first.parameters == second.parameters).all())
        True
        """
        with self._busy():
            return dict(self._inner.tensors_for_pytorch())

    def load_state_dict(self, tensors: Mapping[str, Any]) -> None:
        """Takes all tensors, named, shaped and ordered as in PyTorch. After an error the parameters are as they were."""
        shapes = {name: tuple(shape) for name, shape, _ in self._tensors}
        if set(tensors) != set(shapes):
            raise ValueError(
                f"tensors = {sorted(map(str, tensors))}: expected exactly {sorted(shapes)}"
            )
        arrays = {name: np.asarray(tensors[name], dtype=np.float32) for name in shapes}
        for name, shape in shapes.items():
            if arrays[name].shape != shape:
                raise ValueError(f"{name} = {list(arrays[name].shape)}: expected {list(shape)}")
        with self._busy():
            self._inner.load_from_pytorch(list(arrays.values()))

    def reset(self, seed: int = 0) -> None:
        """First parameters again."""
        with self._busy():
            self._inner.reset(whole("seed", seed))

    def train(
        self,
        data: Images,
        epochs: int | None = None,
        batch: int = 50,
        lr: float = 0.1,
        *,
        steps: int | None = None,
        decay: float = 1.0,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        proximal: float = 0.0,
        augment: bool = False,
        seed: int = 0,
        round: int = 0,
        client: int = 0,
    ) -> LocalReport:
        """Trains by SGD for so many epochs (1 if nothing is said) or steps, and changes the parameters.

        The order of the samples follows from (seed, round, client), so a client that trains twice in different rounds sees
        different batches, and the same call gives the same bytes. The learning rate is ``lr * decay**round``. ``proximal`` is
        FedProx's pull towards the parameters at the beginning; ``augment`` crops and mirrors at random.
        """
        if epochs is not None and steps is not None:
            raise ValueError(f"steps = {steps}: expected epochs or steps, not both")
        work = f"{whole('steps', steps)} steps" if steps is not None else None
        if work is None:
            work = f"{whole('epochs', 1 if epochs is None else epochs)} epochs"
        training = {
            "local_work": work,
            "batch": batch,
            "learning_rate": lr,
            "decay": decay,
            "momentum": momentum,
            "weight_decay": weight_decay,
            "proximal": proximal,
            "augment": augment,
        }
        task = {"seed": seed, "round": round, "client": client, "training": training}
        text, images = document(task), _images("data", data)._inner
        begin = time.perf_counter()
        with self._busy():
            done, samples, loss, root_mean_square = self._inner.train(images, text)
        return LocalReport(done, samples, loss, time.perf_counter() - begin, root_mean_square)

    def evaluate(self, data: Images) -> Evaluation:
        """How well the parameters do on images."""
        with self._busy():
            samples, correct, loss = self._inner.evaluate(_images("data", data)._inner)
        each, hits = np.asarray(samples, dtype=np.float64), np.asarray(correct, dtype=np.float64)
        count = int(each.sum())
        with np.errstate(invalid="ignore", divide="ignore"):
            classes = hits / each
            mean = np.float64(loss) / count
            accuracy = hits.sum() / np.float64(count)
        return Evaluation(count, float(accuracy), float(mean), classes)

    def scores(self, data: Images) -> NDArray[np.float32]:
        """The scores before the softmax: one row for each image, one column for each class."""
        with self._busy():
            return self._inner.scores(_images("data", data)._inner)

    @contextmanager
    def _busy(self) -> Iterator[None]:
        """One thread at a time: two would change the same parameters."""
        if not self._lock.acquire(blocking=False):
            raise RuntimeError("this Trainer is at work in another thread; use one for each")
        try:
            yield
        finally:
            self._lock.release()

    def __reduce__(self) -> tuple[Any, ...]:
        return _trainer_again, (*self._made, self._memory.copy())

    def __copy__(self) -> Trainer:
        return _trainer_again(*self.__reduce__()[1])

    def __repr__(self) -> str:
        return f"Trainer({self.model!r}, {len(self.parameters)} parameters)"


def _trainer_again(
    model: str, shape: tuple[int, int, int], classes: int, parameters: NDArray[np.float32]
) -> Trainer:
    trainer = Trainer(model, shape=shape, classes=classes)
    trainer.parameters = parameters
    return trainer


def _images(field: str, value: object) -> Images:
    if isinstance(value, Images):
        return value
    hint = "; a Dataset has two of them, .train and .test" if isinstance(value, Dataset) else ""
    raise ValueError(f"{field} = {shown(value)}: expected Images{hint}")


def average(
    model: NDArray[np.float32], updates: Iterable[NDArray[np.float32]], weights: ArrayLike
) -> None:
    """Moves a model, in place, to the weighted average of updates: what every engine of agewise does at the end of a round.

    ``updates`` may be any number of arrays, also from a generator.

    What the weights lack to 1 stays with the old model. An update that is not finite is an error, and the model stays.

    >>> model = np.zeros(2, dtype=np.float32)
    >>> average(model, [np.float32([1, 2]), np.float32([3, 4])], [0.5, 0.5])
    >>> model
    array([2., 3.], dtype=float32)
    """
    updates = list(updates)
    for name, array in [("model", model), *((f"updates[{k}]", u) for k, u in enumerate(updates))]:
        if not isinstance(array, np.ndarray) or array.dtype != np.float32 or array.ndim != 1:
            raise ValueError(f"{name} = {shown(array)}: expected a flat array of float32")
    if not (model.flags.writeable and model.flags.c_contiguous):
        raise ValueError("model: expected an array that can be written to, without gaps")
    if any(np.shares_memory(model, update) for update in updates):
        raise ValueError("updates: expected arrays of their own, not the model's memory")
    _agewise.average(
        model, [np.ascontiguousarray(u) for u in updates], numbers("weights", weights).tolist()
    )
