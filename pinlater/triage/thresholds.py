"""Thresholds: from which number on something counts as wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class Thresholds(NamedTuple):
    """From which numbers on the rules speak up.

    Attributes:
        unserved_seconds: a due job without a worker waits for that long.
        paused_seconds: a paused queue has made jobs wait for that long, and may be forgotten.
        backlog_seconds: a due job has waited for that long although workers serve its queue.
        target_factor: a latency target is missed by that factor.
        periodic_late_seconds: a periodic job has not started for that long after its time.
        clock_seconds: a worker's clock is off by more than that; a report may take 2 s.
        clock_critical_seconds: it is off by so much that times make no sense.
        leak_bytes: a job process has grown by that much, job by job.
        leak_factor: and to that many times its size.
        leak_jobs: and has run that many jobs.
        retrying_jobs: so many jobs of a queue have failed and wait for another attempt.
        retrying_critical_jobs: so many that a service seems to be away.
        failure_seconds: a group of failures whose last one was longer ago is over.
        failed_share: so many of a queue's attempts fail.
        failed_factor: and so many times the share of before.
        failed_attempts: and that many in the last minutes.
        failed_critical_share: so many fail that hardly anything works.
        given_up_jobs: so many jobs failed for good in the last minutes.
        flood_share: so many of the sampled jobs have the same key, or the same class.
        flood_jobs: and so many jobs wait.
        flood_factor: and for a class, its share is so many times the usual one.
        store_slow_seconds: 95 % of the store's calls do not exceed this.
        store_stalled_seconds: the same, so long that jobs hardly move.
        store_calls: of fewer calls, most have to be slow.
        free_bytes: less space is left for a shard.
        free_share: or a smaller share of all that it may use.
    """

    unserved_seconds: float = 3.0
    paused_seconds: float = 900.0
    backlog_seconds: float = 600.0
    target_factor: float = 2.0
    periodic_late_seconds: float = 300.0
    clock_seconds: float = 5.0
    clock_critical_seconds: float = 300.0
    leak_bytes: float = 100 * 2**20
    leak_factor: float = 2.0
    leak_jobs: int = 10
    retrying_jobs: int = 10
    retrying_critical_jobs: int = 100
    failure_seconds: float = 900.0
    failed_share: float = 0.2
    failed_factor: float = 1.5
    failed_attempts: int = 10
    failed_critical_share: float = 0.5
    given_up_jobs: int = 10
    flood_share: float = 0.6
    flood_jobs: int = 100
    flood_factor: float = 2.0
    store_slow_seconds: float = 0.5
    store_stalled_seconds: float = 3.0
    store_calls: int = 3
    free_bytes: float = 200e6
    free_share: float = 0.05


SETTINGS = {
    "WARN_WAIT_SECONDS": "backlog_seconds",
    "WARN_PAUSED_SECONDS": "paused_seconds",
    "WARN_RETRYING_JOBS": "retrying_jobs",
    "WARN_FAILED_SHARE": "failed_share",
    "WARN_FLOOD_JOBS": "flood_jobs",
    "WARN_STORE_SECONDS": "store_slow_seconds",
    "WARN_FREE_BYTES": "free_bytes",
    "WARN_GROWTH_BYTES": "leak_bytes",
}
"""Setting of the server -> the threshold that it sets."""

_CRITICAL_RETRYING, _STALLED = 10, 6
"""What is critical grows with what is worth a warning: by so much."""


def configured(settings: Mapping[str, float]) -> Thresholds:
    """Return the thresholds of a server.

    Args:
        settings: its settings by key, as its metrics tell them; those that are not there have their defaults.
    """
    usual = Thresholds()
    told: dict[str, Any] = {field: settings[key] for key, field in SETTINGS.items() if key in settings}
    chosen = usual._replace(**told)
    return chosen._replace(
        retrying_critical_jobs=round(chosen.retrying_jobs * _CRITICAL_RETRYING),
        store_stalled_seconds=chosen.store_slow_seconds * _STALLED,
        failed_critical_share=max(chosen.failed_share, usual.failed_critical_share),
    )
