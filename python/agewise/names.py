"""Names of clients: any hashable objects, which the compiled part knows by their numbers."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from agewise.checks import shown


class Names:
    """The names of clients in the order of their numbers."""

    def __init__(self, names: Iterable[Hashable]) -> None:
        self._names: list[Any] = []
        self._numbers: dict[Any, int] = {}
        given = _plain(names)
        self.check_new(given)
        self.add(given)

    @classmethod
    def of(cls, clients: Any) -> Self | None:
        """The names among the clients that were given; None if they are only counted."""
        if isinstance(clients, (str, bytes)):
            expected = "a number of clients, or a list of their names"
            raise ValueError(f"clients = {shown(clients)}: expected {expected}")
        return cls(clients) if isinstance(clients, Iterable) else None

    def check_new(self, names: list[Any]) -> None:
        """Refuses names that are no names, or that are there already."""
        seen: set[Any] = set()
        for name in names:
            try:
                twice = name in self._numbers or name in seen
                seen.add(name)
            except TypeError:
                expected = "names that can be hashed: texts, numbers, tuples"
                raise ValueError(f"clients = {shown(name)}: expected {expected}") from None
            if twice:
                raise ValueError(f"clients = {shown(name)}: expected each name once")

    def add(self, names: Iterable[Any]) -> None:
        """Gives the next numbers to names that were checked."""
        for name in names:
            self._numbers[name] = len(self._names)
            self._names.append(name)

    def all(self) -> list[Any]:
        """The names."""
        return list(self._names)

    def copy(self) -> Names:
        """Names to which others can be added."""
        return Names(self._names)

    def name(self, number: int) -> Any:
        """The name of a number."""
        return self._names[number]

    def number(self, field: str, name: Any) -> int:
        """The number of a name."""
        try:
            return self._numbers[name]
        except (KeyError, TypeError):
            known = ", ".join(map(repr, self._names[:3])) + (", ..." if len(self) > 3 else "")
            expected = f"one of the {len(self)} clients {known}"
            raise ValueError(f"{field} = {shown(name)}: expected {expected}") from None

    def array(self, numbers: NDArray[np.uint32]) -> NDArray[Any]:
        """The names of numbers: an array of int64 if all of them are such, else of objects."""
        found = [self._names[number] for number in numbers]
        if found and all(type(name) is int and abs(name) < 1 << 63 for name in found):
            return np.array(found, dtype=np.int64)
        array = np.empty(len(found), dtype=object)
        for place, name in enumerate(found):
            array[place] = name
        return array

    def numbers(self, field: str, names: Any) -> NDArray[np.uint32]:
        """The numbers of names, in their order."""
        if isinstance(names, (str, bytes)) or not isinstance(names, Iterable):
            raise ValueError(f"{field} = {shown(names)}: expected a list of names of clients")
        found = [self.number(field, name) for name in _plain(names)]
        return np.array(found, dtype=np.uint32)

    def __len__(self) -> int:
        return len(self._names)


def _plain(names: Iterable[Any]) -> list[Any]:
    """Names as Python has them: a number of NumPy is the number."""
    return [name.item() if isinstance(name, np.generic) else name for name in names]
