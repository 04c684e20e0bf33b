"""Run samplers of metrics at an interval."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import NoReturn

from pinlater.server.backends.records import KeptReport
from pinlater.server.backends.report_store import ReportStore

log = logging.getLogger(__name__)


_REST_FACTOR = 19
"""After reading and sampling the reports of workers, rest this many times as long as that took."""


async def sample_reports(
    backend: ReportStore, samples: Iterable[Callable[[Sequence[KeptReport]], Awaitable[None]]]
) -> None:
    """Read the reports of workers once, and take all samples of them."""
    began = time.perf_counter()
    reports = await backend.reports()
    for sample in samples:
        await sample(reports)
    await asyncio.sleep(_REST_FACTOR * (time.perf_counter() - began))


async def sample_repeatedly(sample: Callable[[], Awaitable[None]], interval_seconds: float) -> NoReturn:
    """Take a sample every ``interval_seconds`` until cancelled; a failure is logged and does not end it."""
    while True:
        try:
            await sample()
        except Exception:
            log.debug("a sample for the metrics failed", exc_info=True)
        await asyncio.sleep(interval_seconds)
