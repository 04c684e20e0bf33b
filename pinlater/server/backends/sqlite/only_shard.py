"""The only shard of this store, as descriptors name it, and its only server."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from pinlater.errors import UnknownError
from pinlater.model.attempts import StoredAck
from pinlater.model.descriptor import JobDescriptor
from pinlater.model.queues import QueueSettings
from pinlater.server.backends.job_notifications import JobLocation

SHARD = "1"


class OnlyServer:
    """A store with one shard and one server: no other server announces jobs, and all jobs go to the one shard."""

    def apply_settings(self, settings: Mapping[str, QueueSettings]) -> None:
        """Do nothing: there are no shards to choose from."""

    def active_shards(self, queue: str) -> Sequence[str]:  # noqa: ARG002 - all queues use the one shard
        """Return no names, which means all shards: the only one."""
        return ()

    async def adjust_shards(self, is_limited: Callable[[str], bool]) -> None:
        """Do nothing: there is only one shard, whatever the load."""

    def jobs_arrived(self, queue: str, due_ms: int | None, locations: Collection[JobLocation]) -> None:
        """Do nothing: no other server stores jobs here."""

    def notifications_lost(self) -> None:
        """Do nothing: there are no notifications."""


def ours(acks: Sequence[StoredAck]) -> list[StoredAck]:
    """Return the acks whose jobs name this shard."""
    return [ack for ack in acks if ack.job.shard == SHARD]


def checked(jobs: Sequence[JobDescriptor]) -> Sequence[JobDescriptor]:
    """Return ``jobs`` if all of them name this shard.

    Raises:
        UnknownError: one names another shard.
    """
    for job in jobs:
        check_shard(job)
    return jobs


def check_shard(job: JobDescriptor) -> None:
    """Check that a job names this shard.

    Raises:
        UnknownError: it names another shard.
    """
    if job.shard != SHARD:
        raise UnknownError(f"job descriptor {job}: there is no shard {job.shard!r} here, only {SHARD!r}")
