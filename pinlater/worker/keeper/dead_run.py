"""Finds out what to report about a run that ended with its process."""

from __future__ import annotations

import logging
from functools import cached_property

from pinlater.model.body_metadata import (
    PERIODIC_SPARE_ATTEMPTS,
    UNDO_ATTEMPTS,
    body_to_undo,
    read_recurrence,
    read_saga,
)
from pinlater.model.status import MAX_STATUS_CHARACTERS
from pinlater.worker.claim_table.counters import CANCELLED
from pinlater.worker.claim_table.exit_queue import ExitInfo
from pinlater.worker.claim_table.snapshot import HeldBatch, HeldJob
from pinlater.worker.keeper.crashes import crash_mark, crashes_in, is_poison, is_recorded
from pinlater.worker.keeper.failure_report import FailureReport
from pinlater.worker.keeper.service_client import KeeperClient

log = logging.getLogger(__name__)


class DeadRun:
    """The run of a job whose process died before it could say how the run ended.

    Args:
        info: how the process ended.
        batch: the job's batch.
        job: the job, as the claim table has it.
        client: reads the job from its store.
    """

    def __init__(self, info: ExitInfo, batch: HeldBatch, job: HeldJob, client: KeeperClient) -> None:
        self._info = info
        self._claim = batch.claim
        self._job = job
        self._client = client
        self._where = info.origin
        self._is_too_late = 0 < job.give_up_ns <= info.died_ns + job.delay_ms * 1_000_000
        seconds = max(info.died_ns - job.started_ns, 0) / 1e9 if job.started_ns else 0.0
        verdict = " (too late to try again: its give_up_after)" if self._is_too_late else ""
        self._evidence = f"the process died while it ran {job.kind} for {seconds:.2f} s: {info.description}{verdict}"

    def failure(self, suspects: int) -> FailureReport:
        """Return the failure of a run that may be to blame for the exit; a job that is given up undoes its sagas first.

        Args:
            suspects: how many runs may be to blame.
        """
        if self._job.is_cancelled and not self._undoes:
            report = self._cancelled()
        elif self._info.is_timeout:
            report = self._overdue()
        elif suspects == 1:
            report = self._crashed()
        else:
            report = self._perhaps_crashed(suspects)
        level = logging.WARNING if report.ending == CANCELLED else logging.ERROR
        log.log(level, "%s: %s", report.descriptor, report.status.strip())
        return report if report.is_retried else self._undoing_first(report)

    @cached_property
    def _stored(self) -> tuple[str, bytes]:
        """The job's custom status and body in its store."""
        return self._client.lookup_job(self._job.descriptor)

    @property
    def _undoes(self) -> bool:
        """Whether the job has given up, and had not undone all of its sagas."""
        mark = read_saga(self._stored[1])
        return mark is not None and bool(mark.steps) and bool(mark.why)

    def _cancelled(self) -> FailureReport:
        """Return the last failure of a job that was asked to stop, and ran until its process died."""
        how = "cancelled, and did not stop in time" if self._info.is_timeout else "cancelled"
        status = f"[{self._where}] {how}: {self._evidence}\n"
        return self._report(status, is_last=True, ending=CANCELLED)._replace(delay_ms=0)

    def _overdue(self) -> FailureReport:
        """Return the failure of a job killed for a time limit; it counts like a soft time-out, not as a crash."""
        return self._report(f"[{self._where}] time-out: {self._evidence}\n", ending="timed_out")

    def _crashed(self) -> FailureReport:
        """Return the crash of the only running job; it is given up after too many crashes."""
        before, body = self._stored
        is_repeated = is_recorded(before, self._where)  # by a recovery whose further calls, or their replies, were lost
        crashes = crashes_in(before) + (not is_repeated)
        is_given_up = is_poison(crashes, body)
        status = crash_mark(self._where, crashes, self._evidence, is_given_up=is_given_up)
        if not is_repeated and len(before) + len(status) > MAX_STATUS_CHARACTERS:
            self._client.prepend_status((self._job.descriptor, self._claim), status)
        return self._report(status, is_last=is_given_up, ending="poison" if is_given_up else "crashed")

    def _perhaps_crashed(self, suspects: int) -> FailureReport:
        """Return the failure of one of several jobs that ran when the process died; nobody knows which one caused it.

        So it does not count towards poison: otherwise jobs would be given up for running beside a poison job.
        """
        return self._report(f"[{self._where}] crash of one of {suspects} jobs that ran: {self._evidence}\n")

    def _report(self, status: str, *, is_last: bool = False, ending: str = "crashed") -> FailureReport:
        job, is_last = self._job, is_last or self._is_too_late
        return FailureReport(job.descriptor, self._claim, status, job.delay_ms, is_last, job.kind, ending)

    def _undoing_first(self, report: FailureReport) -> FailureReport:
        """Let the job undo its sagas in another attempt, if it has any; otherwise return ``report`` as it is."""
        _, body = self._stored
        new_body = body_to_undo(body, self._evidence, is_cancelled=self._job.is_cancelled)
        if new_body is None:
            return report
        again = read_recurrence(body)
        spare = PERIODIC_SPARE_ATTEMPTS if again is not None and again.schedule else 0
        self._client.replace_body((report.descriptor, report.claim), new_body, 1 + UNDO_ATTEMPTS + spare)
        return report.retried_at_once()
