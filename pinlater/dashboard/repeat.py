"""Repeats a reading in the background for as long as the dashboard runs."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from pinlater.errors import PinLaterError

log = logging.getLogger(__name__)

_PERIOD_SECONDS = 5.0
_COST_FACTOR = 100
"""A reading takes at most a hundredth of the time, even with very many queues."""


async def repeat(read: Callable[[], Awaitable[None]], what: str) -> None:
    """Read every few seconds until cancelled; a reading that fails leaves a gap.

    Args:
        read: takes one reading.
        what: what it does, for the log.
    """
    pause = _PERIOD_SECONDS / 2
    while True:
        started = time.perf_counter()
        try:
            await read()
        except (OSError, PinLaterError) as error:
            log.debug("cannot %s: %s", what, error)
        except Exception:
            log.exception("cannot %s", what)
        cost = time.perf_counter() - started
        # At most twice the last pause: a single slow reading must not hide half a minute of trouble.
        pause = min(max(_PERIOD_SECONDS - cost, cost * _COST_FACTOR), 2 * pause)
        await asyncio.sleep(pause)
