"""Wake-ups across servers: who makes jobs claimable says so on the shard's channel, and all others hear it.

Nothing depends on a message: what gets lost delays a waiting dequeue until it looks again by itself.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from typing import Any

from redis.asyncio import Connection
from redis.exceptions import RedisError

from pinlater.errors import ServiceError
from pinlater.server.backends.job_notifications import JobNotifications
from pinlater.server.backends.redis.connection import CONNECT_SECONDS, Command
from pinlater.server.backends.redis.endpoint import Place

log = logging.getLogger(__name__)

_GRAIN_SECONDS = 0.005
"""A server speaks of a queue no more often than this."""

_QUIET_SECONDS = 5.0
"""After this, a silent connection is asked whether it is alive; after twice as long, it is given up."""

_PAUSES_SECONDS = (0.1, 2.0)
"""Before another connection is tried: the first time, and at most; it doubles in between."""


class Wakeups:
    """Tells the other servers of a shard, and hears from them.

    A server that is alone on a shard notices that nobody listens, and says nothing until another one greets.

    Args:
        name: of the shard.
        place: where it is.
        channel: of the shard.
        command: sends a command to it.
        notifications: are told what is heard; None: nobody wants to know, and nothing is told either.
    """

    def __init__(
        self, name: str, place: Place, channel: str, command: Command, notifications: JobNotifications | None
    ) -> None:
        self._name = name
        self._place = place
        self._channel = channel
        self._command = command
        self._notifications = notifications or JobNotifications()
        self._is_wanted = notifications is not None
        self._me = uuid.uuid4().hex.encode()
        self._is_alone = False
        self._is_listening = False
        self._is_missed = False
        self._news: dict[str, int | None] = {}
        self._speaker: asyncio.Task[None] | None = None
        self._listener: asyncio.Task[None] | None = None

    def listen(self) -> None:
        """Begin to listen, unless that has begun."""
        if self._is_wanted and self._listener is None:
            self._listener = asyncio.create_task(self._listen())

    async def close(self) -> None:
        """Fall silent."""
        tasks = [task for task in (self._speaker, self._listener) if task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    # Telling

    def tell(self, queue: str, due_ms: int | None = None) -> None:
        """Say that a queue has a job that is claimable, now or when it falls due."""
        if self._is_alone or not self._is_wanted:
            return
        known = self._news.get(queue, due_ms)
        self._news[queue] = None if due_ms is None or known is None else min(due_ms, known)
        if self._speaker is None:
            self._speaker = asyncio.create_task(self._speak())

    async def _speak(self) -> None:
        try:
            while self._news:
                news, self._news = self._news, {}
                for queue, due_ms in news.items():
                    await self._publish(queue, due_ms)
                await asyncio.sleep(_GRAIN_SECONDS)
        finally:
            self._speaker = None

    async def _publish(self, queue: str, due_ms: int | None) -> None:
        try:
            heard = await self._command("PUBLISH", self._channel, _message(self._me, queue, due_ms))
        except ServiceError as error:
            log.debug("shard %s: the other servers were not told: %s", self._name, error)
        else:
            self._is_alone = heard <= self._is_listening

    # Hearing

    async def _listen(self) -> None:
        pause, longest = _PAUSES_SECONDS
        while True:
            trouble = ""
            try:
                await self._listen_once()
            except (RedisError, OSError, TimeoutError, ServiceError) as error:
                trouble = str(error) or "no answer"
            except Exception:
                log.exception("shard %s: what was heard of other servers could not be passed on", self._name)
            if self._is_listening:
                self._is_listening, pause = False, _PAUSES_SECONDS[0]
            if trouble and not self._is_missed:  # said once: the shard may be away for long
                log.warning("shard %s: nothing is heard of other servers: %s", self._name, trouble)
                self._is_missed = True
            await asyncio.sleep(pause)
            pause = min(pause * 2, longest)

    async def _listen_once(self) -> None:
        async with asyncio.timeout(CONNECT_SECONDS):
            connection = await self._place.connection(CONNECT_SECONDS)
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await connection.connect()  # type: ignore[no-untyped-call]
                await connection.send_command("SUBSCRIBE", self._channel)
                await connection.read_response(disable_decoding=True)
            self._is_listening = True
            # The others speak from now on, also if they were alone; and what was said before was not heard.
            self._is_alone = await self._command("PUBLISH", self._channel, _message(self._me, "", None)) <= 1
            self._is_missed = False
            self._notifications.on_gap()
            await self._hear(connection)
        finally:
            await connection.disconnect(nowait=True)

    async def _hear(self, connection: Connection) -> None:
        is_asked = False
        while True:
            said = await connection.read_response(disable_decoding=True, timeout=_QUIET_SECONDS)
            if said is None:
                if is_asked:
                    raise TimeoutError("no answer to a PING")
                await connection.send_command("PING")
            is_asked = said is None
            if said is not None and said[0] == b"message":
                self._heard(said[2])

    def _heard(self, message: Any) -> None:
        try:
            who, queue, due = message.split(b" ")
            name, due_ms = queue.decode(), int(due) if due else None
        except ValueError:
            return  # of a version that says more, or of somebody else
        if who == self._me:
            return
        self._is_alone = False
        if name:
            self._notifications.on_job(name, due_ms)


def _message(who: bytes, queue: str, due_ms: int | None) -> bytes:
    return b" ".join((who, queue.encode(), b"" if due_ms is None else b"%d" % due_ms))
