"""Arrays of one's own as the data of a comparison: features, labels, and whose each sample is."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agewise import _agewise
from agewise.checks import shown
from agewise.learning import Dataset

#: Labels are bytes in memory.
_MOST_CLASSES = 256


@dataclass
class _Split:
    """Samples for training or for tests, with names for messages."""

    what: str
    features: NDArray[Any]
    labels: NDArray[Any]
    clients: list[str] | None

    def row(self, place: int) -> str:
        """A sample in messages."""
        whose = f", client {self.clients[place]!r}" if self.clients else ""
        return f"{self.what}, row {place}{whose}"


def own_data(
    data: object, test: object = None, loss: object = None, model: object = None
) -> _agewise.OwnData | None:
    """The arrays of ``data`` and ``test``; None if ``data`` is the name of a set or a file.

    Labels are classes, unless they have fractions, or ``loss`` is ``squared``, or the ``model`` is
    ``linear``.
    """
    if isinstance(data, Dataset):
        if test is not None:
            expected = "none, as the data set has test images"
            raise ValueError(f"test = {shown(test)}: expected {expected}")
        owners = data.train.owners
        given: Any = (data.train.pixels, data.train.labels, owners)
        name, test, data = data.name, (data.test.pixels, data.test.labels), given
    elif isinstance(data, (tuple, list)):
        name = "own arrays"
    else:
        return None
    train = _split("data", data)
    tested = _nothing_of(train) if test is None else _split("test", test)
    _check_beside(train, tested)
    classes, names = _classes(train, tested, loss, model)
    checksum = _checksum(train, tested)
    return _agewise.OwnData(
        name,
        (train.features, train.labels),
        (tested.features, tested.labels),
        classes,
        names,
        train.clients,
        checksum,
    )


def has_clients(data: object) -> bool:
    """Whether these are arrays that say whose each sample is."""
    return isinstance(data, (tuple, list)) and len(data) == 3 and data[2] is not None


def _split(what: str, given: Any) -> _Split:
    if not isinstance(given, (tuple, list)) or len(given) not in (2, 3):
        expected = "arrays (x, y) or (x, y, client_ids)"
        raise ValueError(f"{what} = {shown(given)}: expected {expected}")
    features = _features(what, given[0])
    labels = np.asarray(given[1])
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.shape != (len(features),):
        expected = f"{len(features)} labels, one for each row of x"
        raise ValueError(f"{what} (y) = {list(labels.shape)}: expected {expected}")
    clients = None
    if len(given) == 3 and given[2] is not None:
        clients = _clients(what, given[2], len(features))
    if not len(features):
        raise ValueError(f"{what} = no samples: expected at least one")
    split = _Split(what, features, labels, clients)
    if features.dtype != np.uint8:
        flat = features.reshape(len(features), -1)
        wrong = np.flatnonzero(~np.isfinite(flat).all(axis=1))
        if wrong.size:
            row = int(wrong[0])
            column = int(np.flatnonzero(~np.isfinite(flat[row]))[0])
            value = flat[row, column]
            expected = "finite numbers"
            raise ValueError(f"{split.row(row)}: x[{row}, {column}] = {value}: expected {expected}")
    return split


def _features(what: str, given: Any) -> NDArray[Any]:
    """Features with the axes sample, row, column, channel; without an order they are channels."""
    array = np.asarray(given)
    numeric = np.issubdtype(array.dtype, np.number) or array.dtype == np.bool_
    if array.dtype == object and array.ndim == 2:
        array, numeric = _numbers(what, array), True
    if not numeric or array.ndim not in (2, 3, 4) or 0 in array.shape[1:]:
        expected = "a table of numbers, or images [samples, rows, columns(, channels)]"
        raise ValueError(f"{what} (x) = {array.dtype} {list(array.shape)}: expected {expected}")
    if array.dtype != np.uint8 or array.ndim == 2:
        with np.errstate(over="ignore"):
            array = array.astype(np.float32)
    if array.ndim == 2:
        array = array[:, None, None, :]
    elif array.ndim == 3:
        array = array[..., None]
    elif array.shape[1] in (1, 3) and array.shape[3] not in (1, 3):
        # As PyTorch has them.
        array = array.transpose(0, 2, 3, 1)
    return np.ascontiguousarray(array)


def _numbers(what: str, table: NDArray[Any]) -> NDArray[Any]:
    """A table of mixed columns, if all are numbers."""
    for column in range(table.shape[1]):
        for row, value in enumerate(table[:, column]):
            try:
                float(value)
            except (TypeError, ValueError):
                field = f"{what}: x[{row}, {column}]"
                raise ValueError(f"{field} = {shown(value)}: expected a number") from None
    return table.astype(np.float64)


def _clients(what: str, given: Any, samples: int) -> list[str]:
    ids = np.asarray(given)
    if ids.shape != (samples,):
        expected = f"{samples} client ids, one for each row of x"
        raise ValueError(f"{what} (client_ids) = {list(ids.shape)}: expected {expected}")
    names: list[Hashable] = ids.tolist()
    for row, name in enumerate(names):
        is_nan = isinstance(name, float) and not math.isfinite(name)
        if name is None or is_nan or str(name).strip() == "":
            expected = "the name or the number of a client"
            raise ValueError(f"{what}: client_ids[{row}] = {shown(name)}: expected {expected}")
    return [str(name) for name in names]


def _nothing_of(train: _Split) -> _Split:
    """No test samples: a share of the training samples is held out."""
    return _Split("test", train.features[:0], train.labels[:0], None)


def _check_beside(train: _Split, test: _Split) -> None:
    """Checks that test samples are like the training samples and of the same clients."""
    shapes = [[str(split.features.dtype), *split.features.shape[1:]] for split in (train, test)]
    if shapes[0] != shapes[1]:
        raise ValueError(f"test (x) = samples of {shapes[1]}: expected {shapes[0]}, as in data")
    if train.clients is not None and test.clients is not None:
        known = set(train.clients)
        for row, client in enumerate(test.clients):
            if client not in known:
                expected = f"one of the {len(known)} clients of the training samples"
                raise ValueError(f"test: client_ids[{row}] = {client!r}: expected {expected}")


def _classes(train: _Split, test: _Split, loss: object, model: object) -> tuple[int, list[str]]:
    """The number of classes and their names, of which the labels become numbers; 0 if labels are
    predicted as numbers.
    """
    for split in (train, test):
        if np.issubdtype(split.labels.dtype, np.floating):
            wrong = np.flatnonzero(~np.isfinite(split.labels))
            if wrong.size:
                row = int(wrong[0])
                value = split.labels[row]
                expected = "a class or a finite number"
                raise ValueError(f"{split.row(row)}: y[{row}] = {value}: expected {expected}")
    floats = np.issubdtype(train.labels.dtype, np.floating)
    fractions = floats and bool((train.labels != np.floor(train.labels)).any())
    if loss == "squared" or (loss in (None, "auto") and (fractions or model == "linear")):
        if not (floats or np.issubdtype(train.labels.dtype, np.number)):
            value = shown(train.labels[0])
            raise ValueError(f"data: y[0] = {value}: expected numbers, as they are predicted")
        train.labels, test.labels = train.labels.astype("f4"), test.labels.astype("f4")
        return 0, []
    if fractions:
        row = int(np.flatnonzero(train.labels != np.floor(train.labels))[0])
        value, expected = train.labels[row], "classes with loss='cross-entropy'"
        raise ValueError(f"{train.row(row)}: y[{row}] = {value}: expected {expected}")
    known = sorted(set(train.labels.tolist()), key=lambda label: (isinstance(label, str), label))
    if len(known) > _MOST_CLASSES:
        expected = f"at most {_MOST_CLASSES}; loss='squared' predicts numbers"
        raise ValueError(f"data (y) = {len(known)} classes: expected {expected}")
    numbers = {label: number for number, label in enumerate(known)}
    for split in (train, test):
        split.labels = _numbered(split, numbers)
    plain = known == list(range(len(known)))
    return len(known), [] if plain else [str(label) for label in known]


def _numbered(split: _Split, numbers: Mapping[Any, int]) -> NDArray[np.uint8]:
    labels = split.labels.tolist()
    for row, label in enumerate(labels):
        if label not in numbers:
            expected = f"one of the {len(numbers)} classes of the training samples"
            raise ValueError(f"{split.row(row)}: y[{row}] = {shown(label)}: expected {expected}")
    return np.array([numbers[label] for label in labels], dtype=np.uint8)


def _checksum(*splits: _Split) -> str:
    """By which a run that is resumed knows that its data are the same."""
    digest = hashlib.sha256()
    for split in splits:
        for array in (split.features, split.labels):
            digest.update(f"{array.dtype} {array.shape} ".encode())
            digest.update(np.ascontiguousarray(array).data)
        digest.update("\0".join(split.clients or []).encode())
    return digest.hexdigest()
