"""One shard of a sharded store: its health, its calls in flight, and its retirement."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeVar

from pinlater.errors import ServiceError, ShardConnectionFailed
from pinlater.model.plural import plural
from pinlater.server.backends.sharded.health import Health
from pinlater.server.backends.sharded.shard import Shard, ShardFull, ShardSpec, ShardUnreachable
from pinlater.server.metrics.shard_state import ShardState

log = logging.getLogger(__name__)

_T = TypeVar("_T")

PROBE_SECONDS = (0.25, 1.0)
"""First and longest pause before an unhealthy shard is probed; it doubles in between."""

RETIRE_SECONDS = 10.0
"""A shard that was removed from the shard file is closed after this time, even if calls are still in flight."""


_LONGEST_ERROR = 300


class OnCall(Protocol):
    """Called after each call to a shard."""

    def __call__(self, name: str, seconds: float, *, is_answered: bool) -> None:
        """Record how long the call took, and whether there was an answer, even a refusal."""


class ShardHandle:
    """A shard, and its health as shown by its calls.

    Args:
        shard: a new shard.
        spec: what it was made from.
        on_call: see ``OnCall``.
        added_at: when the shard was added, or moved to this endpoint, in monotonic seconds; -inf: before the start.

    Attributes:
        shard: the shard.
        spec: its present description in the shard file.
        name: name of the shard.
    """

    def __init__(self, shard: Shard, spec: ShardSpec, on_call: OnCall, added_at: float) -> None:
        self.shard = shard
        self.spec = spec
        self.name = spec.name
        self._added_at = added_at
        self._on_call = on_call
        self._health = Health()
        self._since_ms = _now_ms()
        self._error = ""
        self._calls = 0
        self._on_idle: asyncio.Event | None = None
        self._recovery: asyncio.Task[None] | None = None

    @property
    def is_healthy(self) -> bool:
        """Whether calls may go to the shard."""
        return self._health.is_healthy

    @property
    def state(self) -> ShardState:
        """The shard's present state."""
        return ShardState(
            self.name,
            str(self.spec.endpoint),
            self._since_ms,
            self.spec.is_dequeue_only,
            self._error,
            self.shard.connections,
            unhealthy_in=int(not self.is_healthy),
        )

    def with_age(self, given: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments of ``reap_expired``; claims on a shard that was added or moved can be renewed first.

        Perhaps its former server was lost, or the file lacked the shard, so nobody could renew them.
        """
        age_ms = 1000 * (time.monotonic() - self._added_at)
        return given | {"server_age_ms": int(min(given["server_age_ms"], age_ms))}

    async def ask(self, call: Callable[[Shard], Awaitable[_T]]) -> _T:
        """Call the shard, unless it is unhealthy.

        Raises:
            ShardUnreachable: the shard is unhealthy, and was not called.
            ServiceError: raised by the shard.
        """
        if not self._health.is_healthy:
            raise ShardUnreachable(f"shard {self.name} does not answer at present; it is tried again all the time")
        self._calls += 1
        began = time.perf_counter()
        try:
            result = await call(self.shard)
        except ShardFull:  # the shard is healthy, and the jobs on it can still be worked off
            self._answered(began)
            raise
        except ShardConnectionFailed as error:
            self._on_call(self.name, time.perf_counter() - began, is_answered=False)
            self._fail(error)
            raise
        except ServiceError:
            self._answered(began)
            raise
        finally:
            self._calls -= 1
            if not self._calls and self._on_idle is not None:
                self._on_idle.set()
        self._answered(began)
        return result

    def _answered(self, began: float) -> None:
        self._on_call(self.name, time.perf_counter() - began, is_answered=True)
        self._health.record(is_success=True)

    def _fail(self, error: ShardConnectionFailed) -> None:
        self._health.record(is_success=False)
        if not self._health.is_healthy and self._recovery is None and self._on_idle is None:  # unless it is retired
            log.error("shard %s is left alone until it answers again: %s", self.name, error)
            self._since_ms, self._error = _now_ms(), str(error)[:_LONGEST_ERROR]
            self._recovery = asyncio.create_task(self._recover())

    async def _recover(self) -> None:
        """Probe the shard until it answers, so that no caller has to."""
        pause, longest = PROBE_SECONDS
        while True:
            await asyncio.sleep(pause)
            try:
                await self.shard.ping(commits=True)
            except ServiceError:
                pause = min(pause * 2, longest)
            except Exception:
                log.exception("shard %s could not be probed", self.name)
                pause = longest
            else:
                break
        self._health.recover()
        self._since_ms, self._error = _now_ms(), ""
        self._recovery = None
        log.info("shard %s answers again", self.name)

    async def retire(self) -> None:
        """Wait for the calls in flight, then close."""
        self._on_idle = asyncio.Event()
        try:
            async with asyncio.timeout(RETIRE_SECONDS):
                while self._calls:
                    await self._on_idle.wait()
                    self._on_idle.clear()
        except TimeoutError:
            log.warning("shard %s is closed with %s under way", self.name, plural(self._calls, "call"))
        await self.close()

    async def close(self) -> None:
        """Close the shard, and stop probing it."""
        if self._recovery is not None:
            self._recovery.cancel()
            await asyncio.wait([self._recovery])
        await self.shard.close()


def _now_ms() -> int:
    return int(time.time() * 1000)
