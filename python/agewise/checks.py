"""Checks of what the compiled part cannot look at: values that do not fit its types."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray


def whole(field: str, value: object) -> int:
    """A whole number from 0 on that fits into 64 bits; NumPy's are fine, booleans are not."""
    return within(field, value, 0, (1 << 64) - 1)


def positive(field: str, value: object) -> int:
    """A whole number from 1 on that fits into 64 bits."""
    return within(field, value, 1, (1 << 64) - 1)


def within(field: str, value: object, least: int, most: int) -> int:
    """A whole number in a range; NumPy's are fine, booleans are not."""
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        if least <= int(value) <= most:
            return int(value)
        if least <= int(value):
            raise ValueError(f"{field} = {shown(value)}: expected at most {most}")
    raise ValueError(f"{field} = {shown(value)}: expected a whole number, {least} or more")


def shown(value: object) -> str:
    """A value in an error: long ones are cut."""
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:100]}..."


def names(field: str, values: Iterable[str] | None) -> list[str] | None:
    """A list of names, which one name is not."""
    if values is None:
        return None
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise ValueError(f"{field} = {shown(values)}: expected a list of names")
    return list(values)


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
        raise ValueError(f"{field} = {shown(values)}: expected a list of numbers")
    return array


def rows(field: str, values: ArrayLike) -> NDArray[np.float32]:
    """A table of numbers with 32 bits. Numbers that do not fit become infinite, which the core refuses."""
    try:
        with np.errstate(over="ignore"):
            array = np.ascontiguousarray(values, dtype=np.float32)
    except (TypeError, ValueError):
        array = np.empty((), dtype=np.float32)
    if array.shape == (0,):
        # Nobody reports.
        return array.reshape(0, 0)
    if array.ndim != 2:
        expected = "rows of numbers, one for each client, all of one width"
        raise ValueError(f"{field} = {shown(values)}: expected {expected}")
    return array


def finite(field: str, values: ArrayLike) -> list[float]:
    """A list of finite numbers, as JSON can write it."""
    array = numbers(field, values)
    wrong = np.flatnonzero(~np.isfinite(array))
    if wrong.size:
        raise ValueError(f"{field}[{wrong[0]}] = {array[wrong[0]]}: expected a finite number")
    found: list[float] = array.tolist()
    return found


def document(params: Mapping[str, object]) -> str:
    """Parameters as JSON, without those that were not given."""
    return json.dumps(
        {key: _plain(key, value) for key, value in params.items() if value is not None}
    )


def _plain(field: str, value: object) -> object:
    """What JSON can write: arrays as lists, NumPy's numbers as Python's."""
    if isinstance(value, np.ndarray) and value.ndim > 0:
        return [_plain(field, entry) for entry in value.tolist()]
    if isinstance(value, (np.generic, np.ndarray)):
        return _plain(field, value.item())
    if isinstance(value, (list, tuple)):
        return [_plain(field, entry) for entry in value]
    if isinstance(value, Mapping):
        return {str(key): _plain(f"{field}.{key}", entry) for key, entry in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{field} = {value}: expected a finite number")
    if isinstance(value, (str, bool, int, float)) or value is None:
        return value
    raise ValueError(f"{field} = {shown(value)}: expected a number, a text or a list of them")
