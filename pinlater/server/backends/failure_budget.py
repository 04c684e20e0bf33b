"""How much of failures a store keeps and counts, whichever it is."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from pinlater.model.failure_groups import CLAIM_EXPIRED, OTHER_ERRORS, FailureGroup, JobFailure

MOST_GROUPS = 200
"""Groups of one queue; a further failure counts as one of the other errors."""

ALWAYS_KEPT = frozenset({CLAIM_EXPIRED.group, OTHER_ERRORS.group})
"""Groups that are kept beside these."""

NOTED_EVERY_MS = 1000
"""How exactly it is known when a group failed last: it is written so often, however many jobs fail."""

MOST_READ = 2000
"""Groups that one call reads: those that failed last."""

MOST_COUNTED = 10_000
"""Jobs of a group that are counted, of those that are FAILED and of those that are PENDING."""

_COUNTED_IN_ALL = 1_000_000
_COUNTED_BEYOND = 500

FIRST_LOOK_MS = 3_600_000
"""A group is looked at for the first time after so long, to see whether it is empty, and then again and again."""

MOST_CHECKED = 50
"""Of a group that is looked at, so many PENDING and FAILED jobs are compared with what the store has of them, the first
ones: servers of version 0.1 do not know of groups, and leave jobs in them."""

KEPT_EMPTY_MS = 7 * 86_400_000
"""An empty group is forgotten so long after its last failure; earlier, if its queue has many."""

MANY_GROUPS = MOST_GROUPS // 2


def is_forgotten(idle_ms: int, kept: int) -> bool:
    """Tell whether an empty group is forgotten.

    Args:
        idle_ms: how long ago its last failure was.
        kept: how many groups of its queue are kept.
    """
    return idle_ms >= (KEPT_EMPTY_MS if kept < MANY_GROUPS else FIRST_LOOK_MS)


def next_look_ms(now_ms: int) -> int:
    """Return when a group that has just begun, or was just looked at and is not forgotten, is looked at next."""
    return now_ms + FIRST_LOOK_MS


def begun(failures: Iterable[JobFailure], known: Collection[int], kept: int) -> list[JobFailure]:
    """Return the groups to keep from now on, as far as there is room for them.

    Args:
        failures: that have happened in one queue.
        known: ids of those of their groups that are kept already, and that of the other errors if it is.
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
    """Return the group that a job is stored in, given those that are kept; None: it has not failed."""
    if failure is None:
        return None
    return failure.group if failure.group in kept else OTHER_ERRORS.group


class CountBudget:
    """Bounds what counting many large groups costs."""

    def __init__(self) -> None:
        self._left = _COUNTED_IN_ALL

    @property
    def cap(self) -> int:
        """To how many the next jobs are counted."""
        return MOST_COUNTED if self._left > 0 else _COUNTED_BEYOND

    def spend(self, counted: int) -> None:
        """Record how many were counted."""
        self._left -= counted


def largest(groups: Iterable[FailureGroup], limit: int) -> list[FailureGroup]:
    """Return the groups with the most jobs, in a fixed order; empty ones are left out."""
    found = [group for group in groups if group.jobs]
    found.sort(key=lambda group: (-group.jobs, -group.last_ms, group.queue, group.id))
    return found[:limit]
