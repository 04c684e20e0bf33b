"""Periodic jobs: what they are, when they run next, and whether their last run has failed."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable
from typing import Any, NamedTuple

from pinlater.client.fair_scan import Part, fair_scan
from pinlater.model.body_metadata import PERIODIC_KEY_PATTERN, read_recurrence
from pinlater.model.jobs import JobInfo
from pinlater.model.state import JobState
from pinlater.model.status import FailedAttempt
from pinlater.protocol.operations import Call, Calls

MOST_SCANNED = 5000
"""Waiting and running jobs that are looked at for periodic ones."""

_LOOKUP = 100
_PLANTED = re.compile(PERIODIC_KEY_PATTERN)


class PeriodicJob(NamedTuple):
    """A periodic job.

    Attributes:
        queue: where it is.
        name: of its class.
        schedule: its text, such as ``cron 0 3 * * * Europe/Berlin``.
        due_ms: what its present or next run is planned for, epoch milliseconds.
        runs: how many runs have ended.
        failures: how many of the last of these have failed with all their attempts, one after the other.
        info: the job as the server knows it.
    """

    queue: str
    name: str
    schedule: str
    due_ms: int
    runs: int
    failures: int
    info: JobInfo

    @property
    def last_failure(self) -> FailedAttempt | None:
        """The attempt that failed last, also if a later one has succeeded; None if none is known."""
        return next(reversed(self.info.failed_attempts), None)


class PeriodicJobs(NamedTuple):
    """What was found.

    Attributes:
        jobs: those that fail first, then by queue and name.
        left_out: queues with so many jobs that periodic ones among them may have been missed.
    """

    jobs: list[PeriodicJob]
    left_out: set[str]


def find_periodic(calls: Calls, queues: Iterable[str]) -> Generator[Call[Any], Any, PeriodicJobs]:
    """Yield the calls that find the periodic jobs of some queues, and take their answers; return what was found."""
    parts = [
        Part(queue, state, is_future)
        for queue in queues
        for state, is_future in ((JobState.PENDING, True), (JobState.PENDING, False), (JobState.IN_PROGRESS, False))
    ]
    scan = yield from fair_scan(calls, parts, MOST_SCANNED)
    # A job that was claimed or rescheduled meanwhile may have been seen twice.
    planted = {info.descriptor: queue for queue, jobs in scan.jobs.items() for info in jobs if _is_planted(info)}
    found: list[PeriodicJob] = []
    descriptors = list(planted)
    for start in range(0, len(descriptors), _LOOKUP):
        looked_up = yield calls.lookup(descriptors[start : start + _LOOKUP], include_body=True)
        found += [job for name, info in looked_up.items() if (job := _periodic(planted[name], info)) is not None]
    found.sort(key=lambda job: (not job.failures, job.queue, job.name))
    return PeriodicJobs(found, scan.left_out)


def _is_planted(info: JobInfo) -> bool:
    return info.unique is not None and _PLANTED.match(info.unique) is not None


def _periodic(queue: str, info: JobInfo) -> PeriodicJob | None:
    again = read_recurrence(info.body or b"")
    if again is None or not again.schedule or info.unique is None:
        return None
    name = info.unique.partition(" ")[0]
    return PeriodicJob(queue, name, again.schedule, again.due_ms, again.run, again.failures, info)
