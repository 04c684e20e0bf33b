"""Batches: the job that waits for the others, and the calls that enqueue the others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from pinlater.client.batches import QueueBatch, split_by_bytes
from pinlater.client.jobs import JobEncoder, target_queue
from pinlater.jobs.batch import MESSAGE_NAME, Batch, NextJob
from pinlater.jobs.body_codec import encode_body
from pinlater.jobs.job import Job, RawJob
from pinlater.jobs.keys import key_of_class
from pinlater.model.messages import Parent
from pinlater.protocol.messages import PinLaterJob


def batch_job(size: int, then: Job | None, on_failure: Job | None) -> Batch:
    """Return the job that waits for the jobs of a batch.

    Raises:
        TypeError: ``then`` or ``on_failure`` is not a job.
        BodyInvalid: a field of one of them cannot be written as JSON.
    """
    return Batch(size=size, then=_next_job(then), on_failure=_next_job(on_failure))


def _next_job(job: Job | None) -> NextJob | None:
    if job is None:
        return None
    queue, options, key = target_queue(job, None), job.job_options, key_of_class(job)
    text, limit, is_ordered, rate = (None, None, False, None) if key is None else key
    return NextJob(
        queue,
        encode_body(job),
        options.priority,
        options.attempts,
        text,
        None if is_ordered else limit,
        is_ordered or None,
        rate,
    )


def queue_of_batch(queue: str | None, following: Iterable[Job | None], jobs: Sequence[Job]) -> str:
    """Return the queue of the job that waits for the others; raw jobs do not count: their workers may read no other.

    Raises:
        TypeError: the first of the jobs is not a job.
        ValueError: there is no such queue.
    """
    if queue is not None:
        return queue
    given = [job for job in chain(following, jobs) if job is not None]
    for job in given:
        if not isinstance(job, RawJob):
            return target_queue(job, None)
    if not given:
        raise ValueError("a batch without jobs, and with neither then nor on_failure, would do nothing")
    raise ValueError("a batch of raw jobs needs a queue whose workers have job classes: batch(jobs, batch_queue=…)")


def parts(jobs: Sequence[Job], parent: str, encoder: JobEncoder, most: int) -> Iterator[QueueBatch]:
    """Yield the jobs of a batch in calls of up to ``most`` jobs, queue by queue."""
    for start in range(0, len(jobs), most):
        by_queue: dict[str, list[PinLaterJob]] = {}
        for position, job in enumerate(jobs[start : start + most], start):
            struct = encoder.struct(job, Parent(parent, MESSAGE_NAME, position))
            by_queue.setdefault(encoder.target_queue(job), []).append(struct)
        yield from (QueueBatch(queue, some) for queue, structs in by_queue.items() for some in split_by_bytes(structs))
