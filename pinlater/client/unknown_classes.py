"""Job classes that workers do not know, from worker reports."""

from __future__ import annotations

from collections.abc import Iterable

from pinlater.model.class_name import NO_CLASS
from pinlater.model.workers import UnknownJobs, WorkerReport


def unknown_classes(reports: Iterable[WorkerReport], queue: str | None = None) -> list[UnknownJobs]:
    """Return each unknown class once, with the returns of all workers added up, sorted by queue and name.

    Args:
        reports: worker reports.
        queue: queue of the jobs; None for all.
    """
    return by_class(jobs for report in reports for jobs in report.unknown if queue in {None, jobs.queue})


def by_class(returned: Iterable[UnknownJobs]) -> list[UnknownJobs]:
    """Return each class once, with the returns of all workers added up, sorted by queue and name."""
    found: dict[tuple[str, str], UnknownJobs] = {}
    for jobs in returned:
        known = found.get(jobs[:2], UnknownJobs(*jobs[:2], 0, 0, jobs.first_ms))
        found[jobs[:2]] = known._replace(
            returned=(known.returned or 0) + (jobs.returned or 0),
            last_ms=max(known.last_ms or 0, jobs.last_ms or 0),
            first_ms=min(filter(None, (known.first_ms, jobs.first_ms)), default=None),
        )
    return [found[key] for key in sorted(found)]


def jobs_of_class(name: str) -> str:
    """Return which jobs workers cannot read, in words: those of a class, or those whose bodies name none."""
    return "jobs without a class" if name == NO_CLASS else f"jobs of class {name}"


def deployment_for(name: str) -> str:
    """Return a sentence that says what to deploy for jobs of a class that workers cannot read."""
    if name == NO_CLASS:
        return "If another program writes them, deploy a RawJob class for the queue; if not, delete or edit them."
    return f"Deploy workers that load {name}, with fields that fit."
