"""Alerts about findings that come and go: once for each, and again if it lasts."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from pinlater.triage.findings import Finding, Kind, Severity

REPEAT_SECONDS = 3600.0
"""Interval at which a lasting finding is reported again."""

_GONE_AFTER = 2
"""Number of checks in a row that must miss a finding before it is over: many come and go with the load. Checks that
could not look for its kind do not count."""

_PASSING = frozenset({Kind.ONE_SERVER_AWAY, Kind.SERVER_NOT_READY})
"""Kinds that a server's restart brings about for a moment: reported when two checks in a row have found them."""


class Event(StrEnum):
    """What happened to a finding."""

    NEW = "new"
    WORSE = "worse"
    STILL = "still"
    GONE = "gone"


class Alert(NamedTuple):
    """A report of one event of a finding.

    Attributes:
        event: what happened to the finding.
        finding: the finding as it was last seen.
    """

    event: Event
    finding: Finding

    @property
    def text(self) -> str:
        """The alert on one line."""
        finding = self.finding
        if self.event is Event.GONE:
            return f"over: {finding.title}"
        again = {Event.WORSE: ", worse than before", Event.STILL: ", as before"}.get(self.event, "")
        return f"{finding.severity.value}{again}: {finding.title}. {finding.sentence} {finding.advice}"

    def to_json(self) -> dict[str, Any]:
        """Return the alert as JSON values; ``key`` is the same for all alerts of one finding."""
        return {
            "event": self.event.value,
            "key": " ".join(self.finding.key),
            "text": self.text,
            "finding": self.finding.to_json(),
        }


@dataclass(slots=True)
class _ToldFinding:
    """A reported finding.

    Attributes:
        finding: the finding as it was last seen.
        told_at: monotonic seconds of its last alert.
        severity: its severity at that time.
        missed: number of checks in a row that have missed it.
    """

    finding: Finding
    told_at: float
    severity: Severity
    missed: int = 0


class AlertBook:
    """Remembers which findings were reported.

    Args:
        least: minimum severity of the findings to report.
    """

    def __init__(self, least: Severity = Severity.WARNING) -> None:
        self._least = least
        self._known: dict[tuple[str, str], _ToldFinding] = {}
        self._passing: set[tuple[str, str]] = set()  # found by the last check

    def update(self, findings: Iterable[Finding], now: float, unchecked: Collection[Kind] = ()) -> list[Alert]:
        """Return the alerts due after a check.

        Args:
            findings: all findings of the check.
            now: monotonic seconds.
            unchecked: kinds of findings that the check could not look for.
        """
        found = {finding.key: finding for finding in findings if finding.severity.is_at_least(self._least)}
        passing = {key for key, finding in found.items() if finding.kind in _PASSING}
        doubtful, self._passing = passing - self._passing - self._known.keys(), passing
        certain = {key: finding for key, finding in found.items() if key not in doubtful}
        return [*self._present(certain, now), *self._gone(found, unchecked)]

    def _present(self, found: dict[tuple[str, str], Finding], now: float) -> Iterable[Alert]:
        for key, finding in found.items():
            known = self._known.get(key)
            event = self._event(known, finding, now)
            if event is not None:
                self._known[key] = known = _ToldFinding(finding, now, finding.severity)
                yield Alert(event, finding)
            if known is not None:
                known.finding, known.missed = finding, 0

    @staticmethod
    def _event(known: _ToldFinding | None, finding: Finding, now: float) -> Event | None:
        if known is None:
            return Event.NEW
        if not known.severity.is_at_least(finding.severity):
            return Event.WORSE
        return Event.STILL if now - known.told_at >= REPEAT_SECONDS else None

    def _gone(self, found: dict[tuple[str, str], Finding], unchecked: Collection[Kind]) -> Iterable[Alert]:
        for key, known in list(self._known.items()):
            if key not in found and known.finding.kind not in unchecked:
                known.missed += 1
                if known.missed >= _GONE_AFTER:
                    del self._known[key]
                    yield Alert(Event.GONE, known.finding)
