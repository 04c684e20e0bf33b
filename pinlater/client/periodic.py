"""Listing of periodic jobs, with next run, last run and failures."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Iterator
from typing import Any, NamedTuple

from pinlater.client.fair_scan import Part, fair_scan
from pinlater.errors import ProtocolError
from pinlater.model.body_metadata import PERIODIC_KEY_PATTERN, LastRun, read_recurrence
from pinlater.model.jobs import JobInfo
from pinlater.model.schedule_words import schedule_in_words
from pinlater.model.state import JobState
from pinlater.model.status import FailedAttempt
from pinlater.protocol.operations import Call, Calls

MOST_SCANNED = 5000
"""How many pending and running jobs are searched for periodic ones."""

PAUSED_UNTIL_MS = 253_370_764_800_000
"""A periodic job that is due at this time, in the year 9999, is paused. The tick to continue with is in its body."""

_LOOKUP = 100
_PERIODIC_KEY = re.compile(PERIODIC_KEY_PATTERN)


class PeriodicJob(NamedTuple):
    """A periodic job.

    Attributes:
        queue: its queue.
        name: name of its class.
        schedule: text of the schedule, such as ``cron 0 3 * * * Europe/Berlin``.
        due_ms: scheduled time of the current or next run, epoch milliseconds.
        runs: number of ended runs.
        failures: number of consecutive runs that failed with all their attempts.
        info: the job as stored.
        last_run: how the last run went; None before the first, and if the worker that ran it did not record it.
    """

    queue: str
    name: str
    schedule: str
    due_ms: int
    runs: int
    failures: int
    info: JobInfo
    last_run: LastRun | None = None

    @property
    def in_words(self) -> str:
        """The schedule in words, such as ``every 5 minutes``; unchanged if there are no simple words for it."""
        return schedule_in_words(self.schedule)

    @property
    def is_paused(self) -> bool:
        """Whether it does not run until it is resumed."""
        return self.info.state is JobState.PENDING and self.info.run_after_ms == PAUSED_UNTIL_MS

    @property
    def is_running(self) -> bool:
        """Whether it runs now."""
        return self.info.state is JobState.IN_PROGRESS

    @property
    def is_retrying(self) -> bool:
        """Whether the current run has failed, and is to be tried again."""
        is_tried = self.info.attempts_remaining < self.info.attempts_allowed
        return is_tried and self.info.state is JobState.PENDING and not self.is_paused

    def late_ms(self, now_ms: int) -> int:
        """Return for how many milliseconds it has been due but not running; 0 if it is not due, or is running.

        Args:
            now_ms: the time, in epoch milliseconds.
        """
        if self.info.state is not JobState.PENDING:
            return 0
        return max(now_ms - (self.info.run_after_ms or self.due_ms), 0)

    @property
    def last_failure(self) -> FailedAttempt | None:
        """The last failed attempt, even if a later one has succeeded; None if none is known."""
        return next(reversed(self.info.failed_attempts), None)


class PeriodicJobs(NamedTuple):
    """Periodic jobs of some queues.

    Attributes:
        jobs: failing ones first, then by queue and name.
        left_out: queues with so many jobs that periodic ones may have been missed.
    """

    jobs: list[PeriodicJob]
    left_out: set[str]


def find_periodic(calls: Calls, queues: Iterable[str]) -> Generator[Call[Any], Any, PeriodicJobs]:
    """Yield the calls that find the periodic jobs of some queues, receive their results, and return the jobs."""
    names = list(queues)
    try:
        due = yield calls.oldest_due(names if len(names) == 1 else ())
    except ProtocolError:  # of an older version
        due = dict.fromkeys(names, 0)
    parts = [part for queue in names for part in _parts(queue, has_due=queue in due)]
    scan = yield from fair_scan(calls, parts, MOST_SCANNED)
    # A job that was claimed or rescheduled in the meantime may have been seen twice.
    queue_by_job = {info.descriptor: queue for queue, jobs in scan.jobs.items() for info in jobs if _is_periodic(info)}
    found: list[PeriodicJob] = []
    descriptors = list(queue_by_job)
    for start in range(0, len(descriptors), _LOOKUP):
        looked_up = yield calls.lookup(descriptors[start : start + _LOOKUP], include_body=True)
        found += [
            job for name, info in looked_up.items() if (job := periodic_job(queue_by_job[name], info)) is not None
        ]
    found.sort(key=lambda job: (not job.failures, job.queue, job.name))
    return PeriodicJobs(found, scan.left_out)


def _parts(queue: str, *, has_due: bool) -> Iterator[Part]:
    """Yield the parts of a queue that may have periodic jobs.

    Among jobs that are not due yet, those due first include jobs that run soon, and those due last include paused jobs.
    """
    yield Part(queue, JobState.PENDING, is_future=True, oldest_first=True)
    yield Part(queue, JobState.PENDING, is_future=True)
    yield Part(queue, JobState.IN_PROGRESS)
    if has_due:
        yield Part(queue, JobState.PENDING)


def _is_periodic(info: JobInfo) -> bool:
    return info.unique is not None and _PERIODIC_KEY.match(info.unique) is not None


def periodic_job(queue: str, info: JobInfo) -> PeriodicJob | None:
    """Return a job, looked up with its body, as a periodic job; None if it is not one."""
    recurrence = read_recurrence(info.body or b"")
    if recurrence is None or not recurrence.schedule or info.unique is None:
        return None
    name = info.unique.partition(" ")[0]
    facts = (recurrence.schedule, recurrence.due_ms, recurrence.run, recurrence.failures)
    return PeriodicJob(queue, name, *facts, info, recurrence.last)
