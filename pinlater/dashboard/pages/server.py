"""Server page: server processes, calls and store."""

from __future__ import annotations

from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from pinlater.dashboard.app_state import AppState, get_app_state
from pinlater.dashboard.figures import (
    CALL_SECONDS,
    COMMIT_REQUESTS,
    COMMIT_SECONDS,
    CONNECTIONS,
    ERRORS,
    FREE_BYTES,
    PARKED,
    SHARD_FAILURES,
    SHARD_SECONDS,
    STORE_BYTES,
    STORE_SECONDS,
    STORE_WAITING,
    ServerFigures,
    ShardHealth,
)
from pinlater.dashboard.formatting import duration
from pinlater.dashboard.forms import query_text
from pinlater.dashboard.render import page
from pinlater.dashboard.space_rows import space_rows
from pinlater.errors import PinLaterError
from pinlater.triage.findings import STORE_KINDS, Finding

_MOST_SHARDS = 200
_ABOUT_A_MINUTE_SECONDS = 55.0
_PATIENCE_SECONDS = 0.03


class Calls(NamedTuple):
    """Calls of one method, or of one operation of the store, in the last minute; times in seconds."""

    name: str
    rate: float
    total: float
    mean: float | None
    p95: float | None
    p99: float | None


class Commits(NamedTuple):
    """The store's commits in the last minute; times in seconds."""

    rate: float
    requests: float | None
    mean: float | None
    p95: float | None


class ShardRow(NamedTuple):
    """A shard, its calls in the last minute (rate, times in seconds, number of failures), and its space in bytes."""

    shard: ShardHealth
    rate: float | None = None
    mean: float | None = None
    p95: float | None = None
    failures: int | None = None
    used_bytes: float | None = None
    free_bytes: float | None = None


async def server(request: Request) -> Response:
    """Show the server and, only if requested since it counts jobs, what takes the space of its store."""
    app, with_space = get_app_state(request), bool(query_text(request, "space", 3))
    now = await app.options.read_figures()
    seconds, first, last = app.history.recent() or (0.0, ServerFigures(), ServerFigures())
    shown = now.shards[:_MOST_SHARDS]
    return page(
        request,
        "server.html",
        findings=[(finding, None) for finding in await _findings(app)],
        with_space=with_space,
        space=await space_rows(await app.client.queue_names(), app.counts, app.history) if with_space else [],
        count_limit=app.options.count_limit,
        processes=now.processes,
        versions={process.version for process in now.processes},
        connections=now.gauges.get(CONNECTIONS),
        parked=now.gauges.get(PARKED),
        waiting=now.gauges.get(STORE_WAITING),
        span="minute" if not seconds or seconds > _ABOUT_A_MINUTE_SECONDS else duration(seconds),
        methods=_methods(seconds, first, last) if seconds else [],
        operations=_operations(seconds, first, last) if seconds else [],
        commits=_commits(seconds, first, last) if seconds else None,
        shards=[_spaced(_shard(shard, seconds, first, last), now) for shard in shown],
        hidden_shards=len(now.shards) - len(shown),
        unhealthy_shards=sum(shard.unhealthy_in > 0 for shard in now.shards),
        is_one_file=now.is_one_file,
    )


async def _findings(app: AppState) -> list[Finding]:
    """Return the findings about the server and its store; none while it does not answer, which the page shows."""
    try:
        found = await app.triage.get_within(_PATIENCE_SECONDS) or ()
    except PinLaterError:
        return []
    return [finding for finding in found if finding.kind in STORE_KINDS]


def _methods(seconds: float, first: ServerFigures, last: ServerFigures) -> list[tuple[Calls, float]]:
    """Return the calls of each method with its errors per second, the most frequent method first."""
    found = sorted(_calls(CALL_SECONDS, seconds, first, last), key=lambda one: -one.rate)
    return [(one, (_errors(last, one.name) - _errors(first, one.name)) / seconds) for one in found]


def _operations(seconds: float, first: ServerFigures, last: ServerFigures) -> list[Calls]:
    """Return the calls to the store, with the operation that took most time in total first."""
    return sorted(_calls(STORE_SECONDS, seconds, first, last), key=lambda one: -one.total)


def _calls(metric: str, seconds: float, first: ServerFigures, last: ServerFigures) -> list[Calls]:
    found = []
    for (name,) in last.histograms.get(metric, {}):
        added = last.added(first, metric, name)
        if added.size:
            times = (added.sum, added.mean, added.quantile(0.95), added.quantile(0.99))
            found.append(Calls(name, added.size / seconds, *times))
    return found


def _errors(figures: ServerFigures, method: str) -> int:
    return sum(count for labels, count in figures.counters.get(ERRORS, {}).items() if labels[0] == method)


def _commits(seconds: float, first: ServerFigures, last: ServerFigures) -> Commits:
    times = last.added(first, COMMIT_SECONDS)
    return Commits(times.size / seconds, last.added(first, COMMIT_REQUESTS).mean, times.mean, times.quantile(0.95))


def _shard(shard: ShardHealth, seconds: float, first: ServerFigures, last: ServerFigures) -> ShardRow:
    """Return a shard with its calls, or with its commits if the store is one file."""
    if not seconds:
        return ShardRow(shard)
    if shard.connections is None:
        commits = _commits(seconds, first, last)
        return ShardRow(shard, commits.rate, commits.mean, commits.p95)
    if last.histogram(SHARD_SECONDS, shard.name) is None:
        return ShardRow(shard)
    added = last.added(first, SHARD_SECONDS, shard.name)
    failures = last.total(SHARD_FAILURES, shard.name) - first.total(SHARD_FAILURES, shard.name)
    return ShardRow(shard, added.size / seconds, added.mean, added.quantile(0.95), max(failures, 0))


def _spaced(row: ShardRow, now: ServerFigures) -> ShardRow:
    name = row.shard.name
    return row._replace(used_bytes=now.level(STORE_BYTES, name), free_bytes=now.level(FREE_BYTES, name))
