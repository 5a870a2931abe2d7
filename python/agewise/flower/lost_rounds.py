"""Rounds that a strategy around ours drops before ours hears of the replies.

Flower's wrappers for differential privacy drop a round if a single reply is an error. The strategy
is not told which client failed, and if all of them kept their turn, the same cohort would be asked
again, the failing client among them. Therefore its members are halved until one is left: half of
the suspects are not asked in the next round, a client whose reply arrives is no suspect any more,
and a single suspect in a dropped round has failed.
"""

from collections.abc import Collection, Iterable
from typing import Any


class LostRounds:
    """Who may have caused that rounds were dropped."""

    def __init__(self) -> None:
        self._suspects: set[Any] = set()
        self.held_back: set[Any] = set()
        """The suspects that are not to be asked in the next round, if there are others."""

    def delivered(self, clients: Iterable[Any]) -> None:
        """Notes the clients of a round that was not dropped whose replies arrived."""
        self._suspects.difference_update(clients)
        self.held_back = set()

    def dropped(self, members: Collection[Any], failed_before: Collection[Any]) -> list[Any]:
        """Notes the members of a round that was dropped; returns those that have failed.

        Members that have failed in the last round in which they were asked are those who fail.
        """
        guilty = sorted(set(members) & set(failed_before))
        if not guilty:
            suspects = sorted(self._suspects & set(members)) or sorted(members)
            self._suspects.update(suspects)
            if len(suspects) > 1:
                asked_again = suspects[: len(suspects) // 2]
                self.held_back = self._suspects - set(asked_again)
                return []
            guilty = suspects
        self._suspects.difference_update(guilty)
        self.held_back = set()
        return guilty
