"""Metrics of the commits of a store."""

from __future__ import annotations

from collections.abc import Callable

from pinlater.server.backends.records import CommitStats
from pinlater.server.metrics import Metrics


def commit_observer(metrics: Metrics) -> Callable[[CommitStats], None]:
    """Return a callback with which a store records each commit in ``metrics``."""

    def on_commit(stats: CommitStats) -> None:
        if stats.claims_undone:
            metrics.claims_undone.add((), stats.claims_undone)
        if stats.is_failed:
            metrics.commits_failed.add()
            return
        metrics.commit_requests.observe((), stats.requests)
        metrics.commit_seconds.observe((), stats.seconds)

    return on_commit
