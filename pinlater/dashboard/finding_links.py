"""Links from findings to the pages where they can be fixed."""

from __future__ import annotations

from typing import NamedTuple

from pinlater.dashboard.addresses import address
from pinlater.model.class_name import NO_CLASS
from pinlater.triage.findings import STORE_KINDS, Finding, Kind


class FindingLink(NamedTuple):
    """A path of the dashboard, and the text of its link."""

    path: str
    label: str


_FAILURES = {Kind.POISON, Kind.FAILING, Kind.GIVEN_UP}
_WORKER = {Kind.CANNOT_START, Kind.WORKER_SILENT, Kind.MEMORY_GROWS, Kind.CLOCK_OFF}
_WORKERS = {Kind.POOL_GONE, Kind.NO_WORKER}
_PERIODIC = {Kind.PERIODIC_FAILED, Kind.PERIODIC_LATE}


def link_of(finding: Finding, *, can_search: bool = True) -> FindingLink:
    """Return the link to the page where a finding can be fixed.

    Args:
        finding: the finding.
        can_search: whether bodies may be searched, which a list of the jobs of a class requires.
    """
    queue, kind = finding.queue or "", finding.kind
    if kind is Kind.STORE_FULL:
        return FindingLink("/server?space=1#space", "What takes the space")
    if kind in STORE_KINDS:
        return FindingLink("/server", "Server" if kind is Kind.CERTIFICATE_ENDS else "Store")
    if kind in _PERIODIC:
        return FindingLink(address("/periodic", {"queue": queue, "q": finding.job}), "Periodic job")
    if kind in _FAILURES:
        return FindingLink(address("/failing", {"queue": queue, "class": finding.job}), "Failures")
    if kind in _WORKERS:
        return FindingLink(address("/workers", {"queue": queue}), "Workers")
    if kind in _WORKER:
        return FindingLink(address("/workers", {"worker": finding.worker}), "Worker")
    if kind in {Kind.UNKNOWN_CLASS, Kind.UNFITTING_STEPS, Kind.MISSING_QUEUE}:
        job = finding.job if can_search and finding.job != NO_CLASS else ""
        return FindingLink(address("/jobs", {"queue": queue, "state": "scheduled", "class": job}), "Jobs")
    if kind is Kind.RETRYING:
        return FindingLink(address("/jobs", {"queue": queue, "state": "retrying"}), "Jobs")
    if kind is Kind.CLASS_FLOOD:
        job = finding.job if can_search else ""
        return FindingLink(address("/jobs", {"queue": queue, "state": "pending", "class": job}), "Jobs")
    if kind is Kind.KEY_HELD:
        return FindingLink(address("/job", {"id": finding.subject}), "Job")
    if kind is Kind.KEY_FLOOD:
        return FindingLink(address("/jobs", {"queue": queue, "state": "scheduled"}), "Jobs")
    return FindingLink(f"/queues/{queue}" if queue else "/workers", "Queue" if queue else "Workers")
