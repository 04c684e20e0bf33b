"""Failed attempts that the keeper reports in place of the job's process, which has ended or is busy."""

from __future__ import annotations

import time
from typing import NamedTuple

from pinlater.protocol.conversion.acks import AckFields
from pinlater.worker.claim_table.counters import CANCELLED
from pinlater.worker.claim_table.exit_queue import ExitInfo
from pinlater.worker.claim_table.snapshot import DISCARDED, HeldBatch, HeldJob
from pinlater.worker.session.outcome import Failure

_RETRY_SLACK_MS = 5


class FailureReport(NamedTuple):
    """A failed attempt.

    Attributes:
        descriptor: descriptor of the job.
        claim: claim of the job.
        status: text for the job's custom status.
        delay_ms: milliseconds until the next attempt.
        is_final: there is no next attempt.
        job: name of the job's class.
        ending: how it is counted; see ``counters.ENDINGS``.
    """

    descriptor: str
    claim: str
    status: str
    delay_ms: int
    is_final: bool
    job: str
    ending: str = "crashed"

    @property
    def ack(self) -> AckFields:
        """The ack that reports the failure to the server."""
        told = self.descriptor, self.status, self.delay_ms, self.claim, self.is_final or None
        return (*told, None, (self.is_final and self.ending == CANCELLED) or None, self.job)

    @property
    def is_retried(self) -> bool:
        """Whether there is a next attempt."""
        return not self.is_final

    @property
    def retry_due_ms(self) -> int:
        """When the job is due again if it is reported now, in monotonic milliseconds; 0: never."""
        return due_ms_after(self.delay_ms) if self.is_retried else 0

    def retried_at_once(self) -> FailureReport:
        """Return the same failure, with a next attempt that is due at once."""
        return self._replace(is_final=False, delay_ms=0)


def recorded_failure(batch: HeldBatch, job: HeldJob) -> FailureReport | None:
    """Return the failure that the process has written to the claim table; None if there was no room for it."""
    if job.failure is None:
        return None
    failure = Failure.decode(job.failure)
    told = failure.status, job.delay_ms, job.state == DISCARDED, failure.job, failure.ending
    return FailureReport(job.descriptor, batch.claim, *told)


def unexplained_failure(info: ExitInfo, batch: HeldBatch, job: HeldJob) -> FailureReport:
    """Return a failure of which only that it happened is known: the claim table had no room for more."""
    status = f"[{info.origin}] failed; its process ended before it could say why\n"
    return FailureReport(job.descriptor, batch.claim, status, job.delay_ms, job.state == DISCARDED, job.kind)


def due_ms_after(delay_ms: int) -> int:
    """Return when a job that goes back now is due, in monotonic milliseconds."""
    return time.monotonic_ns() // 1_000_000 + delay_ms + _RETRY_SLACK_MS
