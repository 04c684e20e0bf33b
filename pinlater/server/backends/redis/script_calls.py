"""Running scripts on a shard: what its refusals mean, and what may be sent again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from redis.exceptions import (
    ClusterDownError,
    MasterDownError,
    MovedError,
    NoPermissionError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    ResponseError,
)

from pinlater.errors import QueueNotFound, ShardConnectionFailed, UnknownError
from pinlater.server.backends.redis.cluster import elsewhere
from pinlater.server.backends.redis.connection import Link
from pinlater.server.backends.redis.scripts import scripts
from pinlater.server.backends.sharded import ShardUnreachable

ANY_QUEUE = "queues"
"""The place of the names of all queues, and of scripts about several of them."""

DEADLINE_SECONDS = 9.5
"""Nobody waits longer than this, whatever the shard does."""

_AWAY = (ReadOnlyError, MasterDownError, ClusterDownError, MovedError, NoPermissionError)
"""Answers of a server that is not, or no more, the right one. Nothing was done."""

_FULL = ("MISCONF", "NOREPLICAS")
"""Answers of a server that takes nothing new at present: its disk or its replicas are wanting. Nothing was done."""


def not_found(queue: str) -> QueueNotFound:
    """Return the error for a queue that is not there."""
    return QueueNotFound(f"there is no queue {queue!r}; create it first (pinlater create-queue {queue})")


class Asker:
    """Asks one shard for what scripts do.

    Args:
        name: of the shard.
        link: the way to it.
        tag: what the keys of a queue begin with, by its name; or of what else there is.
        now: what the scripts are told of the time, see ``clock.lua``.
    """

    def __init__(self, name: str, link: Link, tag: Callable[[str], str], now: Callable[[], int | str]) -> None:
        self.name = name
        self._link = link
        self._tag = tag
        self.now = now

    async def ask(
        self, script: str, queue: str, *arguments: Any, is_repeatable: bool = True, at: int | str | None = None
    ) -> Any:
        """Run a script on a queue; return its answer.

        Args:
            script: its name.
            queue: the name of the queue.
            arguments: from the second on.
            is_repeatable: whether it may be sent again when its answer was lost.
            at: the time that it shall be, as ``now`` told it; None: the present.

        Raises:
            QueueNotFound: the shard does not have the queue.
            ShardUnreachable: nothing was done.
            ShardConnectionFailed: nobody knows whether it was done.
            UnknownError: the shard refused; nothing was done.
        """
        now = self.now() if at is None else at
        command = ("EVALSHA", scripts()[script].sha, 1, self._tag(queue), now, *arguments)
        try:
            async with asyncio.timeout(DEADLINE_SECONDS):
                return await self._send(script, command, is_repeatable)
        except TimeoutError:
            raise ShardConnectionFailed(
                f"shard {self.name} did not answer within {DEADLINE_SECONDS:g} s, and may or may not have done it"
            ) from None
        except ResponseError as error:
            raise await self._refusal(error, queue, is_enqueue=script == "enqueue") from None

    async def _send(self, script: str, command: tuple[Any, ...], is_repeatable: bool) -> Any:
        try:
            return await self._link.call(*command)
        except NoScriptError:  # somebody flushed them; nothing was done
            await self._link.call("SCRIPT", "LOAD", scripts()[script].text)
        except ShardUnreachable:
            raise
        except ShardConnectionFailed:
            if not is_repeatable:
                raise
        return await self._link.call(*command)

    async def _refusal(self, error: ResponseError, queue: str, *, is_enqueue: bool) -> Exception:
        text = str(error)
        if text.startswith("NOQUEUE"):
            return not_found(queue)
        if isinstance(error, _AWAY) or "-READONLY " in text:  # before Redis 7, a script's errors come wrapped
            await self._link.drop()
            if isinstance(error, MovedError):
                return elsewhere(self.name)
            return ShardUnreachable(f"shard {self.name} cannot serve: {text}")
        if is_enqueue and (isinstance(error, OutOfMemoryError) or text.startswith(_FULL)):
            return ShardUnreachable(f"shard {self.name} takes no new jobs: {text}")  # another one may
        return UnknownError(f"shard {self.name} could not carry this out, nothing was changed: {text}")
