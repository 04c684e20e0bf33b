"""The store of a whole server."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

from pinlater.model.queues import QueueSettings
from pinlater.server.backends.job_notifications import JobLocation
from pinlater.server.backends.records import StoreSize
from pinlater.server.backends.store import Capabilities, Store
from pinlater.server.metrics.shard_state import ShardState


class ServerStore(Store, Protocol):
    """The store of a server: the verbs, and what the server needs to know of it or shows of it."""

    capabilities: Capabilities

    @property
    def shards(self) -> int:
        """How many shards the jobs are spread over; 1 for a store that has none."""

    @property
    def waiting(self) -> int:
        """Write requests that have no result yet."""

    @property
    def unhealthy_shards(self) -> int:
        """How many shards are left alone because they do not answer."""

    @property
    def fault(self) -> str | None:
        """Why no new jobs are taken; None if they are."""

    async def changed_queue_settings(self) -> dict[str, QueueSettings] | None:
        """Return the settings of all queues if they may differ from those that were applied last; None: they do not."""

    def apply_settings(self, settings: Mapping[str, QueueSettings]) -> None:
        """Let new jobs go to as many shards as the settings of all queues say; these are those that apply now."""

    def active_shards(self, queue: str) -> Sequence[str]:
        """Return the names of the shards that new jobs of a queue go to; none: all."""

    async def adjust_shards(self, is_limited: Callable[[str], bool]) -> None:
        """Change how many shards queues use that follow their load, where it has changed; see ``QueueSizer``.

        Jobs of a queue for which ``is_limited`` returns True wait for its limit, not for a shard.

        State: jobs unchanged.
        Fence: none; it has no effect on a queue whose number is fixed.
        Repeat: safe.
        """

    def jobs_arrived(self, queue: str, due_ms: int | None, locations: Collection[JobLocation]) -> None:
        """Take note of jobs that another server or process has made claimable; see ``OnJobs``."""

    def notifications_lost(self) -> None:
        """Take note that there may have been others."""

    async def relay_messages(self) -> None:
        """Begin to deliver the messages that jobs have left for jobs of other shards, as far as that was not done.

        State: as for ``send_message``.
        Fence: name and id of each message.
        Repeat: safe.
        """

    def shard_states(self) -> list[ShardState]:
        """Return the state of each shard."""

    async def sizes(self) -> dict[str, StoreSize]:
        """Return the size of each shard that answers; raise what the store raises if none does."""

    async def ping_shards(self) -> dict[str, str]:
        """Ping every shard; return why it failed, by name, for those that do not answer."""
