"""Findings: what is wrong, in words, with what to do about it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from math import inf
from typing import Any, NamedTuple


class Severity(StrEnum):
    """How bad a finding is; the worst comes first."""

    CRITICAL = "critical"
    """Jobs do not run, or cannot be reached: act now."""
    WARNING = "warning"
    """The problem grows, or jobs fail for good: act today."""
    NOTICE = "notice"
    """It may be intended."""

    def is_at_least(self, other: Severity) -> bool:
        """Return whether this is as bad as the other, or worse."""
        return _SEVERITIES.index(self) <= _SEVERITIES.index(other)


class Kind(StrEnum):
    """Kind of problem."""

    SERVER_AWAY = "server_away"
    ONE_SERVER_AWAY = "one_server_away"
    SERVER_NOT_READY = "server_not_ready"
    SHARD_AWAY = "shard_away"
    STORE_FULL = "store_full"
    STORE_SLOW = "store_slow"
    CERTIFICATE_ENDS = "certificate_ends"
    POOL_GONE = "pool_gone"
    NO_WORKER = "no_worker"
    POISON = "poison"
    UNKNOWN_CLASS = "unknown_class"
    UNFITTING_STEPS = "unfitting_steps"
    MISSING_QUEUE = "missing_queue"
    RETRYING = "retrying"
    FAILING = "failing"
    GIVEN_UP = "given_up"
    PAUSED = "paused"
    KEY_HELD = "key_held"
    KEY_FLOOD = "key_flood"
    CLASS_FLOOD = "class_flood"
    BACKLOG = "backlog"
    PERIODIC_FAILED = "periodic_failed"
    PERIODIC_LATE = "periodic_late"
    CANNOT_START = "cannot_start"
    WORKER_SILENT = "worker_silent"
    MEMORY_GROWS = "memory_grows"
    CLOCK_OFF = "clock_off"


_SEVERITIES = list(Severity)
_KINDS = list(Kind)

STORE_KINDS = frozenset(
    {
        Kind.SERVER_AWAY,
        Kind.ONE_SERVER_AWAY,
        Kind.SERVER_NOT_READY,
        Kind.SHARD_AWAY,
        Kind.STORE_FULL,
        Kind.STORE_SLOW,
        Kind.CERTIFICATE_ENDS,
    },
)
"""Kinds about the server and its store; they concern all jobs, however many there are."""

_MEASURES = {
    Kind.STORE_SLOW: "seconds",
    Kind.PERIODIC_LATE: "late_seconds",
    Kind.MEMORY_GROWS: "grown_bytes",
    Kind.CLOCK_OFF: "ahead_seconds",
}
"""Kind -> the number that ranks findings of the kind, worst first, if affected jobs and time are equal."""


class Finding(NamedTuple):
    """One problem.

    Attributes:
        kind: kind of problem.
        severity: how bad it is.
        subject: what it is about: a queue, a worker, a server, a shard, or a class in a queue. Unescaped text of users.
        title: a few words, without numbers that change.
        sentence: what is wrong, with numbers.
        advice: what to do about it.
        command: a command line that helps; empty for none.
        since_ms: when it began, epoch milliseconds; None if unknown.
        queue: the queue; None if it is not about one.
        job: the job class, likewise.
        group_id: the group of failures, likewise.
        worker: the id of the worker, likewise.
        shard: the shard, likewise.
        numbers: what was measured, by name.
        affected: maximum number of jobs that it delays or has cost; 0 if unknown.
    """

    kind: Kind
    severity: Severity
    subject: str
    title: str
    sentence: str
    advice: str
    command: str = ""
    since_ms: int | None = None
    queue: str | None = None
    job: str | None = None
    group_id: int | None = None
    worker: str | None = None
    shard: str | None = None
    numbers: Mapping[str, float] = {}
    affected: int = 0

    @property
    def key(self) -> tuple[str, str]:
        """Identity of the finding, which stays the same as long as it lasts."""
        return self.kind.value, self.subject

    def to_json(self) -> dict[str, Any]:
        """Return the finding as JSON values."""
        return {**self._asdict(), "kind": self.kind.value, "severity": self.severity.value}


def sickest_first(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings in the order in which a person should look at them.

    By severity, then by the number of affected jobs, largest first, then by age, oldest first.
    """
    return sorted(findings, key=_rank)


def _rank(finding: Finding) -> tuple[int, float, float, int, float, str]:
    return (
        _SEVERITIES.index(finding.severity),
        -inf if finding.kind in STORE_KINDS else -finding.affected,
        inf if finding.since_ms is None else finding.since_ms,
        _KINDS.index(finding.kind),
        _measure(finding),
        finding.subject,
    )


def _measure(finding: Finding) -> float:
    """Return a sort key among findings of a kind: the worse the finding, the lower."""
    if finding.kind is Kind.STORE_FULL:
        return finding.numbers.get("free_bytes", inf)
    return -abs(finding.numbers.get(_MEASURES.get(finding.kind, ""), 0.0))
