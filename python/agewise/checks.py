"""Checks of what the compiled part cannot look at: values that do not fit its types."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray


def whole(field: str, value: object) -> int:
    """A whole number from 0 on that fits into 64 bits; NumPy's are fine, booleans are not."""
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        if 0 <= int(value) < 1 << 64:
            return int(value)
    raise ValueError(f"{field} = {value!r}: expected a whole number, 0 or more")


def positive(field: str, value: object) -> int:
    """A whole number from 1 on."""
    if whole(field, value) == 0:
        raise ValueError(f"{field} = 0: expected a whole number, 1 or more")
    return whole(field, value)


def known(value: float | None) -> float:
    """JSON has no NaN: what is not known comes as null."""
    return math.nan if value is None else value


def numbers(field: str, values: ArrayLike) -> NDArray[np.float64]:
    """A list of numbers."""
    try:
        array = np.ascontiguousarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        array = np.empty((0, 0))
    if array.ndim != 1 or np.ndim(values) == 0:
        raise ValueError(f"{field} = {values!r}: expected a list of numbers")
    return array


def document(params: Mapping[str, object]) -> str:
    """Parameters as JSON, without those that were not given."""
    return json.dumps(
        {key: _plain(key, value) for key, value in params.items() if value is not None}
    )


def _plain(field: str, value: object) -> object:
    """What JSON can write: arrays as lists, NumPy's numbers as Python's."""
    if isinstance(value, np.ndarray):
        return [_plain(field, entry) for entry in value.tolist()]
    if isinstance(value, np.generic):
        return _plain(field, value.item())
    if isinstance(value, (list, tuple)):
        return [_plain(field, entry) for entry in value]
    if isinstance(value, Mapping):
        return {str(key): _plain(f"{field}.{key}", entry) for key, entry in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{field} = {value}: expected a finite number")
    if isinstance(value, (str, bool, int, float)) or value is None:
        return value
    raise ValueError(f"{field} = {value!r}: expected a number, a text or a list of them")
