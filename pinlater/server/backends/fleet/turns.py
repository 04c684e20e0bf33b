"""Turns: where a limit counts over all shards, one dequeue at a time counts and claims, on all servers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from weakref import WeakValueDictionary

from pinlater.errors import ServiceError
from pinlater.server.backends.fleet.asking import Call
from pinlater.server.backends.fleet.member import Member
from pinlater.server.backends.fleet.roster import Roster
from pinlater.server.backends.fleet.storing import rank

TURN_MS = 20_000
"""A turn is over after this, should its server die. Calls to shards end within 10 s: none outlives the turn."""

MOST_SECONDS = 5.0
"""Who has counted claims within this time, or not at all."""

_PATIENCE_SECONDS = 1.0
_PAUSES_SECONDS = (0.002, 0.05)


AskOwner = Callable[[Member, str, Call[int | None]], Awaitable[int | None]]
"""Asks a shard about a queue."""


class Turn:
    """A turn, or none.

    Attributes:
        number: ends it; None: somebody else has the turn.

    Args:
        began: when it was asked for, in monotonic seconds.
    """

    def __init__(self, number: int | None, began: float) -> None:
        self.number = number
        self._began = began

    @property
    def is_ours(self) -> bool:
        """Whether claims may still be made."""
        return self.number is not None and time.monotonic() - self._began < MOST_SECONDS


class Turns:
    """Hands out the turns of queues.

    Args:
        roster: the shards; one of them, the same for all servers, has the turn of a queue.
        ask_owner: asks a shard about a queue, which it is given before, should only others have it.
    """

    def __init__(self, roster: Roster, ask_owner: AskOwner) -> None:
        self._roster = roster
        self._ask_owner = ask_owner
        self._ours: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def home(self, queue: str) -> Member:
        """Return the shard that has the queue's turn, whether it answers or not."""
        return max(self._roster, key=lambda member: rank(member.name, queue))

    @asynccontextmanager
    async def of(self, queue: str) -> AsyncIterator[Turn]:
        """Lend the turn of a queue, once the others here have had it.

        After an error it is left to run out: a claim may still be under way.

        Raises:
            ServiceError: of the shard that has the turn.
        """
        lock = self._ours.setdefault(queue, asyncio.Lock())
        async with lock:
            home = self.home(queue)
            turn = await self._take(home, queue)
            yield turn
            number = turn.number
            if number is not None:
                with suppress(ServiceError):
                    await home.ask(lambda shard: shard.end_turn(queue, number))

    async def _take(self, home: Member, queue: str) -> Turn:
        pause, longest = _PAUSES_SECONDS
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while True:
            began = time.monotonic()
            number = await self._ask_owner(home, queue, lambda shard: shard.take_turn(queue, TURN_MS))
            if number is not None or began > deadline:
                return Turn(number, began)
            await asyncio.sleep(pause)
            pause = min(pause * 2, longest)
