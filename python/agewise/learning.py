"""Data sets, partitions and training."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from agewise import _agewise
from agewise.checks import document, finite_number, numbers, positive, shown, whole, within


class Images:
    """Images with labels and a normalisation of their pixels. Subsets share the memory of the set.

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
        """Images from 8-bit pixels with the axes image, row, column and, if there are several,
        channel.

        ``scale`` is ``standardised`` (mean 0 and standard deviation 1 over these images) or
        ``unit`` (0 to 1). Test images take the scale of the training images: pass those as
        ``like``.
        """
        array = np.asarray(pixels)
        if array.dtype != np.uint8 or array.ndim not in (3, 4):
            shape = f"{array.dtype} {list(array.shape)}"
            expected = "uint8 [images, rows, columns(, channels)]"
            raise ValueError(f"pixels = {shape}: expected {expected}")
        given = np.asarray(labels)
        whole_numbers = given.size == 0 or np.issubdtype(given.dtype, np.integer)
        in_range = given.size == 0 or (whole_numbers and 0 <= given.min() <= given.max() < 256)
        if given.ndim != 1 or not in_range:
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

    def __getstate__(self) -> dict[str, Any]:
        # A subset is pickled without the images that are not in it.
        return self.__dict__ | {"_inner": self._inner.parts()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state | {"_inner": _agewise.Images.from_parts(*state["_inner"])})

    def __len__(self) -> int:
        return len(self._inner)

    @property
    def shape(self) -> tuple[int, int, int]:
        """The number of rows, columns and channels of each image."""
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
        """The pixels, with the axes image, row, column, channel. A copy."""
        return self._inner.pixels

    @property
    def owners(self) -> list[str] | None:
        """The client of each image, by name; None unless the data set says whose they are."""
        return self._inner.owners

    def take(self, indices: ArrayLike) -> Images:
        """A subset of these images by their indices, without copying pixels."""
        array = np.asarray(indices)
        if array.ndim != 1 or (array.size and not np.issubdtype(array.dtype, np.integer)):
            raise ValueError(f"indices = {shown(indices)}: expected a list of whole numbers")
        wrong = array[(array < 0) | (array >= len(self))]
        if wrong.size:
            raise ValueError(f"indices = {wrong[0]}: expected indices from 0 to {len(self) - 1}")
        return Images._of(self._inner.take(array.tolist()))

    def __repr__(self) -> str:
        rows, columns, channels = self.shape
        return f"Images({len(self)} of {rows}x{columns}x{channels}, {self.classes} classes)"


@dataclass(frozen=True)
class Dataset:
    """Training and test images. :func:`agewise.compare` takes it as its ``data``."""

    name: str
    train: Images
    test: Images


def load_data(
    name: str = "digits",
    folder: str | PathLike[str] | None = None,
    *,
    scale: str = "standardised",
) -> Dataset:
    """Loads a data set: ``digits`` (7,000 real digits inside the package), ``mnist``,
    ``fashion-mnist``, ``cifar-10`` or ``cifar-100``.

    The files are searched in ``folder``, in the folder of the environment variable AGEWISE_DATA,
    and in the default folder of ``agewise data fetch``. Files that are not those that were
    published, as far as their checksums are known, are loaded with a warning.

    >>> digits = load_data()
    >>> digits.train, len(digits.test)
    (Images(6000 of 28x28x1, 10 classes), 1000)
    """
    train, test = _agewise.load_data(name, folder, scale)
    return Dataset(name, Images._of(train), Images._of(test))


def fetch_data(
    name: str, folder: str | PathLike[str] | None = None, *, mirror: str | None = None
) -> Path:
    """Downloads a data set, unless it is here already, and checks it; returns its folder.

    It is a subfolder of ``folder``; the default is the folder of the environment variable
    AGEWISE_DATA, or that of ``agewise data fetch``. ``mirror`` is an address to which the names of
    the files are added, instead of those that are known.

    >>> fetch_data("digits")
    Traceback (most recent call last):
        ...
    ValueError: name = digits: expected one that is not inside the program already
    """
    return Path(_agewise.fetch_data(name, folder, mirror))


class Partition:
    """The assignment of images to clients."""

    def __init__(self, inner: _agewise.Partition) -> None:
        self._inner = inner

    def __getstate__(self) -> dict[str, Any]:
        inner = self._inner
        shares = [inner.indices(client).tolist() for client in range(inner.clients)]
        return self.__dict__ | {"_inner": (shares, inner.names, inner.images.parts())}

    def __setstate__(self, state: dict[str, Any]) -> None:
        shares, names, images = state["_inner"]
        whole = _agewise.Images.from_parts(*images)
        inner = _agewise.Partition.from_parts(shares, names, whole)
        self.__dict__.update(state | {"_inner": inner})

    @property
    def names(self) -> list[str]:
        """The names of the clients; empty where they are only numbers."""
        return self._inner.names

    @property
    def clients(self) -> int:
        """The number of clients."""
        return self._inner.clients

    @property
    def sizes(self) -> NDArray[np.uint64]:
        """The number of images of each client."""
        return self._inner.sizes

    @property
    def histograms(self) -> NDArray[np.uint32]:
        """The number of images of each class, one row for each client."""
        return self._inner.histograms

    def indices(self, client: int) -> NDArray[np.uint32]:
        """The indices of the images of one client, in increasing order."""
        return self._inner.indices(within("client", client, 0, self.clients - 1))

    def of(self, client: int) -> Images:
        """The images of one client, without copying pixels."""
        return Images._of(self._inner.of(within("client", client, 0, self.clients - 1)))

    def __len__(self) -> int:
        return self.clients

    def __repr__(self) -> str:
        return f"Partition({self.clients} clients)"


def partition(
    images: Images,
    clients: int = 100,
    distribution: str = "iid",
    *,
    sizes: str = "equal",
    least: int = 1,
    seed: int = 0,
) -> Partition:
    """Partitions images among clients, as ``agewise compare`` does with the same seed.

    ``distribution`` is that of the labels: ``iid``, ``dirichlet:0.3`` or ``shards:2``; or
    ``clients`` for data sets that say whose each image is (:attr:`Images.owners`). ``sizes`` is
    the distribution of data sizes: ``equal``, ``zipf:2.0`` or ``lognormal:1.0``. Each client has at
    least ``least`` images.

    >>> shares = partition(load_data().train, clients=20, distribution="shards:2", seed=1)
    >>> shares.sizes[:3], shares.of(0)
    (array([300, 300, 300], dtype=uint64), Images(300 of 28x28x1, 10 classes))
    """
    return Partition(
        _agewise.partition(
            _images("images", images)._inner,
            whole("clients", clients),
            distribution,
            sizes,
            whole("least", least),
            whole("seed", seed),
        )
    )


@dataclass(frozen=True)
class LocalReport:
    """The result of local training."""

    steps: int
    samples: int
    #: The mean loss of the batches, each evaluated before its step.
    loss: float
    #: The duration in seconds.
    seconds: float
    #: The root mean square of the losses of all samples, each evaluated before its step.
    root_mean_square: float


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The accuracy and loss of a model on images."""

    samples: int
    accuracy: float
    loss: float
    #: The accuracy on each class; NaN for classes without images.
    class_accuracy: NDArray[np.float64]


class Trainer:
    """A model of the native engine of agewise, trained on one core.

    Its parameters are one NumPy array, which training changes in place. Other Python threads run
    while it trains, so several trainers in several threads use several cores.

    >>> digits = load_data()
    >>> trainer = Trainer("softmax", seed=1)
    >>> report = trainer.train(digits.train, epochs=1, batch=50, lr=0.1)
    >>> report.steps, trainer.evaluate(digits.test).accuracy > 0.8
    (120, True)
    >>> Trainer("cn")
    Traceback (most recent call last):
        ...
    ValueError: model = cn: expected one of softmax, linear, mlp:64,32, 2nn, cnn, cnn-cifar (did you mean cnn?)
    """  # noqa: E501

    def __init__(
        self,
        model: str = "cnn",
        *,
        shape: tuple[int, int, int] = (28, 28, 1),
        classes: int = 10,
        seed: int = 0,
    ) -> None:
        """A ``softmax``, ``mlp:64,32``, ``2nn``, ``cnn`` or ``cnn-cifar`` model.

        ``shape`` is the number of rows, columns and channels of an image. The initial parameters
        have the default distribution of PyTorch and follow from ``seed``.
        """
        #: The name of the model.
        self.model = model
        sides = tuple(shape) if isinstance(shape, (tuple, list)) else ()
        if len(sides) != 3 or not all(0 < whole("shape", side) <= 4096 for side in sides):
            expected = "rows, columns and channels, 1 to 4096"
            raise ValueError(f"shape = {shown(shape)}: expected {expected}")
        self._made = (model, (sides[0], sides[1], sides[2]), whole("classes", classes))
        self._inner = _agewise.Trainer(*self._made, whole("seed", seed))
        self._memory = self._inner.parameters
        self._tensors = self._inner.tensors
        self._lock = threading.Lock()

    @property
    def parameters(self) -> NDArray[np.float32]:
        """All parameters, in the memory that is trained. Do not write to it while another thread
        trains.

        >>> trainer = Trainer("softmax")
        >>> trainer.parameters[:] = 0
        >>> trainer.parameters.shape, float(abs(trainer.parameters).max())
        ((7850,), 0.0)
        """
        # A view, so that a caller who sets its shape does not change the shape of ours.
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
        """The slice of :attr:`parameters` with the weights and biases of the output layer, which
        :func:`agewise.sketch` takes.

        >>> Trainer("2nn").output_layer
        slice(197200, 199210, None)
        """
        return slice(*self._inner.output_layer)

    def arrays(self) -> dict[str, NDArray[np.float32]]:
        """The tensors by name, as views of :attr:`parameters`, without copying.

        Convolutions have the shapes of PyTorch. The first dense layer takes its inputs in the order
        row, column, channel, while PyTorch has channel, row, column; :meth:`state_dict` has the
        order of PyTorch.

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
        """Copies of all tensors, with the names, shapes and order of PyTorch.

        >>> first, second = Trainer("cnn", seed=1), Trainer("cnn", seed=2)
        >>> second.load_state_dict(first.state_dict())
        >>> bool((first.parameters == second.parameters).all())
        True
        """
        with self._busy():
            return dict(self._inner.tensors_for_pytorch())

    def load_state_dict(self, tensors: Mapping[str, Any]) -> None:
        """Loads all tensors, with the names, shapes and order of PyTorch.

        After an error the parameters have not changed.
        """
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
        """Sets the parameters to the initial parameters of a seed."""
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
        """Trains by SGD for a number of ``epochs`` (the default is 1) or ``steps``, in place.

        The order of the samples is a function of (seed, round, client), so a client sees different
        batches in different rounds, and the same call gives the same bytes. The learning rate is
        ``lr * decay**round``. ``proximal`` is the coefficient of the proximal term of FedProx.
        ``augment`` crops and mirrors images at random.
        """
        if epochs is not None and steps is not None:
            raise ValueError(f"steps = {steps}: expected epochs or steps, not both")
        if steps is not None:
            work = f"{positive('steps', steps)} steps"
        else:
            work = f"{positive('epochs', 1 if epochs is None else epochs)} epochs"
        if not len(_images("data", data)):
            raise ValueError("data = 0 images: expected at least 1")
        training = {
            "local_work": work,
            "batch": batch,
            "learning_rate": finite_number("lr", lr),
            "decay": decay,
            "momentum": momentum,
            "weight_decay": weight_decay,
            "proximal": proximal,
            "augment": augment,
        }
        task = {"seed": seed, "round": round, "client": client, "training": training}
        text, images = document(task), data._inner
        begin = time.perf_counter()
        with self._busy():
            done, samples, loss, root_mean_square = self._inner.train(images, text)
        return LocalReport(done, samples, loss, time.perf_counter() - begin, root_mean_square)

    def evaluate(self, data: Images) -> Evaluation:
        """The accuracy and loss of the parameters on images."""
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
        """The logits, with one row for each image and one column for each class."""
        with self._busy():
            return self._inner.scores(_images("data", data)._inner)

    @contextmanager
    def _busy(self) -> Iterator[None]:
        """Lets only one thread at a time use the parameters."""
        if not self._lock.acquire(blocking=False):
            raise RuntimeError(
                "another thread is using this Trainer: expected one Trainer per thread"
            )
        try:
            yield
        finally:
            self._lock.release()

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored_trainer, (*self._made, self._memory.copy())

    def __copy__(self) -> Trainer:
        return _restored_trainer(*self.__reduce__()[1])

    def __repr__(self) -> str:
        return f"Trainer({self.model!r}, {len(self.parameters)} parameters)"


def _restored_trainer(
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
    """Sets a model, in place, to the weighted average of updates, as every engine of agewise does
    at the end of a round.

    ``updates`` is any iterable of arrays. If the weights sum to less than 1, the old model has the
    rest of the weight. An update that is not finite is an error, and the model does not change.

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
        raise ValueError("model: expected a writeable contiguous array")
    if any(np.shares_memory(model, update) for update in updates):
        raise ValueError("updates: expected arrays that do not share memory with the model")
    _agewise.average(
        model, [np.ascontiguousarray(u) for u in updates], numbers("weights", weights).tolist()
    )
