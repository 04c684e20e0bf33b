"""Batches of jobs to enqueue: one for each queue, of a size that fits into a call."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from operator import attrgetter
from time import time
from typing import NamedTuple, Protocol, TypeVar

from pinlater.client.jobs import JobEncoder, encoder
from pinlater.jobs.batch_size import check_batch_size
from pinlater.jobs.enqueue_options import EnqueueManyOptions
from pinlater.jobs.job import Job
from pinlater.protocol.messages import PinLaterJob

MAX_BATCH_BYTES = 4 << 20
_MAX_PENDING_BYTES = 16 << 20


class QueueBatch(NamedTuple):
    """Jobs of one queue that one call enqueues."""

    queue: str
    jobs: list[PinLaterJob]


class _WithBody(Protocol):
    @property
    def body(self) -> bytes | None:
        """Body of a job."""


_J = TypeVar("_J", bound=_WithBody)


def encoder_of_many(
    options: EnqueueManyOptions, trace: Mapping[str, str] | None = None, now: Callable[[], float] = time
) -> JobEncoder:
    """Return an encoder for the options of an enqueue of many jobs, which cannot share a unique key.

    Raises:
        Exception: as in ``encoder``.
    """
    unique = options.get("unique")
    if unique is not None and not callable(unique):
        raise TypeError(
            f"unique={unique!r:.80} would store one of the jobs only; give a function that returns the key of a job, "
            'such as lambda job: f"bill {job.number}"'
        )
    return encoder(options, trace, now)


def split_by_bytes(
    jobs: Iterable[_J], most_bytes: int = MAX_BATCH_BYTES, most_jobs: float = math.inf
) -> Iterator[list[_J]]:
    """Yield jobs in order, in lists that fit into a call; a job that is larger gets a list to itself.

    Args:
        jobs: jobs, or anything else with a body.
        most_bytes: maximum size of the bodies in a list; a call takes 16 MB.
        most_jobs: maximum number of jobs in a list.
    """
    some: list[_J] = []
    size = 0
    for job in jobs:
        more = len(job.body or b"")
        if some and (len(some) >= most_jobs or size + more > most_bytes):
            yield some
            some, size = [], 0
        some.append(job)
        size += more
    if some:
        yield some


class _Group:
    """The jobs gathered for one queue."""

    __slots__ = ("jobs", "queue", "size")

    def __init__(self, queue: str) -> None:
        self.queue = queue
        self.jobs: list[PinLaterJob] = []
        self.size = 0


class Batcher:
    """Gathers jobs by queue until a batch is full; memory use stays constant, however many jobs come.

    Args:
        encoder: makes the structs.
        batch_size: maximum number of jobs in a batch; a batch also has at most 4 MiB, unless one job is larger.
    """

    def __init__(self, encoder: JobEncoder, batch_size: int) -> None:
        check_batch_size(batch_size)
        self._encoder = encoder
        self._batch_size = batch_size
        self._groups: dict[str, _Group] = {}
        self._group_of: dict[type[Job], _Group] = {}
        self._pending_bytes = 0

    def add(self, job: Job) -> list[QueueBatch]:
        """Add a job; return the batches that are now complete, usually none."""
        struct = self._encoder.struct(job)
        group = self._group_of.get(type(job))
        if group is None:
            queue = self._encoder.target_queue(job)
            group = self._group_of[type(job)] = self._groups.setdefault(queue, _Group(queue))
        size = len(struct.body)  # type: ignore[arg-type] # always set
        full = [self._cut(group)] if group.jobs and group.size + size > MAX_BATCH_BYTES else []
        group.jobs.append(struct)
        group.size += size
        self._pending_bytes += size
        if len(group.jobs) >= self._batch_size:
            full.append(self._cut(group))
        elif self._pending_bytes > _MAX_PENDING_BYTES:  # the largest may belong to a queue that gets no more jobs
            full.append(self._cut(max(self._groups.values(), key=attrgetter("size"))))
        return full

    @property
    def queues(self) -> Collection[str]:
        """The queues of all jobs so far."""
        return self._groups.keys()

    def rest(self) -> list[QueueBatch]:
        """Return the remaining batches, when no more jobs come."""
        return [self._cut(group) for group in self._groups.values() if group.jobs]

    def _cut(self, group: _Group) -> QueueBatch:
        batch = QueueBatch(group.queue, group.jobs)
        self._pending_bytes -= group.size
        group.jobs, group.size = [], 0
        return batch
