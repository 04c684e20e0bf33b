"""Recovers the jobs of a job process that died."""

from __future__ import annotations

import logging
import socket
import time
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from pinlater.model.body_metadata import UNDO_ATTEMPTS, body_to_undo, read_saga
from pinlater.model.statistics import RunStatistics
from pinlater.model.status import MAX_STATUS_CHARACTERS, format_origin
from pinlater.protocol.conversion.acks import AckFields
from pinlater.worker.claim_table.counters import CANCELLED, RETURNED, ProcessCounters
from pinlater.worker.claim_table.exit_queue import ProcessExit
from pinlater.worker.claim_table.snapshot import (
    DISCARDED,
    FAILED,
    HELD,
    RETURNING,
    RUNNING,
    SUCCEEDED,
    HeldBatch,
    HeldJob,
)
from pinlater.worker.keeper.crashes import crash_mark, crashes_in, is_poison
from pinlater.worker.keeper.service_client import ClaimKey, KeeperClient
from pinlater.worker.session.batch import queue_of

HeldRef = tuple[HeldBatch, HeldJob]

_UNEXPLAINED = "failed; its process ended before it could say why\n"

log = logging.getLogger(__name__)


class CrashedAttempt(NamedTuple):
    """A failed attempt of a job whose process has ended.

    Attributes:
        descriptor: descriptor of the job.
        claim: claim of the job.
        status: text for the job's custom status.
        delay_ms: milliseconds until the next attempt.
        is_final: there is no next attempt.
        job: name of its class.
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
        """The ack that tells the server of it."""
        told = self.descriptor, self.status, self.delay_ms, self.claim, self.is_final or None
        return (*told, None, (self.is_final and self.ending == CANCELLED) or None, self.job)


def recover_jobs(
    ended: ProcessExit, client: KeeperClient, record_retry_due: Callable[[int], object], counters: ProcessCounters
) -> None:
    """Ack finished jobs of an exited process, fail those that ran, release those not started. May be repeated.

    Args:
        ended: the exit and what the process held.
        client: client for the calls.
        record_retry_due: called with the moment (monotonic milliseconds) when all jobs put back are due.
        counters: counters of job endings.

    Raises:
        CallError, ServiceError: not all calls succeeded.
    """
    snapshot, info = ended.snapshot, ended.info
    suspects = _suspects(ended)
    crashed = _crashed_attempts(ended, suspects, client)
    failed = _failed_attempts(ended) + crashed
    succeeded = [(job.descriptor, batch.claim, job.result) for batch, job in snapshot.in_state(SUCCEEDED)]
    suspect_names = {job.descriptor for _, job in suspects}
    unaffected = [(batch, job) for batch, job in snapshot.in_state(RUNNING) if job.descriptor not in suspect_names]
    unstarted = _in_state(ended, HELD)
    cut_off = _in_state(ended, RETURNING) + [(job.descriptor, batch.claim) for batch, job in unaffected]
    client.failed(failed)
    client.succeeded(succeeded)
    client.release(unstarted + cut_off)
    returned = Counter(queue_of(descriptor) for descriptor, _ in unstarted)
    for source in map(snapshot.identity.source_of, snapshot.unread):
        returned += client.release_claims(snapshot.identity.queues, source)
    delays = [job.delay_ms for job in failed if not job.is_final]
    record_retry_due(time.monotonic_ns() // 1_000_000 + max(delays, default=0) + 5)
    runs = [(job, report.ending) for (_, job), report in zip(suspects, crashed, strict=True)]
    _count(counters, info.died_ns, [*runs, *((job, "interrupted") for _, job in unaffected)], returned)
    client.tell_runs(
        (job.descriptor, RunStatistics(job.kind, failed=1, given_up=int(attempt.is_final)))
        for (_, job), attempt in zip(suspects, crashed, strict=True)
        if attempt.ending != CANCELLED
    )
    log.info(
        "recovered jobs of process %d: %d failed, %d succeeded, %d released",
        *(info.pid, len(failed), len(succeeded), len(unstarted) + len(cut_off)),
    )


def _count(counters: ProcessCounters, died_ns: int, runs: list[tuple[HeldJob, str]], returned: Counter[str]) -> None:
    for job, ending in runs:
        run_ns = max(died_ns - job.started_ns, 0) if job.started_ns else 0
        counters.count_ending_of(queue_of(job.descriptor), job.kind, ending, run_ns)
    for queue, jobs in returned.items():
        counters.count_event(queue, RETURNED, jobs)


def _suspects(ended: ProcessExit) -> list[HeldRef]:
    """Return the running jobs one of which is to blame for the exit.

    For a passed time limit the job is known. All others are released, no attempt spent, including one that started
    when the kill was already decided: stacks are dumped between that decision and the kill.
    """
    if ended.info.was_interrupted:
        return []
    running = list(ended.snapshot.in_state(RUNNING))
    if ended.info.is_timeout:
        return [(batch, job) for batch, job in running if 0 < job.kill_ns <= ended.info.died_ns]
    return running


def _in_state(ended: ProcessExit, state: int) -> list[ClaimKey]:
    return [(job.descriptor, batch.claim) for batch, job in ended.snapshot.in_state(state)]


def _failed_attempts(ended: ProcessExit) -> list[CrashedAttempt]:
    return [
        CrashedAttempt(
            *(job.descriptor, batch.claim, f"[{_where(ended)}] {_UNEXPLAINED}", job.delay_ms),
            is_final=state == DISCARDED,
            job=job.kind,
        )
        for state in (FAILED, DISCARDED)
        for batch, job in ended.snapshot.in_state(state)
    ]


def _crashed_attempts(ended: ProcessExit, suspects: list[HeldRef], client: KeeperClient) -> list[CrashedAttempt]:
    return [_ended_attempt(ended, batch, job, client, len(suspects)) for batch, job in suspects]


def _ended_attempt(
    ended: ProcessExit, batch: HeldBatch, job: HeldJob, client: KeeperClient, suspects: int
) -> CrashedAttempt:
    if job.is_cancelled:
        mark = read_saga(client.lookup_job(job.descriptor)[1])
        if mark is None or not mark.steps or not mark.why:
            return _undoing_first(ended, job, client, _cancelled_job(ended, batch, job))
    return _undoing_first(ended, job, client, _crashed_attempt(ended, batch, job, client, suspects))


def _crashed_attempt(
    ended: ProcessExit, batch: HeldBatch, job: HeldJob, client: KeeperClient, suspects: int
) -> CrashedAttempt:
    if ended.info.is_timeout:
        return _overdue_job(ended, batch, job)
    if suspects == 1:
        return _crashed_job(ended, batch, job, client)
    return _possible_culprit(ended, batch, job, suspects)


def _undoing_first(ended: ProcessExit, job: HeldJob, client: KeeperClient, attempt: CrashedAttempt) -> CrashedAttempt:
    """Let a job that is given up undo its sagas first, if it has any; otherwise return its end as it is."""
    if not attempt.is_final:
        return attempt
    _, body = client.lookup_job(attempt.descriptor)
    new_body = body_to_undo(body, _evidence(ended, job), is_cancelled=job.is_cancelled)
    if new_body is None:
        return attempt
    client.replace_body((attempt.descriptor, attempt.claim), new_body, 1 + UNDO_ATTEMPTS)
    return attempt._replace(is_final=False, delay_ms=0)


def _cancelled_job(ended: ProcessExit, batch: HeldBatch, job: HeldJob) -> CrashedAttempt:
    """Return the end of a job that was asked to stop, and ran until its process died."""
    how = "cancelled, and did not stop in time" if ended.info.is_timeout else "cancelled"
    status = f"[{_where(ended)}] {how}: {_evidence(ended, job)}\n"
    log.warning("%s: %s", job.descriptor, status.strip())
    return CrashedAttempt(job.descriptor, batch.claim, status, 0, is_final=True, job=job.kind, ending=CANCELLED)


def _overdue_job(ended: ProcessExit, batch: HeldBatch, job: HeldJob) -> CrashedAttempt:
    """Return the failure of a job killed for a time limit; it counts like a soft time-out, not as a crash."""
    status = f"[{_where(ended)}] time-out: {_evidence(ended, job)}\n"
    log.error("%s: %s", job.descriptor, status.strip())
    is_final = _is_too_late(ended, job)
    return CrashedAttempt(job.descriptor, batch.claim, status, job.delay_ms, is_final, job.kind, "timed_out")


def _crashed_job(ended: ProcessExit, batch: HeldBatch, job: HeldJob, client: KeeperClient) -> CrashedAttempt:
    """Return the crash of the only running job; it is given up after too many crashes."""
    before, body = client.lookup_job(job.descriptor)
    crashes = crashes_in(before) + 1
    is_given_up = is_poison(crashes, body)
    status = crash_mark(_where(ended), crashes, _evidence(ended, job), is_given_up=is_given_up)
    if len(before) + len(status) > MAX_STATUS_CHARACTERS:
        client.prepend_status((job.descriptor, batch.claim), status)
    log.error("%s: %s", job.descriptor, status.strip())
    is_final = is_given_up or _is_too_late(ended, job)
    return CrashedAttempt(
        *(job.descriptor, batch.claim, status, job.delay_ms, is_final, job.kind),
        ending="poison" if is_given_up else "crashed",
    )


def _possible_culprit(ended: ProcessExit, batch: HeldBatch, job: HeldJob, number: int) -> CrashedAttempt:
    """Return the failure of one of several jobs that ran when the process died; nobody knows which one caused it.

    So it does not count towards poison: otherwise jobs would be given up for running beside a poison job.
    """
    status = f"[{_where(ended)}] crash of one of {number} jobs that ran: {_evidence(ended, job)}\n"
    log.error("%s: %s", job.descriptor, status.strip())
    return CrashedAttempt(job.descriptor, batch.claim, status, job.delay_ms, _is_too_late(ended, job), job.kind)


def _is_too_late(ended: ProcessExit, job: HeldJob) -> bool:
    """Tell whether the next attempt would come after the job's ``give_up_after``."""
    return 0 < job.give_up_ns <= ended.info.died_ns + job.delay_ms * 1_000_000


def _where(ended: ProcessExit) -> str:
    since_seconds = (time.monotonic_ns() - ended.info.died_ns) / 1e9
    return format_origin(socket.gethostname(), ended.info.pid, time.time() - since_seconds)


def _evidence(ended: ProcessExit, job: HeldJob) -> str:
    seconds = max(ended.info.died_ns - job.started_ns, 0) / 1e9 if job.started_ns else 0.0
    verdict = " (too late to try again: its give_up_after)" if _is_too_late(ended, job) else ""
    return f"the process died while it ran {job.kind} for {seconds:.2f} s: {ended.info.description}{verdict}"
