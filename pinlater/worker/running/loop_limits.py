"""Enforces the soft limits of coroutines, by a timer of their event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from time import monotonic
from typing import Any

from pinlater.worker.running.run_limits import LimitExceeded, RunLimits


async def await_limited(coroutine: Coroutine[Any, Any, Any], run_limits: RunLimits) -> Any:
    """Await ``coroutine`` and return its result; cancel it and raise ``JobTimeout`` when a limit is exceeded."""
    alarm = _LoopAlarm(run_limits)
    try:
        async with alarm.timeout:
            alarm.check()
            return await coroutine
    except TimeoutError as error:
        if alarm.exceeded is None:
            raise
        where = error.__cause__ or error.__context__ or error  # Python 3.11.2 sets no cause
        raise alarm.exceeded.error().with_traceback(where.__traceback__) from None
    finally:
        alarm.stop()


class _LoopAlarm:
    """A timer of an event loop, set again until a limit is exceeded.

    Attributes:
        timeout: the timeout of the coroutine.
        exceeded: the limit that was exceeded; None: none yet.
    """

    def __init__(self, run_limits: RunLimits) -> None:
        self.timeout = asyncio.timeout(None)
        self.exceeded: LimitExceeded | None = None
        self._run_limits = run_limits
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None

    def check(self) -> None:
        """Check the limits now, and again while there are any."""
        now = monotonic()
        self.exceeded = self._run_limits.due(now)
        if self.exceeded is not None:
            self.timeout.reschedule(self._loop.time())
        elif (seconds := self._run_limits.next_check_in(now)) is not None:
            self._timer = self._loop.call_later(seconds, self.check)

    def stop(self) -> None:
        """Stop checking."""
        if self._timer is not None:
            self._timer.cancel()
