"""All rules, and the diagnosis that they give together."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from pinlater.triage import failure_rules, periodic_rules, queue_rules, store_rules, worker_rules
from pinlater.triage.findings import Finding, Kind, sickest_first
from pinlater.triage.readings import Readings
from pinlater.triage.thresholds import Thresholds, configured

Rule = Callable[[Readings, Thresholds], Iterable[Finding]]

RULES: tuple[Rule, ...] = (
    store_rules.one_server_away,
    store_rules.server_not_ready,
    store_rules.shard_away,
    store_rules.store_full,
    store_rules.store_slow,
    store_rules.certificate_ends,
    queue_rules.pool_gone,
    queue_rules.no_worker,
    worker_rules.unknown_class,
    worker_rules.unfitting_steps,
    worker_rules.missing_queue,
    failure_rules.poison,
    failure_rules.retrying,
    failure_rules.failing,
    failure_rules.given_up,
    queue_rules.paused,
    queue_rules.key_held,
    queue_rules.key_flood,
    queue_rules.class_flood,
    queue_rules.backlog,
    periodic_rules.periodic_failed,
    periodic_rules.periodic_late,
    worker_rules.cannot_start,
    worker_rules.worker_silent,
    worker_rules.memory_grows,
    worker_rules.clock_off,
)
"""Each finds one kind of problem, from readings alone."""

_EXPLAINED_BY = {
    Kind.WORKER_SILENT: frozenset({Kind.POOL_GONE}),
    Kind.FAILING: frozenset({Kind.RETRYING}),
    Kind.GIVEN_UP: frozenset({Kind.FAILING, Kind.RETRYING, Kind.POISON}),
    Kind.CLASS_FLOOD: frozenset({Kind.KEY_FLOOD}),
    Kind.BACKLOG: frozenset({Kind.KEY_FLOOD, Kind.CLASS_FLOOD}),
}
"""Kind of a finding -> kinds that make it superfluous if they are about the same worker or queue."""


def diagnose(readings: Readings, thresholds: Thresholds | None = None) -> list[Finding]:
    """Return what is wrong, worst first; thresholds are by default those of the server's settings, if known."""
    told = {} if readings.server is None else readings.server.thresholds
    chosen = thresholds or configured(told)
    found = [finding for rule in RULES for finding in rule(readings, chosen)]
    places = {(finding.kind, place) for finding in found for place in _places(finding)}
    return sickest_first(finding for finding in found if not _is_explained(finding, places))


def _is_explained(finding: Finding, places: Collection[tuple[Kind, str]]) -> bool:
    causes = _EXPLAINED_BY.get(finding.kind, frozenset())
    return any((cause, place) in places for cause in causes for place in _places(finding))


def _places(finding: Finding) -> list[str]:
    """Return the queue and the worker that a finding is about."""
    return [place for place in (finding.queue, finding.worker) if place is not None]
