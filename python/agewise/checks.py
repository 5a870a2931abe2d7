"""Checks of arguments before they are passed to the compiled module."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray


def whole(field: str, value: object) -> int:
    """A whole number from 0 to 2**64 - 1, also of NumPy; a bool is refused."""
    return within(field, value, 0, (1 << 64) - 1)


def positive(field: str, value: object) -> int:
    """A whole number from 1 to 2**64 - 1."""
    return within(field, value, 1, (1 << 64) - 1)


def within(field: str, value: object, least: int, most: int) -> int:
    """A whole number in a range, also of NumPy; a bool is refused."""
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        if least <= int(value) <= most:
            return int(value)
        if least <= int(value):
            raise ValueError(f"{field} = {shown(value)}: expected at most {most}")
    raise ValueError(f"{field} = {shown(value)}: expected a whole number, {least} or more")


def shown(value: object) -> str:
    """A value as errors show it, shortened to 100 characters."""
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:100]}..."


def names(field: str, values: Iterable[str] | None) -> list[str] | None:
    """A list of names; a single string is refused."""
    if values is None:
        return None
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise ValueError(f"{field} = {shown(values)}: expected a list of names")
    return list(values)


def known(value: float | None) -> float:
    """NaN for None: JSON has no NaN, so unknown values are null."""
    return math.nan if value is None else value


def number(field: str, value: object) -> float:
    """A number, also of NumPy; a bool is refused."""
    if isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            pass
    raise ValueError(f"{field} = {shown(value)}: expected a number")


def switch(field: str, value: object) -> bool:
    """True or False, also of NumPy."""
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    raise ValueError(f"{field} = {shown(value)}: expected True or False")


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
    """A table of float32. Numbers that do not fit become infinite, which the core refuses."""
    try:
        with np.errstate(over="ignore"):
            array = np.ascontiguousarray(values, dtype=np.float32)
    except (TypeError, ValueError):
        array = np.empty((), dtype=np.float32)
    if array.shape == (0,):
        # An empty list: no client reports.
        return array.reshape(0, 0)
    if array.ndim != 2:
        expected = "rows of numbers, one for each client, all of one width"
        raise ValueError(f"{field} = {shown(values)}: expected {expected}")
    return array


def client_numbers(field: str, given: ArrayLike) -> NDArray[np.uint32]:
    """Client numbers in any collection."""
    is_other = isinstance(given, Iterable) and not isinstance(given, (np.ndarray, Sequence))
    # Sets, generators and the keys of dicts.
    array = np.asarray(list(given) if is_other else given)  # type: ignore[arg-type]
    if array.size == 0:
        return np.empty(0, dtype=np.uint32)
    if array.ndim != 1 or not np.issubdtype(array.dtype, np.integer):
        raise ValueError(f"{field} = {shown(given)}: expected a list of client numbers")
    wrong = array[(array < 0) | (array >= 1 << 32)]
    if wrong.size:
        raise ValueError(f"{field} = {wrong[0]}: expected client numbers, 0 or more")
    return array.astype(np.uint32)


def finite(field: str, values: ArrayLike) -> list[float]:
    """A list of finite numbers, which JSON can represent."""
    array = numbers(field, values)
    wrong = np.flatnonzero(~np.isfinite(array))
    if wrong.size:
        raise ValueError(f"{field}[{wrong[0]}] = {array[wrong[0]]}: expected a finite number")
    found: list[float] = array.tolist()
    return found


def finite_number(field: str, value: object) -> object:
    """A value that is not an infinite number or NaN, which JSON cannot represent."""
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{field} = {value}: expected a finite number")
    return value


def max_age_or_auto(value: object) -> int | str:
    """A maximum age: a whole number, or ``auto``."""
    if isinstance(value, str):
        if value == "auto":
            return value
        raise ValueError(f"max_age = {shown(value)}: expected 'auto' or a whole number")
    return whole("max_age", value)


def document(params: Mapping[str, object]) -> str:
    """Parameters as JSON, without those that are None."""
    return json.dumps(
        {key: _plain(key, value) for key, value in params.items() if value is not None}
    )


def _plain(field: str, value: object) -> object:
    """A value that JSON can represent: arrays become lists, NumPy numbers become Python numbers."""
    if isinstance(value, np.ndarray) and value.ndim > 0:
        return [_plain(field, entry) for entry in value.tolist()]
    if isinstance(value, (np.generic, np.ndarray)):
        return _plain(field, value.item())
    if isinstance(value, (list, tuple)):
        return [_plain(field, entry) for entry in value]
    if isinstance(value, Mapping):
        return {str(key): _plain(f"{field}.{key}", entry) for key, entry in value.items()}
    value = finite_number(field, value)
    if isinstance(value, (str, bool, int, float)) or value is None:
        return value
    raise ValueError(f"{field} = {shown(value)}: expected a number, a string or a list of them")
