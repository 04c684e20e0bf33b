"""State that all pages share."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, fields

from starlette.requests import Request

from pinlater.client.async_verbs import AsyncVerbs
from pinlater.client.keyed_client import KeyedClient
from pinlater.client.periodic import PeriodicJobs
from pinlater.client.server_clock import ServerClock
from pinlater.dashboard.bulk_actions import BulkActions
from pinlater.dashboard.chart_data import QueueCharts
from pinlater.dashboard.claim_holders import ClaimDirectory, ClaimScan
from pinlater.dashboard.class_figures import ClassHistories, ClassHistory, Span
from pinlater.dashboard.clock_reader import ClockReader
from pinlater.dashboard.count_cache import CountCache
from pinlater.dashboard.failing_groups import MOST_GROUPS, Trends, read_trends
from pinlater.dashboard.first_seen import FirstSeen
from pinlater.dashboard.forms import RequestRefused
from pinlater.dashboard.history import History
from pinlater.dashboard.options import DashboardOptions
from pinlater.dashboard.periodic_directory import PeriodicDirectory
from pinlater.dashboard.sessions import PasswordChecker, Role, Sessions
from pinlater.dashboard.triage import Triage
from pinlater.dashboard.ttl_cache import TtlCache
from pinlater.dashboard.watch import ClaimWatcher
from pinlater.model.failure_groups import FailureGroup
from pinlater.model.workers import JobClass, WorkerReport

_STALE_SECONDS = 60.0
"""How long old answers to slow calls are shown while new ones are loaded."""

_COUNTING_FACTOR = 50.0
"""How many times as long as the count took the counts of failure groups are cached."""

_SHORTLY_STALE_SECONDS = 10.0
"""The same for other calls."""


@dataclass(frozen=True, slots=True)
class AppState:
    """Everything the pages need.

    Attributes:
        options: options of the dashboard.
        client: client of the server.
        clock: tells the store's time, by which all times on the pages are.
        clock_reader: sets the clock.
        searcher: client for body searches, one at a time and never retried, since each may cost the server seconds.
        counts: cached job counts.
        history: metrics of the last hour.
        bulk_actions: planned and running bulk actions.
        first_seen: when claims were first seen.
        claim_watcher: records when claims were first seen.
        sessions: open login sessions.
        passwords: checks passwords.
        failure_groups: cached failure groups by queue; the empty name stands for all queues.
        failure_trends: cached failed attempts per hour of the failure groups of some queues; the key is their names.
        periodic: cached periodic jobs by queue, likewise.
        classes: cached figures of job classes, by span and queue.
        queues_of_class: cached figures of a class in each queue, by span and class.
        claims: cached claims of running jobs by queue, likewise.
        reports: cached worker reports; the key is ignored.
        oldest_due: cached times since when the oldest due job of each queue has been due; the key is ignored.
        search: lock held by a search; only one may run.
        triage: finds what is wrong.
        charts: reads charts of queues.
    """

    options: DashboardOptions
    client: KeyedClient
    clock: ServerClock
    clock_reader: ClockReader
    searcher: AsyncVerbs
    counts: CountCache
    history: History
    bulk_actions: BulkActions
    first_seen: FirstSeen
    claim_watcher: ClaimWatcher
    sessions: Sessions
    passwords: PasswordChecker
    failure_groups: TtlCache[str, list[FailureGroup]]
    failure_trends: TtlCache[frozenset[str], Trends]
    periodic: TtlCache[str, PeriodicJobs]
    classes: TtlCache[tuple[Span, str], ClassHistory]
    queues_of_class: TtlCache[tuple[Span, str], ClassHistory]
    claims: TtlCache[str, ClaimScan]
    reports: TtlCache[str, list[WorkerReport]]
    oldest_due: TtlCache[str, dict[str, int]]
    search: asyncio.Lock
    triage: Triage
    charts: QueueCharts

    async def close(self) -> None:
        """Stop the background work."""
        for part in (self.bulk_actions, self.triage, self.counts, self.charts):
            await part.close()
        for one in fields(self):
            if isinstance(answers := getattr(self, one.name), TtlCache):
                await answers.close()

    async def job_classes(self, queue: str) -> list[JobClass]:
        """Return the job classes of a queue that workers have reported, by name."""
        found: dict[str, JobClass] = {}
        for report in await self.reports.get(""):
            for one in report.classes:
                if one.queue == queue and not found.get(one.name, one._replace(schema="")).schema:
                    found[one.name] = one
        return sorted(found.values())

    def changed(self, queue: str) -> None:
        """Drop cached data that a change of a queue has made wrong."""
        self.counts.forget(queue)
        self.failure_groups.forget()
        self.claims.forget()
        self.triage.forget()


def make_app_state(options: DashboardOptions, client: KeyedClient, searcher: AsyncVerbs) -> AppState:
    """Build the shared state."""
    clock, first_seen = ServerClock(), FirstSeen()
    history = History(options.read_figures, clock.now)
    counts = CountCache(client, signs=history.signs)
    directory, histories = PeriodicDirectory(client), ClassHistories(client, clock.now)
    claims = ClaimDirectory(client, history, first_seen)

    async def groups_of(queue: str) -> list[FailureGroup]:
        return await client.failure_groups([queue] if queue else [], limit=MOST_GROUPS)

    failure_groups = TtlCache(groups_of, cost_factor=_COUNTING_FACTOR, stale_seconds=_SHORTLY_STALE_SECONDS)
    periodic = TtlCache(directory.find, stale_seconds=_STALE_SECONDS)
    reports: TtlCache[str, list[WorkerReport]]
    reports = TtlCache(lambda _: client.workers(), stale_seconds=_SHORTLY_STALE_SECONDS)

    def changed(queue: str) -> None:
        counts.forget(queue)
        failure_groups.forget()

    hashes = {Role.ADMIN: options.admin_hash, Role.READER: options.reader_hash}
    return AppState(
        options=options,
        client=client,
        clock=clock,
        clock_reader=ClockReader(client, clock),
        searcher=searcher,
        counts=counts,
        history=history,
        bulk_actions=BulkActions(client, changed),
        first_seen=first_seen,
        claim_watcher=ClaimWatcher(client, history, first_seen),
        sessions=Sessions(),
        passwords=PasswordChecker({role: stored for role, stored in hashes.items() if stored}),
        failure_groups=failure_groups,
        failure_trends=TtlCache(lambda queues: read_trends(client, queues, clock.now()), stale_seconds=_STALE_SECONDS),
        periodic=periodic,
        classes=TtlCache(lambda key: histories.of_queue(*key), stale_seconds=_STALE_SECONDS),
        queues_of_class=TtlCache(lambda key: histories.of_class(*key), stale_seconds=_STALE_SECONDS),
        claims=TtlCache(claims.find, stale_seconds=_SHORTLY_STALE_SECONDS),
        reports=reports,
        oldest_due=TtlCache(lambda _: client.oldest_due(), stale_seconds=_SHORTLY_STALE_SECONDS),
        search=asyncio.Lock(),
        triage=Triage(client, history, options.read_figures, periodic=periodic, groups=failure_groups, reports=reports),
        charts=QueueCharts(client, history, clock.now),
    )


def get_app_state(request: Request) -> AppState:
    """Return the shared state."""
    app: AppState = request.app.state.dashboard
    return app


async def known_queue(app: AppState, name: str) -> str:
    """Return ``name`` if there is such a queue.

    Raises:
        RequestRefused: there is no such queue.
    """
    if name not in await app.client.queue_names():
        raise RequestRefused(404, f"there is no queue {name[:100]}")
    return name
