"""The one shard of this store, as descriptors name it, and its one server."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from pinlater.errors import UnknownError
from pinlater.model.attempts import StoredAck
from pinlater.model.descriptor import JobDescriptor
from pinlater.model.queues import QueueSettings
from pinlater.server.backends.job_notifications import JobLocation

SHARD = "1"


class OnlyServer:
    """A store that no other server uses, with one shard: nobody announces jobs, and all go there."""

    def apply_settings(self, settings: Mapping[str, QueueSettings]) -> None:
        """Do nothing: there are no shards to choose from."""

    def active_shards(self, queue: str) -> Sequence[str]:  # noqa: ARG002 - all queues use the one shard
        """Return no names: all shards, which is one."""
        return ()

    async def adjust_shards(self, is_limited: Callable[[str], bool]) -> None:
        """Do nothing: one is what any load needs."""

    def jobs_arrived(self, queue: str, due_ms: int | None, locations: Collection[JobLocation]) -> None:
        """Do nothing: what is known of a queue is never out of date."""

    def notifications_lost(self) -> None:
        """Do nothing: there are none."""


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
