"""Rows of lists of jobs: class, arguments and error of each job, and the times that matter in its state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pinlater.dashboard.app_state import AppState
from pinlater.dashboard.first_seen import ClaimHolder, parse_holder
from pinlater.dashboard.workforce import run_of
from pinlater.model.body_summary import SUMMARY_BYTES, BodySummary, summarize
from pinlater.model.failure_groups import error_line
from pinlater.model.jobs import JobInfo
from pinlater.model.progress import Progress
from pinlater.model.state import JobState

_PROGRESS_BYTES = 8192
"""Bytes that are read of a running job's body, since its progress is at the end."""


class JobRow(NamedTuple):
    """A row of a list of jobs.

    Attributes:
        info: the job, with the beginning of its body, unless bodies are hidden.
        summary: its class and arguments; the arguments are empty where bodies are hidden.
        error: error line of its last failure, or else its status.
        holder: holder of its claim; None if it is not claimed.
        since_ms: epoch milliseconds since which it has been running; None if unknown, or if it does not run.
        is_exact: whether its worker has reported ``since_ms``; otherwise it may have started earlier.
    """

    info: JobInfo
    summary: BodySummary
    error: str
    holder: ClaimHolder | None = None
    since_ms: int | None = None
    is_exact: bool = False

    @property
    def is_retry(self) -> bool:
        """Whether the job waits for another attempt after a failed one."""
        return self.info.state is JobState.PENDING and bool(self.info.failed_attempts)

    @property
    def attempts(self) -> int:
        """Number of attempts, including the current or successful one."""
        count = self.info.own_attempts
        failed = count.allowed - count.left
        return max(failed, 0) + (self.info.state in {JobState.IN_PROGRESS, JobState.SUCCEEDED})

    @property
    def progress(self) -> Progress | None:
        """Progress that the job reports; None if it reports none, or does not run."""
        return self.info.progress if self.info.state is JobState.IN_PROGRESS else None


async def read_rows(app: AppState, jobs: Sequence[JobInfo]) -> list[JobRow]:
    """Return the rows of jobs, reading the beginnings of their bodies; jobs that no longer exist are left out.

    Raises:
        PinLaterError: the server does not answer.
    """
    is_running = any(info.state is JobState.IN_PROGRESS for info in jobs)
    size = _PROGRESS_BYTES if is_running else SUMMARY_BYTES
    names = [info.descriptor for info in jobs]
    found = await app.client.lookup(names, include_body=True, max_body_bytes=size) if names else {}
    reports = await app.reports.get("") if is_running else []
    rows = []
    for info in jobs:
        known = found.get(info.descriptor)
        if known is None:
            continue
        summary, body = summarize(known.body), known.body
        if app.options.hides_bodies:
            summary, body = summary._replace(arguments=""), None
        row = JobRow(info._replace(body=body), summary, error_line(info.status))
        holder = parse_holder(info.claim) if info.claim else None
        if info.state is JobState.IN_PROGRESS:
            run = run_of(reports, info.descriptor, holder.host, holder.pid) if holder and holder.host else None
            since_ms = app.first_seen.since_ms(info) if run is None else run.since_ms
            row = row._replace(since_ms=since_ms, is_exact=run is not None)
        rows.append(row._replace(holder=holder))
    return rows
