"""How a handle waits for the end of its job: the server answers when it ends, or is polled at growing intervals."""

from __future__ import annotations

import time
from collections.abc import Iterator

from pinlater.client.waits import waits_text
from pinlater.errors import JobUnfinished
from pinlater.model.descriptor import JobDescriptor
from pinlater.model.jobs import JobInfo
from pinlater.model.state import JobState
from pinlater.model.status import parse_status

_FIRST_POLL_SECONDS = 0.02
_SLOWEST_POLL_SECONDS = 2.0

_PARKED_SECONDS = 20.0
"""How long one call may wait; then another is made, since proxies or firewalls may drop silent connections."""


def queue_in(descriptor: str) -> str:
    """Return the queue that a descriptor names."""
    return JobDescriptor.parse(descriptor).queue


def pick(found: dict[str, JobInfo], descriptor: str) -> JobInfo:
    """Return the job of a descriptor from the result of a lookup.

    Raises:
        LookupError: the job does not exist.
    """
    info = found.get(descriptor)
    if info is None:
        raise LookupError(f"the server has no job {descriptor}; finished jobs are deleted after a while")
    return info


def pauses() -> Iterator[float]:
    """Yield the seconds to wait between two polls, growing up to two."""
    pause = _FIRST_POLL_SECONDS
    while True:
        yield pause
        pause = min(pause * 1.5, _SLOWEST_POLL_SECONDS)


def parked_seconds(deadline: float | None) -> float:
    """Return how many seconds one call may wait at the server."""
    return _PARKED_SECONDS if deadline is None else min(max(deadline - time.monotonic(), 0.0), _PARKED_SECONDS)


def bounded(pause: float, deadline: float | None, info: JobInfo) -> float:
    """Return the seconds to sleep: ``pause``, but not beyond the deadline, if there is one.

    Raises:
        JobUnfinished: the deadline has passed.
    """
    if deadline is None:
        return pause
    remaining = deadline - time.monotonic()
    if remaining <= 0:
        is_due = info.state is JobState.PENDING and (info.run_after_ms or 0) <= time.time() * 1000
        hint = "; does a worker serve its queue (pinlater workers)?" if is_due else ""
        if info.waits_for_key:
            hint = "; it waits for other jobs of its key"
        if info.waits_for:
            hint = f"; it waits for {waits_text(info.waits_for)}"
        if failed := parse_status(info.status)[1]:
            hint += f"; its last failed attempt: {failed[-1].error}"
        raise JobUnfinished(f"{info.descriptor} is still {info.state.name}{hint}")
    return min(pause, remaining)
