"""The one shard of this store, as descriptors name it."""

from __future__ import annotations

from collections.abc import Sequence

from pinlater.errors import UnknownError
from pinlater.model.attempts import StoredAck
from pinlater.model.descriptor import JobDescriptor

SHARD = "1"


def ours(acks: Sequence[StoredAck]) -> list[StoredAck]:
    """Return the acks whose jobs name this shard."""
    return [ack for ack in acks if ack.job.shard == SHARD]


def checked(jobs: Sequence[JobDescriptor]) -> Sequence[JobDescriptor]:
    """Return jobs that all name this shard.

    Raises:
        UnknownError: one names another.
    """
    for job in jobs:
        check_shard(job)
    return jobs


def check_shard(job: JobDescriptor) -> None:
    """Check that a job names this shard.

    Raises:
        UnknownError: it names another.
    """
    if job.shard != SHARD:
        raise UnknownError(f"job descriptor {job}: there is no shard {job.shard!r} here, only {SHARD!r}")
