"""Jobs on their way to another queue: which may go, how many fit into one call, and which unique key each gets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from pinlater.client.batches import MAX_BATCH_BYTES
from pinlater.jobs.batch import Batch
from pinlater.model.body_metadata import awaits_messages
from pinlater.model.class_name import name_in
from pinlater.model.jobs import JobInfo
from pinlater.model.state import JobState

_FEWEST_AT_ONCE, _MOST_AT_ONCE = 8, 50
"""How many bodies are looked up at once: before any size is known, and at most. Scans do not return sizes."""

_MOST_DESCRIPTOR_CHARACTERS = 170
"""How many of a unique key's 200 characters a descriptor may take; a longer one is cut at its start, before the id."""


class LookupSizer:
    """Splits descriptors into lookups of about ``MAX_BATCH_BYTES``, by the sizes of the bodies seen so far."""

    def __init__(self) -> None:
        self._at_once = _FEWEST_AT_ONCE

    def split(self, descriptors: Sequence[str]) -> Iterator[Sequence[str]]:
        """Yield all descriptors in lists, each of the size that fits by then."""
        start = 0
        while start < len(descriptors):
            some = descriptors[start : start + self._at_once]
            start += len(some)
            yield some

    def record(self, jobs: Iterable[JobInfo]) -> None:
        """Record the sizes of the bodies in an answer."""
        sizes = [len(job.body or b"") for job in jobs]
        mean = sum(sizes) // max(len(sizes), 1)
        self._at_once = min(max(MAX_BATCH_BYTES // max(mean, 1), 1), _MOST_AT_ONCE)


def with_unique_key(job: JobInfo) -> JobInfo:
    """Return the job with a unique key: its own, or one made of its descriptor and its time of creation.

    The descriptor alone is not enough: each store numbers its jobs from 1, so two stores have the same descriptors.
    """
    if job.unique is not None:
        return job
    return job._replace(unique=f"moved:{job.created_at_ms}:{job.descriptor[-_MOST_DESCRIPTOR_CHARACTERS:]}")


def is_tied(job: JobInfo) -> bool:
    """Return whether a job has called others or waited for events, is a batch, or is called by another and unfinished.

    A copy would wait for ever for what was sent to the original, and the caller would take its deletion for its end.

    Args:
        job: the job, with its body.
    """
    if job.state is JobState.SUCCEEDED:
        return False
    if name_in(job.body or b"") == Batch.job_options.name:
        return True
    is_awaited = job.parent is not None and job.state is not JobState.FAILED
    return bool(is_awaited or job.waits_for or awaits_messages(job.body))
