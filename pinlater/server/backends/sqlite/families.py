"""Runs of children that this process has stored, so that it need not look up the parent of each when it ends."""

from __future__ import annotations

from bisect import bisect_right
from operator import attrgetter
from typing import NamedTuple

_MOST_FAMILIES = 10_000
"""How many are remembered at least, the newest ones; the parents of other children are read from their rows."""

_first_id = attrgetter("first_id")


class Family(NamedTuple):
    """Jobs with consecutive ids that are children of one parent, with one message name and consecutive positions.

    Attributes:
        first_id: id of the first job.
        end_id: id after that of the last one.
        parent_id: id of the parent; None if no family of these jobs is known.
        name: name of the messages to the parent.
        shift: what to add to the id of a child to get its position.
    """

    first_id: int
    end_id: int
    parent_id: int | None = None
    name: str = ""
    shift: int = 0


_BEFORE_ALL, _AFTER_ALL = Family(-(2**63), -(2**63)), Family(2**63, 2**63)


class Families:
    """The newest families.

    Those of a transaction that is undone may stay: no other job gets the ids of their children.
    """

    def __init__(self) -> None:
        self._families = [_BEFORE_ALL, _AFTER_ALL]

    def add(self, family: Family) -> None:
        """Remember a family; its ids are larger than those of all before."""
        if len(self._families) >= 2 * _MOST_FAMILIES:
            del self._families[1:_MOST_FAMILIES]
        self._families.insert(-1, family)

    def find(self, local_id: int) -> Family:
        """Return the family of a job, or the jobs around it of which none is known."""
        at = bisect_right(self._families, local_id, key=_first_id)
        before, after = self._families[at - 1 : at + 1]
        return before if local_id < before.end_id else Family(before.end_id, after.first_id)
