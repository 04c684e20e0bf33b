"""Apply and change the queue settings in the store; changes take effect on every server within a second.

So do deletions of queues: every queue that exists has settings.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping

from pinlater.errors import NoHealthyShards, ServerError
from pinlater.model.queues import QueueChange, QueueSettings
from pinlater.server.backends.server_store import ServerStore
from pinlater.server.limits.files import RateLimitFiles

log = logging.getLogger(__name__)

_POLL_SECONDS = 0.5

_INITIAL_LOAD_SECONDS = 2.0
"""How long an unreachable store may delay the start."""


class StoredLimits:
    """Polls the queue settings of the store and applies them.

    Args:
        backend: the store.
        files: applies them, together with the file of rate limits.
        on_deleted: called with each queue that no longer exists.
    """

    def __init__(self, backend: ServerStore, files: RateLimitFiles, on_deleted: Callable[[str], None]) -> None:
        self._backend = backend
        self._files = files
        self._on_deleted = on_deleted
        self._queues: frozenset[str] = frozenset()
        self._is_loaded = False
        self._has_failed = False
        self._reading = asyncio.Lock()

    async def load_initial(self) -> None:
        """Load the settings for the first time, before any job is handed out.

        If the store does not answer, the server starts all the same, and hands out no jobs until it does.
        """
        try:
            async with asyncio.timeout(_INITIAL_LOAD_SECONDS):
                await self.refresh()
        except Exception as error:  # noqa: BLE001 - whatever it is, calls to the store will report it
            self._has_failed = True
            log.warning(
                "cannot read the queue settings; no job is handed out until they are known: %s",
                str(error) or f"no answer within {_INITIAL_LOAD_SECONDS:g} s",
            )

    def check_loaded(self) -> None:
        """Refuse dequeues before the settings are loaded, since a queue may be paused.

        Raises:
            NoHealthyShards: they are not loaded yet.
        """
        if not self._is_loaded:
            raise NoHealthyShards(
                "no job is handed out until the queue settings are known, and the store does not answer; "
                "check the databases"
            )

    async def effective_settings(self) -> dict[str, QueueSettings]:
        """Return the effective settings of all queues."""
        stored = await self._backend.queue_settings()
        return {
            queue: self._files.effective(queue, settings)._replace(active_shards=self._backend.active_shards(queue))
            for queue, settings in stored.items()
        }

    async def queue_names(self) -> set[str]:
        """Return the names of all queues; if other servers use the store, as of less than a second ago."""
        if self._backend.capabilities.is_serial:  # its settings are not polled
            return await self._backend.queue_names()
        self.check_loaded()
        return set(self._queues)

    async def change(self, queue: str, change: QueueChange) -> None:
        """Change the settings of a queue; they take effect here at once."""
        await self._backend.change_queue_settings(queue, change)
        await self.refresh()

    async def refresh(self) -> None:
        """Load the settings from the store and apply them; raises what the store raises."""
        await self._apply(self._backend.queue_settings)

    async def _apply(self, read: Callable[[], Awaitable[Mapping[str, QueueSettings] | None]]) -> None:
        async with self._reading:  # or the older of two concurrent reads might be applied last
            settings = await read()
            if settings is not None:
                self._backend.apply_settings(settings)
                self._files.apply_stored(settings)
                before, self._queues = self._queues, frozenset(settings)
                for queue in before - self._queues:
                    self._on_deleted(queue)
        self._is_loaded = True
        if self._has_failed:
            self._has_failed = False
            log.info("the queue settings are known now; jobs are handed out again")

    async def watch(self) -> None:
        """Reload the settings regularly until cancelled; once only if no other server can change them."""
        while True:
            try:
                await self._apply(self._backend.changed_queue_settings)
            except ServerError as error:
                log.debug("cannot read the queue settings, retrying: %s", error)
            except Exception:
                log.exception("cannot read the queue settings, retrying")
            else:
                if self._backend.capabilities.is_serial:
                    return
            await asyncio.sleep(_POLL_SECONDS)
