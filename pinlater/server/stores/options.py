"""The options of a store, by the settings of the server."""

from __future__ import annotations

from pinlater.server.backends.records import CommitStats
from pinlater.server.backends.store_options import StoreOptions
from pinlater.server.config.settings import Settings
from pinlater.server.metrics import Metrics


def options_of(settings: Settings, metrics: Metrics) -> StoreOptions:
    """Return the options of a store that records each commit in ``metrics``."""

    def on_commit(stats: CommitStats) -> None:
        if stats.claims_undone:
            metrics.claims_undone.add((), stats.claims_undone)
        if stats.is_failed:
            metrics.commits_failed.add()
            return
        metrics.commit_requests.observe((), stats.requests)
        metrics.commit_seconds.observe((), stats.seconds)

    return StoreOptions(
        settings.priority_levels,
        count_limit=settings.count_limit,
        regex_seconds=settings.regex_timeout_seconds,
        on_commit=on_commit,
    )
