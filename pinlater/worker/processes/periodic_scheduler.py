"""Enqueues the jobs of periodic classes: one of each, however many workers there are."""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Collection, Iterable

from pinlater.client.server_clock import ServerClock
from pinlater.errors import ConfigError, QueueNotFound, ServiceError, UnknownError
from pinlater.jobs.body_codec import encode_body
from pinlater.jobs.job import Job
from pinlater.jobs.keys import key_of_class
from pinlater.model.body_metadata import (
    PERIODIC_SPARE_ATTEMPTS,
    BodyMetadata,
    Recurrence,
    periodic_key,
    read_recurrence,
)
from pinlater.model.class_name import name_in
from pinlater.model.jobs import JobInfo
from pinlater.model.state import JobState
from pinlater.model.status import cancelled_status
from pinlater.protocol.conversion.jobs import new_job_struct
from pinlater.protocol.internal_calls import for_server_time
from pinlater.protocol.messages import PinLaterJob
from pinlater.protocol.operations import Calls
from pinlater.worker.session.pipeline import Pipeline

_REPEAT_SECONDS = 60.0
"""Interval; a job that somebody deleted, or that a worker of an older deployment ended, is back after this time."""

_STATES = (JobState.PENDING, JobState.IN_PROGRESS, JobState.PENDING)
"""Where a job is looked for; again at the end, since its run may have ended while the others were read."""

_SCANNED = 10
"""Jobs per scan: the wanted one, and any that happen to share a key of the same text."""

log = logging.getLogger(__name__)


class FirstPeriodicJobs:
    """The first jobs of periodic classes.

    Args:
        kinds: classes, periodic or not.
        queues: queues to serve; classes of others are left out.

    Raises:
        ConfigError: a class cannot be created without arguments; says why.
    """

    def __init__(self, kinds: Iterable[type[Job]], queues: Collection[str]) -> None:
        self._jobs = [
            _create(kind)
            for kind in kinds
            if kind.job_options.schedule is not None and kind.job_options.queue in queues
        ]

    def __bool__(self) -> bool:
        return bool(self._jobs)

    @property
    def queue(self) -> str:
        """One of the queues; there must be a class."""
        return self._jobs[0].job_options.queue

    def by_queue(self, now_ms: int) -> dict[str, list[PinLaterJob]]:
        """Return the jobs to enqueue by queue; the server ignores those that exist.

        Args:
            now_ms: epoch milliseconds; the first run is at the first tick after that.
        """
        found: defaultdict[str, list[PinLaterJob]] = defaultdict(list)
        for job in self._jobs:
            found[job.job_options.queue].append(_first_run(job, now_ms))
        return found


def _create(kind: type[Job]) -> Job:
    try:
        return kind()
    except Exception as error:
        raise ConfigError(f"periodic job {kind.__name__} cannot be created without arguments: {error}") from error


def _first_run(job: Job, now_ms: int) -> PinLaterJob:
    options = job.job_options
    assert options.schedule is not None  # FirstPeriodicJobs has no others
    text = options.schedule.text
    due_ms = options.schedule.next_ms(now_ms)
    body = encode_body(job, BodyMetadata(recurrence=Recurrence(due_ms, schedule=text)))
    unique, attempts = periodic_key(options.name, text), options.attempts + PERIODIC_SPARE_ATTEMPTS
    return new_job_struct(body, options.priority, due_ms, attempts, unique=unique, key=key_of_class(job))


class PeriodicScheduler:
    """Enqueues periodic jobs over a worker's connection, at the start and once a minute, as far as they are missing.

    A unique key alone does not keep a second job of a class out. It does so on the shard that the key selects, which
    may be another one once shards were added, or take no new jobs. The job stays where it is for good.

    Args:
        pipeline: sends the calls.
        calls: builds the calls.
        periodic_jobs: the jobs to enqueue.
        clock: the server's clock, which decides when the first run is.
    """

    def __init__(self, pipeline: Pipeline, calls: Calls, periodic_jobs: FirstPeriodicJobs, clock: ServerClock) -> None:
        self._pipeline = pipeline
        self._calls = calls
        self._periodic_jobs = periodic_jobs
        self._clock = clock
        self._due_at = 0.0 if periodic_jobs else float("inf")
        self._known: defaultdict[str, dict[str, str]] = defaultdict(dict)  # by queue: unique key -> descriptor
        self._others: defaultdict[str, dict[str, str]] = defaultdict(dict)  # jobs that have run beside those, likewise

    def enqueue_when_due(self) -> None:
        """Enqueue the jobs that are missing, unless that was done within the last minute.

        Raises:
            CallError: no reply came. A refusal is only logged, so that other jobs do not suffer from it.
        """
        if time.monotonic() < self._due_at:
            return
        if not self._clock.is_known:
            self._fetch_time()
        for queue, jobs in self._periodic_jobs.by_queue(int(self._clock.now() * 1000)).items():
            try:
                self._forget_ended(queue)
                self._end_others(queue)
                missing = [job for job in jobs if not self._is_there(queue, job.uniqueKey or "")]
                if missing:
                    self._pipeline.call(self._calls.enqueue_structs(queue, missing))
            except ServiceError as error:
                log.error("cannot enqueue the periodic jobs of queue %s: %s", queue, error)  # noqa: TRY400
        self._due_at = time.monotonic() + _REPEAT_SECONDS

    def _is_there(self, queue: str, unique: str) -> bool:
        """Return whether the queue has an unfinished job with a unique key, on whatever shard."""
        known = self._known[queue]
        if unique in known:
            return True
        try:
            for state in _STATES:
                page = self._pipeline.call(self._calls.scan(queue, state, limit=_SCANNED, key=unique))
                for info in page.jobs:  # of a server that does not know keys, these are any jobs
                    if info.unique == unique:
                        known[unique] = info.descriptor
                        return True
        except QueueNotFound:  # the enqueue creates it, or says so
            pass
        return False

    def _forget_ended(self, queue: str) -> None:
        """Forget the known jobs of a queue that have ended or are gone."""
        known = self._known[queue]
        found = self._look_up(list(known.values())) if known else {}
        for unique, descriptor in list(known.items()):
            if descriptor not in found or found[descriptor].unique != unique:
                del known[unique]

    def record_run(self, queue: str, descriptor: str, body: bytes) -> None:
        """Record that a job goes on to its next run; if it is a second one of its periodic class, it is ended soon.

        There are two if the first one was on a shard that was away when it was looked for, or if it was given up and
        retried by hand.
        """
        again = read_recurrence(body) if self._periodic_jobs else None
        if again is None or not again.schedule:
            return
        unique = periodic_key(name_in(body) or "", again.schedule)
        if self._known[queue].setdefault(unique, descriptor) != descriptor:
            self._others[queue][unique] = descriptor
            self._due_at = 0.0

    def _end_others(self, queue: str) -> None:
        """End the second jobs of periodic classes that have just run; others are recorded when they have run.

        All workers keep the same one of two: the one that has the unique key; if both have it, each on its shard, the
        younger one.
        """
        known = self._known[queue]
        for unique, descriptor in self._others.pop(queue, {}).items():
            found = self._look_up([descriptor, known[unique]]).values() if unique in known else ()
            unfinished = [(info.unique == unique, info.created_at_ms, info) for info in found if info.state in _STATES]
            if len(unfinished) == 2:
                (*_, second), (*_, stays) = sorted(unfinished)
                known[unique] = stays.descriptor
                if second.descriptor == descriptor and second.state is JobState.PENDING:
                    self._end(queue, descriptor, f"{stays.descriptor} is the periodic job of its class")

    def _end(self, queue: str, descriptor: str, reason: str) -> None:
        self._pipeline.call(self._calls.cancel_these(queue, [descriptor], status=cancelled_status(reason)))
        log.warning("%s was ended: %s", descriptor, reason)

    def _look_up(self, descriptors: list[str]) -> dict[str, JobInfo]:
        """Return the jobs that there are.

        A look-up asks only their shards, and fails if one does not answer, while a scan leaves such a shard out.
        """
        try:
            found: dict[str, JobInfo] = self._pipeline.call(self._calls.lookup(descriptors))
        except UnknownError:  # a shard was removed
            if len(descriptors) == 1:
                return {}
            return {name: info for one in descriptors for name, info in self._look_up([one]).items()}
        return found

    def _fetch_time(self) -> None:
        """Get the server's time from a dry-run dequeue."""
        sent = self._clock.sent()
        try:
            server_ms = self._pipeline.call(
                for_server_time(self._calls.dequeue_jobs(self._periodic_jobs.queue, 1, dry_run=True))
            )
        except ServiceError as error:
            log.warning("the server does not tell its time; using this machine's: %s", error)
        else:
            self._clock.update(server_ms, sent)

    def reset(self) -> None:
        """Enqueue the jobs again at the next opportunity: they were deleted with their queue."""
        if self._periodic_jobs:
            self._due_at = 0.0
