"""Script calls on a shard: which ones are sent again, and what the errors of Redis mean."""

from __future__ import annotations

import asyncio
import math
import re
import time
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

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

from pinlater.errors import ShardConnectionFailed, UnknownError
from pinlater.server.backends.redis.cluster import key_moved
from pinlater.server.backends.redis.connection import CALL_SECONDS, SharedConnection
from pinlater.server.backends.redis.scripts import scripts
from pinlater.server.backends.sharded import ShardFull, ShardUnreachable
from pinlater.server.backends.store import parent_refused, queue_not_found
from pinlater.server.backends.unavailable import ChangeRefused

PREFIX = "pinlater:"
"""What all keys begin with, so that other programs can use the same server."""

ALL_QUEUES = "queues"
"""Name of the set of queue names, and of the key for scripts about several queues."""

PAGE_JOBS = 500
"""Most jobs that one script reads or changes."""

_WRONG_SERVER = (ReadOnlyError, MasterDownError, ClusterDownError, MovedError, NoPermissionError)
"""Errors of a server that is not, or no longer, the master of the shard. Nothing was changed."""

_FORBIDDEN = re.compile(r"The user executing the script can't|ACL failure in script")
"""In the error of a script whose user has lost a permission, by Redis 7 and 8; a command gets ``NoPermissionError``."""

_REJECTING_WRITES = ("MISCONF", "NOREPLICAS")
"""Errors of a server that accepts no writes, because its disk is full or replicas are missing. Nothing was changed."""

_STORING = frozenset({"create_queue", "enqueue", "import_jobs"})
"""Scripts that store jobs, or begin the queue for them: if a shard refuses them, another one may take the jobs."""

_MAKE_ROOM = "raise maxmemory of its Redis, or make room, such as by: pinlater delete-jobs QUEUE --state succeeded"

_BUSY = "BUSY "
"""Start of the error of a server that is running somebody's script for long, and executes nothing else meanwhile."""


def _reason(error: ResponseError) -> str:
    """Return the text of an error; if the memory is full, with what to do."""
    if isinstance(error, OutOfMemoryError):
        return f"its memory is full; {_MAKE_ROOM}"
    return str(error)


class Woken(NamedTuple):
    """A job whose sleep a message has ended, and the other jobs of its key that this has let through.

    Attributes:
        queue: queue of the jobs.
        priority: priority of the job that slept.
        jobs: how many jobs may be claimed now.
    """

    queue: str
    priority: int
    jobs: int


class ScriptRunner:
    """Runs scripts and commands on one shard.

    Args:
        name: name of the shard.
        connection: connection to the shard.
        now: returns the time argument of scripts, see ``clock.lua``.
        on_woken: called with the sleeps that a script has ended; see ``tell_woken``.
        on_outgoing: called with the other shards for which a script has left messages.
    """

    def __init__(
        self,
        name: str,
        connection: SharedConnection,
        now: Callable[[], int | str],
        on_woken: Callable[[list[Woken]], None],
        on_outgoing: Callable[[Collection[str]], None],
    ) -> None:
        self.name = name
        self._connection = connection
        self.now = now
        self._on_woken = on_woken
        self._on_outgoing = on_outgoing
        self._refused_at = -math.inf

    @property
    def seconds_since_refusal(self) -> float:
        """Seconds since the server last refused all changes, whatever they were; infinite: it never did."""
        return time.monotonic() - self._refused_at

    def tell_woken(self, last_values: Sequence[Any]) -> None:
        """Report the sleeps that a script has ended, and the shards for which it has left messages.

        Args:
            last_values: the end of its answer: nothing, or one list with an entry [queue, priority, number of jobs] for
                each sleep, and an entry [shard] for each shard.
        """
        if not last_values or not last_values[0]:
            return
        woken = [Woken(one[0].decode(), *one[1:]) for one in last_values[0] if len(one) > 1]
        shards = {one[0].decode() for one in last_values[0] if len(one) == 1}
        if woken:
            self._on_woken(woken)
        if shards:
            self._on_outgoing(shards)

    def queue_key(self, queue: str) -> str:
        """Return the prefix of all keys of a queue."""
        return f"{PREFIX}{{{self.name}:{queue}}}"

    def shard_key(self, name: str) -> str:
        """Return the name of a key of the shard that belongs to no single queue."""
        return f"{PREFIX}{{{self.name}}}:{name}"

    async def command(self, *command: Any) -> Any:
        """Send a command and return its answer; see ``SharedConnection.call``.

        Raises:
            ShardUnreachable: the shard cannot serve at present.
            UnknownError: the shard refused the command.
        """
        try:
            return await self._connection.call(*command)
        except ResponseError as error:
            raise self._error(error) from None

    async def run_for_shard(self, script: str, name: str, *arguments: Any, is_repeatable: bool = True) -> Any:
        """Run a script on a key that belongs to no single queue and return its result; see ``run``."""
        return await self.run(script, name, *arguments, key=self.shard_key(name), is_repeatable=is_repeatable)

    async def run(
        self,
        script: str,
        queue: str,
        *arguments: Any,
        is_repeatable: bool = True,
        at: int | str | None = None,
        key: str | None = None,
    ) -> Any:
        """Run a script on a queue and return its result.

        Args:
            script: name of the script.
            queue: name of the queue.
            arguments: the script's arguments from the second on; the first is the time.
            is_repeatable: whether to send it again if its answer is lost.
            at: the time argument, as ``now`` returns it; None: the present.
            key: the script's key; None: that of the queue.

        Raises:
            QueueNotFound: the shard does not have the queue.
            EnqueueRejected: the parent of a new job cannot get any more children.
            ShardUnreachable, ShardFull: nothing was changed.
            ShardConnectionFailed: it is unknown whether anything was changed.
            UnknownError: the shard refused the call; nothing was changed.
        """
        now = self.now() if at is None else at
        command = ("EVALSHA", scripts()[script].sha, 1, key or self.queue_key(queue), now, *arguments)
        deadline = time.monotonic() + CALL_SECONDS
        try:
            return await self._connection.call(*command)
        except NoScriptError:  # the script cache was flushed, and may be again: send the text itself
            command = ("EVAL", scripts()[script].text, *command[2:])
        except ResponseError as error:
            raise self._script_error(error, queue, is_storing=script in _STORING) from None
        except ShardUnreachable:
            raise
        except ShardConnectionFailed:
            if not is_repeatable or time.monotonic() >= deadline:
                raise
        try:
            async with asyncio.timeout(deadline - time.monotonic()):
                return await self._connection.call(*command)
        except TimeoutError:
            raise ShardConnectionFailed(
                f"shard {self.name} did not answer within {CALL_SECONDS:g} s; "
                "the call may or may not have been executed"
            ) from None
        except ResponseError as error:
            raise self._script_error(error, queue, is_storing=script in _STORING) from None

    def _script_error(self, error: ResponseError, queue: str, *, is_storing: bool) -> Exception:
        text = str(error)
        if text.startswith("NOQUEUE"):
            return queue_not_found(queue)
        if text.startswith("NOPARENT"):
            _, queue_of_parent, priority, local_id = text.split()
            return parent_refused(f"{queue_of_parent}:s{self.name}:p{priority}:{local_id}")
        if is_storing and (isinstance(error, OutOfMemoryError) or text.startswith(_REJECTING_WRITES)):
            return ShardFull(f"shard {self.name} accepts no new jobs: {_reason(error)}")  # another shard may
        return self._error(error)

    def _error(self, error: ResponseError) -> Exception:
        """Return what an error of Redis means, whatever the call; disconnect from a server that is not the master."""
        text = str(error)
        if text.startswith((_BUSY, *_REJECTING_WRITES)):
            self._refused_at = time.monotonic()
        if isinstance(error, _WRONG_SERVER) or "-READONLY " in text:  # before Redis 7, errors in scripts come wrapped
            self._connection.disconnect()
            if isinstance(error, MovedError):
                return key_moved(self.name)
        elif not text.startswith(_BUSY) and not _FORBIDDEN.search(text):
            kind = ChangeRefused if text.startswith(_REJECTING_WRITES) else UnknownError
            return kind(f"shard {self.name} refused the call, nothing was changed: {_reason(error)}")
        return ShardUnreachable(f"shard {self.name} cannot serve: {text}")
