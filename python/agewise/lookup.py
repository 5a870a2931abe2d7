"""Lookup of results by the name of a policy."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeVar

from agewise import _agewise


class OfPolicy(Protocol):
    """A result of one policy."""

    @property
    def policy(self) -> str:
        """The name of the policy with its options, in the standard spelling."""
        ...


Entry = TypeVar("Entry", bound=OfPolicy)


def by_name(entries: Iterable[Entry], policy: str) -> Entry:
    """The entry of a policy, in any spelling of its name; the KeyError lists all entries."""
    found = {entry.policy: entry for entry in entries}
    # The name of a variant of an experiment may also name an aggregation rule.
    name = policy if policy in found else _agewise.spelled(policy)
    if name not in found:
        raise KeyError(f"{name}: expected one of {', '.join(found)}")
    return found[name]
