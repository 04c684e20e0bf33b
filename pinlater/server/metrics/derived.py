"""Metrics that are made of others, when all server processes have told theirs."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TypeVar

from pinlater.server.metrics.recent import WINDOW_SECONDS

_Key = TypeVar("_Key", bound=Hashable)


def backlog_seconds(backlog: Mapping[_Key, float], rates: Mapping[_Key, float]) -> dict[_Key, float]:
    """Return how long what is due would take at the recent pace, by queue.

    A queue of which nothing was completed counts as one whose next job is completed just outside of the time looked
    back at: the figure stays finite, grows with the backlog, and calls for workers.
    """
    return {queue: due * _seconds_a_job(rates.get(queue, 0.0)) for queue, due in backlog.items()}


def _seconds_a_job(rate: float) -> float:
    return min(1.0 / rate, WINDOW_SECONDS) if rate > 0 else WINDOW_SECONDS
