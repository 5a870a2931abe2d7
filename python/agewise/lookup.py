"""Results by the name of a policy."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeVar

from agewise import _agewise


class OfPolicy(Protocol):
    """What belongs to one policy."""

    @property
    def policy(self) -> str:
        """Its name with options, as agewise writes it."""
        ...


Entry = TypeVar("Entry", bound=OfPolicy)


def by_name(entries: Iterable[Entry], policy: str) -> Entry:
    """The entry of a policy, however its name is written; a KeyError lists those that there are."""
    found = {entry.policy: entry for entry in entries}
    # A variant of an experiment has more to its name than a policy.
    name = policy if policy in found else _agewise.spelled(policy)
    if name not in found:
        raise KeyError(f"{name}: expected one of {', '.join(found)}")
    return found[name]
