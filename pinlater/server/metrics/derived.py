"""Compute metrics from the summed metrics of all server processes."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TypeVar

from pinlater.server.metrics.recent import WINDOW_SECONDS

_Key = TypeVar("_Key", bound=Hashable)


def backlog_seconds(backlog: Mapping[_Key, float], rates: Mapping[_Key, float]) -> dict[_Key, float]:
    """Return the seconds that the backlog of each queue would take at its recent rate of completions.

    A queue without completions counts as completing one job per window: the result stays finite, grows with the
    backlog, and shows that workers are missing.
    """
    return {queue: due * _seconds_per_job(rates.get(queue, 0.0)) for queue, due in backlog.items()}


def _seconds_per_job(rate: float) -> float:
    return min(1.0 / rate, WINDOW_SECONDS) if rate > 0 else WINDOW_SECONDS
