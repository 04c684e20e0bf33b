"""What takes the space of the store: the queues and states with most jobs, and how to delete these jobs."""

from __future__ import annotations

from collections.abc import Collection
from heapq import nlargest
from typing import NamedTuple

from pinlater.dashboard.addresses import address
from pinlater.dashboard.count_cache import DISPLAY_STATES, CountCache, DisplayState
from pinlater.dashboard.figures import STATE_GAUGES, SUCCEEDED
from pinlater.dashboard.history import History

_MOST_QUEUES = 5
"""Queues that are counted: the five with most jobs that have not succeeded, and the five with most successes."""

_MOST_ROWS = 12
_FINISHED = {"failed", "succeeded"}
_OLD = "1d"


class SpaceRow(NamedTuple):
    """Jobs of one queue in one state.

    Attributes:
        queue: name of the queue.
        state: the state.
        jobs: their number; the server counts up to its ``COUNT_LIMIT``.
        path: page that lists them, oldest first, and can delete them.
        command: command that deletes those that finished more than a day ago; empty for states that are not final.
    """

    queue: str
    state: DisplayState
    jobs: int
    path: str
    command: str = ""

    @property
    def is_finished(self) -> bool:
        """Whether deleting them loses only their records."""
        return bool(self.command)


async def space_rows(queues: Collection[str], counts: CountCache, history: History) -> list[SpaceRow]:
    """Return the queues and states with most jobs, final states first.

    Raises:
        PinLaterError: the server does not answer.
    """
    counted = await counts.get(_candidates(queues, history))
    rows = [
        _row(queue, state, number)
        for queue, known in counted.items()
        for state in DISPLAY_STATES
        if (number := getattr(known, state.name))
    ]
    return sorted(rows, key=lambda row: (not row.is_finished, -row.jobs, row.queue))[:_MOST_ROWS]


def _candidates(queues: Collection[str], history: History) -> list[str]:
    ended = history.by_queue(SUCCEEDED)

    def stored(queue: str) -> float:
        return sum(history.level(gauge, queue) or 0.0 for gauge in STATE_GAUGES.values())

    deepest = nlargest(_MOST_QUEUES, queues, key=stored)
    return sorted({*deepest, *nlargest(_MOST_QUEUES, queues, key=lambda queue: ended.get(queue, 0))})


def _row(queue: str, state: DisplayState, jobs: int) -> SpaceRow:
    path = address("/jobs", {"queue": queue, "state": state.name, "order": "oldest"})
    if state.name not in _FINISHED:
        return SpaceRow(queue, state, jobs, path)
    command = f"pinlater delete-jobs {queue} --state {state.name} --older-than {_OLD}"
    return SpaceRow(queue, state, jobs, path, command)
