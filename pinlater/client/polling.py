"""How a handle waits for the end of its job: the server answers when it ends, or is polled at growing intervals."""

from __future__ import annotations

import logging
import time

from pinlater.client.waits import waits_text
from pinlater.errors import JobUnfinished
from pinlater.model.jobs import JobInfo
from pinlater.model.state import JobState
from pinlater.model.status import parse_status

log = logging.getLogger(__name__)

_FIRST_POLL_SECONDS = 0.02
_SLOWEST_POLL_SECONDS = 2.0

_PARKED_SECONDS = 20.0
"""How long one call may wait; then another is made, since proxies or firewalls may drop silent connections."""


def pick(found: dict[str, JobInfo], descriptor: str) -> JobInfo:
    """Return the job of a descriptor from the result of a lookup.

    Raises:
        LookupError: the job does not exist.
    """
    info = found.get(descriptor)
    if info is None:
        raise LookupError(f"the server has no job {descriptor}; finished jobs are deleted after a while")
    return info


class Patience:
    """How much longer a handle waits for the end of its job.

    A wait without a timeout is silent, and may have no end: after a while, a warning says why the job may not start.

    Args:
        timeout: seconds to wait; None: forever.

    Raises:
        TypeError: the timeout is not a number.
    """

    def __init__(self, timeout: float | None) -> None:
        self._started = time.monotonic()
        try:
            self._deadline = None if timeout is None else self._started + timeout
        except TypeError:
            raise TypeError(f"timeout={timeout!r} has to be a number of seconds") from None
        self._has_warned = False
        self._pause = _FIRST_POLL_SECONDS

    def parked_seconds(self) -> float:
        """Return how many seconds one call may wait at the server."""
        remaining = _PARKED_SECONDS if self._deadline is None else self._deadline - time.monotonic()
        return min(max(remaining, 0.0), _PARKED_SECONDS)

    def rest(self, info: JobInfo) -> float:
        """Return the seconds to sleep until the next poll, growing up to two, but not beyond the deadline, if any.

        Raises:
            JobUnfinished: the deadline has passed.
        """
        pause, self._pause = self._pause, min(self._pause * 1.5, _SLOWEST_POLL_SECONDS)
        if self._deadline is None:
            self._warn(info)
            return pause
        remaining = self._deadline - time.monotonic()
        if remaining <= 0:
            raise JobUnfinished(f"{info.descriptor} is still {info.state.name}{_why_unfinished(info)}")
        return min(pause, remaining)

    def _warn(self, info: JobInfo) -> None:
        if not self._has_warned and time.monotonic() - self._started >= _PARKED_SECONDS and _is_due(info):
            self._has_warned = True
            log.warning("%s is still %s%s", info.descriptor, info.state.name, _why_unfinished(info))


def _why_unfinished(info: JobInfo) -> str:
    """Return a hint why a job has not ended; empty if there is none."""
    hint = "; does a worker serve its queue (pinlater workers)?" if _is_due(info) else ""
    if info.waits_for_key:
        hint = "; it waits for other jobs of its key"
    if info.waits_for:
        hint = f"; it waits for {waits_text(info.waits_for)}"
    if failed := parse_status(info.status)[1]:
        hint += f"; its last failed attempt: {failed[-1].error}"
    return hint


def _is_due(info: JobInfo) -> bool:
    return info.state is JobState.PENDING and (info.run_after_ms or 0) <= time.time() * 1000
