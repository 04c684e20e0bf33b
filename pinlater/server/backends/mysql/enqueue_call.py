"""The jobs of one call, ready to be stored: new jobs, or jobs imported from another store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from pinlater.model.descriptor import JobDescriptor
from pinlater.model.failure_groups import JobFailure, failure_in
from pinlater.model.jobs import JobRecord, NewJob
from pinlater.protocol.messages import PENDING, SUCCEEDED
from pinlater.server.backends.imported_jobs import as_imported
from pinlater.server.backends.mysql.children import parent_columns
from pinlater.server.backends.mysql.keys import key_columns
from pinlater.server.backends.mysql.queries import blob, text
from pinlater.server.backends.records import Once
from pinlater.server.backends.search import Queue

_KEY, _PARENT = attrgetter("key"), attrgetter("parent")

_JOB_BYTES = 100
"""Size of a row without its body."""

RowWriter = Callable[[Any, int, bytes, int], bytes]
"""Returns the row of a job, given the job, its id, the SQL expression for its queue's id, and the time."""


@dataclass(slots=True)
class MysqlEnqueueCall:
    """The jobs of one call, all for one queue; all are stored, or none.

    Attributes:
        queue: the queue of the jobs.
        jobs: new jobs, or records from another store.
        priorities: priority of each job.
        keys: unique key of each job; None: no job has one.
        write_row: returns the row of a job.
        once: idempotency key of the call.
        first_id: the job at index n has the id ``first_id + n`` in every attempt; 0: no ids are allocated yet.
        weight: bytes that the call adds to a transaction.
        has_keys: whether any job has a key that it shares with others.
        has_parents: whether any job has a parent.
        parents: descriptors of the parents.
        is_linked: whether any job has a shared key, a result, a run time or a cancellation mark.
        failures: for imported jobs, how the last attempt of each failed; None: it did not.
    """

    queue: Queue
    jobs: Sequence[Any]
    priorities: Sequence[int]
    keys: Sequence[str | None] | None
    write_row: RowWriter
    once: Once
    first_id: int = 0
    weight: int = field(init=False)
    has_keys: bool = field(init=False)
    has_parents: bool = field(init=False)
    parents: set[str] = field(init=False)
    is_linked: bool = False
    failures: Sequence[JobFailure | None] = ()

    def __post_init__(self) -> None:
        self.has_keys = any(map(_KEY, self.jobs))
        self.has_parents = any(map(_PARENT, self.jobs))
        told = filter(None, map(_PARENT, self.jobs)) if self.has_parents else ()
        self.parents = {parent.descriptor for parent in told}
        self.is_linked |= self.has_keys
        self.weight = sum(len(job.body or b"") for job in self.jobs) + _JOB_BYTES * len(self.jobs)

    @property
    def has_imported_rates(self) -> bool:
        """Whether any job is imported with a rate for its key."""
        return self.has_keys and any(isinstance(job, JobRecord) and job.key and job.key.rate for job in self.jobs)

    def descriptor(self, index: int) -> str:
        """Return the descriptor of the job at an index."""
        return f"{self.queue.prefixes[self.priorities[index] - 1]}{self.first_id + index}"


def enqueue(queue: Queue, jobs: Sequence[NewJob], once: Once) -> MysqlEnqueueCall:
    """Return the call that stores new jobs: none -> PENDING."""
    keys = [job.unique for job in jobs]
    return MysqlEnqueueCall(queue, jobs, [job.priority for job in jobs], keys if any(keys) else None, _new_row, once)


def import_(queue: Queue, jobs: Sequence[JobRecord], once: Once) -> MysqlEnqueueCall:
    """Return the call that imports jobs with their history, without parents; claimed jobs become PENDING."""
    records = [as_imported(job)._replace(parent=None) for job in jobs]
    keys = [job.unique for job in records]
    return MysqlEnqueueCall(
        queue,
        records,
        [JobDescriptor.parse(job.descriptor).priority for job in records],
        keys if any(keys) else None,
        _imported_row,
        once,
        is_linked=any(job.result is not None or job.is_cancelled or job.run_ms is not None for job in jobs),
        failures=[failure_in(job) for job in jobs],
    )


def _new_row(job: NewJob, local_id: int, queue_id: bytes, now: int) -> bytes:
    body, priority, run_after, attempts, status, key, *_ = job
    at = now if run_after is None else run_after
    numbers = (local_id, queue_id, priority, at, now, now, attempts, attempts, len(body))
    texts = (b"NULL" if key is None else blob(key.encode()), text(status) if status else b"''", blob(body))
    return b"(%d,%b,0,%d,%d,NULL,%d,%d,%d,%d,%d,%b,%b,%b)" % (*numbers, *texts)


def _imported_row(job: JobRecord, local_id: int, queue_id: bytes, _: int) -> bytes:
    body, key = job.body or b"", job.unique
    priority = JobDescriptor.parse(job.descriptor).priority
    moment = b"NULL" if job.state == PENDING else b"%d" % job.updated_at_ms
    times = (job.created_at_ms, job.updated_at_ms)
    attempts = (job.attempts_allowed, job.attempts_remaining, len(body))
    texts = (b"NULL" if key is None else blob(key.encode()), text(job.status), blob(body))
    head = (local_id, queue_id, job.state, priority, job.run_after_ms, moment)
    return b"(%d,%b,%d,%d,%d,%b,%d,%d,%d,%d,%d,%b,%b,%b)" % (*head, *times, *attempts, *texts)


def linked_columns(job: NewJob | JobRecord, shard: str) -> bytes:
    """Return the values that ``insert_linked_jobs`` needs beyond the row of a job on a shard, as SQL."""
    return b"%b,%b,%b" % (key_columns(job.key), _end_columns(job), parent_columns(job.parent, shard))


def _end_columns(job: NewJob | JobRecord) -> bytes:
    """Return the result, cancellation mark and run time of an imported job, as SQL; those of a new job are empty."""
    if isinstance(job, NewJob):
        return b"NULL,0,NULL"
    run_ms = b"NULL" if job.run_ms is None or job.state != SUCCEEDED else b"%d" % job.run_ms
    return b"%b,%d,%b" % (b"NULL" if job.result is None else blob(job.result), job.is_cancelled, run_ms)
