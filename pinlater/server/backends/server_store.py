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
    """The store of a server: the verbs, and what else the server needs to know or shows about it."""

    capabilities: Capabilities
    now_ms: Callable[[], int]
    """The store's clock: returns the present time in epoch milliseconds."""

    @property
    def shards(self) -> int:
        """How many shards the jobs are spread over; 1 for a store that has none."""

    @property
    def waiting(self) -> int:
        """How many write requests have no result yet."""

    @property
    def unhealthy_shards(self) -> int:
        """How many shards are left alone because they do not answer."""

    @property
    def fault(self) -> str | None:
        """Why no new jobs are taken; None if they are."""

    async def changed_queue_settings(self) -> dict[str, QueueSettings] | None:
        """Return the settings of all queues; None if they are surely those that were applied last."""

    def apply_settings(self, settings: Mapping[str, QueueSettings]) -> None:
        """Adopt the present settings of all queues: new jobs go to as many shards as these say."""

    def active_shards(self, queue: str) -> Sequence[str]:
        """Return the names of the shards that new jobs of a queue go to; empty means all."""

    async def adjust_shards(self, is_limited: Callable[[str], bool]) -> None:
        """Adjust the number of shards of queues whose number follows their load; see ``QueueSizer``.

        Jobs of a queue for which ``is_limited`` returns True wait for its limit, not for a shard.

        State: jobs unchanged.
        Fence: none; it has no effect on a queue with a fixed number of shards.
        Repeat: safe.
        """

    def jobs_arrived(self, queue: str, due_ms: int | None, locations: Collection[JobLocation]) -> None:
        """Record that another server or process has made jobs claimable; see ``OnJobs``."""

    def notifications_lost(self) -> None:
        """Record that such notifications may have been lost."""

    async def relay_messages(self) -> None:
        """Start delivering the messages to jobs of other shards that have not been delivered yet.

        State: as for ``send_message``.
        Fence: name and id of each message.
        Repeat: safe.
        """

    def shard_states(self) -> list[ShardState]:
        """Return the state of each shard."""

    async def sizes(self) -> dict[str, StoreSize]:
        """Return the size of each shard that answers; raise the store's error if none does."""

    async def ping_shards(self) -> dict[str, str]:
        """Ping every shard; for those that do not answer, return the reason by the shard's name."""
