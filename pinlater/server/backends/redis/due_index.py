"""Which queues the monitor has to look into, without asking each of them: the scripts keep the earliest moment of each.

A claim is noted by the script that claims, in one step with it. So no look is late, whichever server has claimed.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

from pinlater.server.backends.redis.script_calls import Asker

_PLACE = "earliest"
"""What the keys begin with, behind the shard's."""

_MOST_QUEUES = 1000
"""So many queues are looked into in one step, of each kind."""

_SURVEYED_AT_ONCE = 25
_SURVEY_SECONDS = 1.0
"""So few queues are surveyed in that time that it costs next to nothing, however many there are."""

_SURVEYED_AT_FIRST = 500


class Earliest:
    """Finds queues with claims that may have expired, and with finished jobs that may have to go.

    Older servers do not note what they claim. So all queues are surveyed once, before the first look, and a few
    each second from then on. As long as such a server lives, it ends the claims of all by itself.

    Args:
        aside: runs scripts that are not about one queue.
        names: returns those of the queues.
    """

    def __init__(self, aside: Asker, names: Callable[[], Awaitable[list[str]]]) -> None:
        self._aside = aside
        self._names = names
        self._is_surveyed = False
        self._to_survey: list[str] = []
        self._next_survey = 0.0

    async def with_expired(self) -> list[str]:
        """Return queues in which claims may have expired, in random order: so none waits for the others for ever."""
        await self._survey()
        [queues] = await self._due("claims", 0)
        return queues

    async def with_finished(self, succeeded_ttl_ms: int, failed_ttl_ms: int) -> tuple[list[str], list[str]]:
        """Return queues with succeeded and with failed jobs that may be older than that, each in random order."""
        await self._survey()
        succeeded, failed = await self._due("S", succeeded_ttl_ms, "F", failed_ttl_ms)
        return succeeded, failed

    async def correct(self, *queues: str) -> None:
        """Note what some queues have, or that they are gone."""
        await self._aside.ask("survey", _PLACE, *queues)

    async def _due(self, *kinds_and_ages: Any) -> list[list[str]]:
        found = await self._aside.ask("due_queues", _PLACE, _MOST_QUEUES, *kinds_and_ages)
        named = [[name.decode() for name in names] for names in found]
        for names in named:
            random.shuffle(names)
        return named

    async def _survey(self) -> None:
        now = asyncio.get_running_loop().time()
        if self._is_surveyed and now < self._next_survey:
            return
        self._next_survey = now + _SURVEY_SECONDS
        if not self._to_survey:
            self._to_survey = await self._names()
        while self._to_survey:
            at_once = _SURVEYED_AT_ONCE if self._is_surveyed else _SURVEYED_AT_FIRST
            await self.correct(*self._to_survey[:at_once])
            del self._to_survey[:at_once]
            if self._is_surveyed:
                return
        self._is_surveyed = True
