"""Limits that are kept in the store: read, changed, and in force on every server within a second."""

from __future__ import annotations

import asyncio
import logging
from typing import NamedTuple

from pinlater.errors import ServerError
from pinlater.server.backends.contract import Backend, QueueChange, QueueSettings
from pinlater.server.limits_files import LimitsFiles

log = logging.getLogger(__name__)

_LOOK_SECONDS = 0.5


class InForce(NamedTuple):
    """The settings of a queue; whether the file of rate limits names it, and wins."""

    settings: QueueSettings
    is_from_file: bool


class StoredLimits:
    """Carries the queues' settings from the store to where they are applied.

    Args:
        backend: the store.
        files: applies them, together with those of the file.
    """

    def __init__(self, backend: Backend, files: LimitsFiles) -> None:
        self._backend = backend
        self._files = files

    async def in_force(self) -> dict[str, InForce]:
        """Return the settings of all queues."""
        stored = await self._backend.queue_settings()
        return {
            queue: InForce(self._files.overridden(queue, settings), self._files.names(queue))
            for queue, settings in stored.items()
        }

    async def change(self, queue: str, change: QueueChange) -> None:
        """Change the settings of a queue; they are in force here at once."""
        await self._backend.change_queue_settings(queue, change)
        await self.refresh()

    async def refresh(self) -> None:
        """Read them now. Raises what the store raises."""
        self._files.store_says(await self._backend.queue_settings())

    async def watch(self) -> None:
        """Read them again and again until cancelled; once, where nobody else can change them."""
        while True:
            try:
                await self.refresh()
            except ServerError as error:
                log.debug("the settings of the queues could not be read; it is tried again: %s", error)
            except Exception:
                log.exception("the settings of the queues could not be read; it is tried again")
            else:
                if self._backend.capabilities.is_serial:
                    return
            await asyncio.sleep(_LOOK_SECONDS)
