"""Sketches of updates: few numbers whose sums and distances are nearly those of the whole."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from agewise import _agewise
from agewise.checks import shown, whole, within


def sketch(
    before: ArrayLike, after: ArrayLike, *, width: int = 512, seed: int = 0
) -> NDArray[np.float32]:
    """A sketch of the change from ``before`` to ``after``, for policies that look at updates.

    Both are arrays of one shape: the parameters of a model's output layer before and after a client trained, one after the
    other. Up to ``width`` parameters are kept as they are; more are folded by a count sketch: each is added, with a random
    sign, to one of the ``width`` numbers. ``seed`` decides how; sketches that shall be compared have the same. It is the
    sketch of ``agewise compare``, there with the seed of the run.

    >>> sketch([1.0, 2.0], [1.5, 1.0])
    array([ 0.5, -1. ], dtype=float32)
    >>> len(sketch(np.zeros(2010), np.ones(2010), seed=1))
    512
    >>> sketch([1.0], [float("nan")])
    Traceback (most recent call last):
        ...
    ValueError: after[0] = nan: expected a finite number
    """
    old, new = _numbers("before", before), _numbers("after", after)
    if np.shape(before) != np.shape(after):
        shapes = f"{list(np.shape(after))}: expected {list(np.shape(before))}, as in before"
        raise ValueError(f"after = shape {shapes}")
    sketcher = _sketcher(
        len(old), within("width", width, 1, (1 << 32) - 1), whole("seed", seed)
    )
    found = sketcher.sketch(old, new)
    if found is None:
        raise ValueError("after = numbers too far from before: expected changes that fit into float32")
    return found


@lru_cache(maxsize=8)
def _sketcher(length: int, width: int, seed: int) -> _agewise.Sketcher:
    """Where the parameters go is looked up once for all clients."""
    return _agewise.Sketcher(length, width, seed)


def _numbers(field: str, values: ArrayLike) -> NDArray[np.float32]:
    """Finite numbers, one after the other."""
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
