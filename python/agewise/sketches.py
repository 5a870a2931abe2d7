"""Sketches of updates: short vectors that approximately preserve sums and distances."""

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

    Both are arrays of the same shape: the concatenated parameters of the output layer of a model
    before and after a client trained. Up to ``width`` parameters are kept as they are. More
    parameters are folded by a count sketch: each is added, with a random sign, to one of ``width``
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
    old, new = _numbers("before", before), _numbers("after", after)
    if np.shape(before) != np.shape(after):
        shapes = f"{list(np.shape(after))}: expected {list(np.shape(before))}, as in before"
        raise ValueError(f"after = shape {shapes}")
    sketcher = _sketcher(len(old), within("width", width, 1, (1 << 32) - 1), whole("seed", seed))
    found = sketcher.sketch(old, new)
    if found is None:
        raise ValueError(
            "after = numbers too far from before: expected changes that fit into float32"
        )
    return found


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
