"""Sketches of updates: short vectors that approximately preserve sums and distances."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from agewise import _agewise
from agewise.checks import shown, whole, within

#: The weights and biases of the output layer are the last arrays of most models.
_LAST_ARRAYS = 2

#: An array, or the arrays of a model by name, such as a ``state_dict`` of PyTorch.
Model: TypeAlias = "ArrayLike | Mapping[str, Any]"


def sketch(
    before: Model,
    after: Model,
    *,
    arrays: Sequence[str] | None = None,
    width: int = 512,
    seed: int = 0,
) -> NDArray[np.float32]:
    """A sketch of the change from ``before`` to ``after``, for policies that look at updates.

    Both are arrays of the same shape: the concatenated parameters of the output layer of a model
    before and after a client trained. Or both are models: dicts of arrays or tensors by name, of
    which the ``arrays`` are sketched. The default is the last two that are no counters, in most
    models the weights and biases of the output layer. Up to ``width`` parameters are kept as
    they are. More parameters are folded by a count sketch: each is added, with a random sign, to
    one of ``width``
    numbers. The signs and positions follow from ``seed``, so only sketches with the same seed can
    be compared. ``agewise compare`` uses the same sketch with the seed of the run.

    >>> sketch([1.0, 2.0], [1.5, 1.0])
    array([ 0.5, -1. ], dtype=float32)
    >>> len(sketch(np.zeros(2010), np.ones(2010), seed=1))
    512
    >>> sketch([1.0], [float("nan")])
    Traceback (most recent call last):
        ...
    ValueError: after[0] = nan: expected a finite number
    """
    first: Any = before
    second: Any = after
    if isinstance(before, Mapping):
        first, second = _joined(before, after, arrays)
    elif arrays is not None:
        expected = "none, as before is not a dict of arrays"
        raise ValueError(f"arrays = {shown(arrays)}: expected {expected}")
    old, new = _numbers("before", first), _numbers("after", second)
    if np.shape(first) != np.shape(second):
        shapes = f"{list(np.shape(second))}: expected {list(np.shape(first))}, as in before"
        raise ValueError(f"after = shape {shapes}")
    sketcher = _sketcher(len(old), within("width", width, 1, (1 << 32) - 1), whole("seed", seed))
    found = sketcher.sketch(old, new)
    if found is None:
        raise ValueError(
            "after = numbers too far from before: expected changes that fit into float32"
        )
    return found


def _joined(
    before: Mapping[str, Any], after: Any, names: Sequence[str] | None
) -> tuple[NDArray[Any], NDArray[Any]]:
    """The sketched arrays of two models, each as one array."""
    if not isinstance(after, Mapping) or set(after) != set(before):
        raise ValueError(f"after = {shown(after)}: expected the arrays of before, {list(before)}")
    if names is None:
        floats = [k for k, v in before.items() if np.issubdtype(_array(v).dtype, np.floating)]
        names = floats[-_LAST_ARRAYS:]
    missing = [name for name in names if name not in before]
    if missing:
        raise ValueError(f"arrays = {missing[0]!r}: expected arrays of the model, {list(before)}")
    old, new = (np.concatenate([_array(m[n]).ravel() for n in names]) for m in (before, after))
    return old, new


def _array(value: Any) -> NDArray[Any]:
    """An array, or a tensor of PyTorch on any device."""
    return np.asarray(value.detach().cpu() if hasattr(value, "detach") else value)


@lru_cache(maxsize=8)
def _sketcher(length: int, width: int, seed: int) -> _agewise.Sketcher:
    """The positions and signs, computed once for all clients."""
    return _agewise.Sketcher(length, width, seed)


def _numbers(field: str, values: ArrayLike) -> NDArray[np.float32]:
    """Finite numbers as a flat array."""
    try:
        with np.errstate(over="ignore"):
            array = np.ascontiguousarray(values, dtype=np.float32).reshape(-1)
    except (TypeError, ValueError):
        array = np.empty(0, dtype=np.float32)
    if array.size == 0:
        raise ValueError(f"{field} = {shown(values)}: expected an array of numbers, at least one")
    wrong = np.flatnonzero(~np.isfinite(array))
    if wrong.size:
        raise ValueError(f"{field}[{wrong[0]}] = {array[wrong[0]]}: expected a finite number")
    return array
