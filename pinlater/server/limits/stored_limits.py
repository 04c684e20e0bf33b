"""Limits that are kept in the store: read, changed, and in force on every server within a second."""

from __future__ import annotations

import asyncio
import logging
from typing import NamedTuple

from pinlater.errors import NoHealthyShards, ServerError
from pinlater.server.backends.records import QueueChange, QueueSettings
from pinlater.server.backends.store import Store
from pinlater.server.limits.files import LimitsFiles

log = logging.getLogger(__name__)

_LOOK_SECONDS = 0.5

_FIRST_LOOK_SECONDS = 2.0
"""A store that is away holds up the start no longer than this."""


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

    def __init__(self, backend: Store, files: LimitsFiles) -> None:
        self._backend = backend
        self._files = files
        self._is_known = False
        self._was_missed = False
        self._reading = asyncio.Lock()

    async def learn(self) -> None:
        """Read them for the first time, before anybody can ask for jobs.

        A store that does not answer makes nothing fail: the server starts, and hands out nothing until it does.
        """
        try:
            async with asyncio.timeout(_FIRST_LOOK_SECONDS):
                await self.refresh()
        except Exception as error:  # noqa: BLE001 - whatever it is, calls to the store will say it again
            self._was_missed = True
            log.warning(
                "the settings of the queues could not be read; until they can, no job is handed out: %s",
                str(error) or f"no answer within {_FIRST_LOOK_SECONDS:g} s",
            )

    def check_known(self) -> None:
        """Return if they have been read, so that no paused queue hands out jobs.

        Raises:
            NoHealthyShards: not yet.
        """
        if not self._is_known:
            raise NoHealthyShards(
                "no job is handed out before the settings of the queues are known, and the store does not answer; "
                "look at the databases"
            )

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
        async with self._reading:  # of two readings under way, the older one might come last, and stay in force
            self._files.store_says(await self._backend.queue_settings())
        self._is_known = True
        if self._was_missed:
            self._was_missed = False
            log.info("the settings of the queues are known now; jobs are handed out")

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
