"""Run samplers of metrics at an interval."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import NoReturn

log = logging.getLogger(__name__)


async def sample_repeatedly(sample: Callable[[], Awaitable[None]], interval_seconds: float) -> NoReturn:
    """Take a sample every ``interval_seconds`` until cancelled; a failure is logged and does not end it."""
    while True:
        try:
            await sample()
        except Exception:
            log.debug("a sample for the metrics failed", exc_info=True)
        await asyncio.sleep(interval_seconds)
