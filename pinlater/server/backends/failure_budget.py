"""How many failure groups and jobs of them a store keeps and counts; the same for all stores."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from pinlater.model.failure_groups import CLAIM_EXPIRED, OTHER_ERRORS, FailureGroup, JobFailure

MOST_GROUPS = 200
"""Most groups of one queue; failures that belong to none of them count as other errors."""

ALWAYS_KEPT = frozenset({CLAIM_EXPIRED.group, OTHER_ERRORS.group})
"""Groups that are kept in addition to these."""

NOTED_EVERY_MS = 1000
"""The time of a group's last failure is written at most this often, however many jobs fail."""

MOST_READ = 2000
"""Most groups that one call of a store that keeps rows reads: those with the latest failures."""

MOST_COUNTED = 10_000
"""Most jobs of a group that are counted, of the FAILED and of the PENDING ones each."""

_COUNTED_IN_ALL = 1_000_000
_COUNTED_BEYOND = 500

FIRST_LOOK_MS = 3_600_000
"""Time until a group is first checked for being empty, and between two such checks."""

MOST_CHECKED = 50
"""How many of a checked group's first PENDING and FAILED entries are compared with the jobs themselves: servers of
version 0.1 do not know about groups, and leave jobs in them."""

KEPT_EMPTY_MS = 7 * 86_400_000
"""An empty group is deleted this long after its last failure; earlier if its queue has many."""

MANY_GROUPS = MOST_GROUPS // 2


def is_forgotten(idle_ms: int, kept: int) -> bool:
    """Return whether to delete an empty group.

    Args:
        idle_ms: how long ago its last failure was.
        kept: how many groups of its queue are kept.
    """
    return idle_ms >= (KEPT_EMPTY_MS if kept < MANY_GROUPS else FIRST_LOOK_MS)


def next_look_ms(now_ms: int) -> int:
    """Return when to check a group next that has just begun, or was just checked and kept."""
    return now_ms + FIRST_LOOK_MS


def begun(failures: Iterable[JobFailure], known: Collection[int], kept: int) -> list[JobFailure]:
    """Return the groups to keep from now on, as far as there is room for them.

    Args:
        failures: failures in one queue.
        known: ids of their groups that are already kept, and the id of ``OTHER_ERRORS`` if it is.
        kept: how many groups of the queue are kept.
    """
    free = max(MOST_GROUPS - kept, 0)
    new: dict[int, JobFailure] = {}
    for failure in failures:
        if failure.group in known or failure.group in new:
            continue
        if failure.group in ALWAYS_KEPT:
            new[failure.group] = failure
        elif free:
            new[failure.group] = failure
            free -= 1
        elif OTHER_ERRORS.group not in known:
            new[OTHER_ERRORS.group] = OTHER_ERRORS
    return list(new.values())


def kept_group(failure: JobFailure | None, kept: Collection[int]) -> int | None:
    """Return the group to store a job in, given the groups that are kept; None: it has not failed."""
    if failure is None:
        return None
    return failure.group if failure.group in kept else OTHER_ERRORS.group


class CountBudget:
    """Bounds what counting many large groups costs."""

    def __init__(self) -> None:
        self._left = _COUNTED_IN_ALL

    @property
    def cap(self) -> int:
        """Up to how many the jobs of the next group are counted."""
        return MOST_COUNTED if self._left > 0 else _COUNTED_BEYOND

    def spend(self, counted: int) -> None:
        """Record how many were counted."""
        self._left -= counted


def largest(groups: Iterable[FailureGroup], limit: int) -> list[FailureGroup]:
    """Return the groups with the most jobs, in a fixed order; empty ones are left out."""
    found = [group for group in groups if group.jobs]
    found.sort(key=lambda group: (-group.jobs, -group.last_ms, group.queue, group.id))
    return found[:limit]
