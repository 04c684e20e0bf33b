"""Thresholds: the numbers from which something counts as wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class Thresholds(NamedTuple):
    """Numbers from which the rules report a finding.

    Attributes:
        unserved_seconds: a due job has waited this long, and no worker serves its queue.
        paused_seconds: a job has waited this long in a paused queue; the pause may be forgotten.
        backlog_seconds: a due job has waited this long although workers serve its queue.
        target_factor: a due job has waited this many times its latency target.
        periodic_late_seconds: a periodic job has not started this long after its time.
        clock_seconds: a worker's clock is off by this much; a report may take 2 s.
        clock_critical_seconds: it is off by so much that times make no sense.
        leak_bytes: a job process has grown by this much since its start,
        leak_factor: and to this many times its size then,
        leak_jobs: and has run this many jobs.
        unfitting_seconds: workers have given back jobs whose steps do not fit their code for this long.
        retrying_jobs: this many jobs of a queue have failed and wait for another attempt.
        retrying_critical_jobs: so many that a service they need seems to be down.
        failure_seconds: a failure group is over if its last failure was this long ago.
        failed_share: this share of a queue's attempts fails,
        failed_factor: and this many times the share before,
        failed_attempts: and this many attempts in the last minutes.
        failed_critical_share: such a share fails that hardly anything works.
        given_up_jobs: this many jobs failed for good in the last minutes.
        flood_share: this share of the sampled jobs has the same key, or the same class,
        flood_jobs: and this many jobs wait,
        flood_factor: and, for a class, its share is this many times the usual one.
        store_slow_seconds: the 95th percentile of calls to the store is this long.
        store_stalled_seconds: it is so long that jobs hardly move.
        store_calls: of fewer calls than this, most have to be slow.
        free_bytes: less space than this is left for a shard,
        free_share: or a smaller share than this of all that it may use.
        certificate_seconds: the TLS certificate expires within this time.
        certificate_critical_seconds: it expires so soon that nobody may see a warning.
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
    unfitting_seconds: float = 600.0
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
    certificate_seconds: float = 7 * 86400.0
    certificate_critical_seconds: float = 86400.0


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
"""Thresholds of critical findings, as multiples of those of warnings."""


def configured(settings: Mapping[str, float]) -> Thresholds:
    """Return the thresholds of a server.

    Args:
        settings: its settings by key, from its metrics; missing ones have their defaults.
    """
    usual = Thresholds()
    told: dict[str, Any] = {field: settings[key] for key, field in SETTINGS.items() if key in settings}
    chosen = usual._replace(**told)
    return chosen._replace(
        retrying_critical_jobs=round(chosen.retrying_jobs * _CRITICAL_RETRYING),
        store_stalled_seconds=chosen.store_slow_seconds * _STALLED,
        failed_critical_share=max(chosen.failed_share, usual.failed_critical_share),
    )
