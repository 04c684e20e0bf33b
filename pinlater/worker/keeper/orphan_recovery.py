"""Recovers the jobs of a job process that died."""

from __future__ import annotations

import logging
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

from pinlater.model.body_metadata import (
    PERIODIC_SPARE_ATTEMPTS,
    UNDO_ATTEMPTS,
    body_to_undo,
    read_recurrence,
    read_saga,
)
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
from pinlater.worker.keeper.crashes import crash_mark, crashes_in, is_poison, is_recorded
from pinlater.worker.keeper.service_client import KeeperClient, Refusals
from pinlater.worker.session.batch import queue_of, shard_of
from pinlater.worker.session.outcome import Failure

HeldRef = tuple[HeldBatch, HeldJob]

_UNEXPLAINED = "failed; its process ended before it could say why\n"
_RETRY_SLACK_MS = 5

log = logging.getLogger(__name__)


class FailureReport(NamedTuple):
    """A failed attempt, reported in place of the job's process, which has ended or is busy.

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
    def retry_due_ms(self) -> int:
        """When the job is due again if it is reported now, in monotonic milliseconds; 0: never."""
        return 0 if self.is_final else _due_ms(self.delay_ms)


class OrphanRecovery:
    """Recovers the jobs of an exited process: acks finished ones, fails those that ran, releases those not started.

    Each shard's jobs are recovered by separate calls, so that a shard that is away does not hold up the others.

    Args:
        ended: the exit and what the process held.
        client: client for the calls.
        counters: counters of job endings.
    """

    def __init__(self, ended: ProcessExit, client: KeeperClient, counters: ProcessCounters) -> None:
        snapshot = ended.snapshot
        self._ended = ended
        self._client = client
        self._counters = counters
        self._suspects = _suspects(ended)
        self._shards = sorted({shard_of(job.descriptor) for batch in snapshot.batches for job in batch.jobs})
        self._unread = list(map(snapshot.identity.source_of, snapshot.unread))
        self._crashed: list[tuple[HeldJob, FailureReport]] = []
        self._interrupted: list[HeldJob] = []
        self._delays_ms = [0]
        self._jobs = Counter[str]()
        self._returned = Counter[str]()

    def attempt(self, record_retry_due: Callable[[int], object]) -> None:
        """Recover what is left; to be repeated until it succeeds.

        Args:
            record_retry_due: called with the time (monotonic milliseconds) when all jobs put back are due.

        Raises:
            CallError, ServiceError: not all calls succeeded.
        """
        refusals = Refusals()
        for left, recover in ((self._shards, self._recover_on), (self._unread, self._release_unread)):
            for one in list(left):
                with refusals:
                    recover(one)
                    left.remove(one)
        refusals.raise_first()
        record_retry_due(_due_ms(max(self._delays_ms)))
        self._count()
        log.info(
            "recovered jobs of process %d: %d failed, %d succeeded, %d released",
            self._ended.info.pid,
            self._jobs["failed"],
            self._jobs["succeeded"],
            self._jobs["released"],
        )

    def _recover_on(self, shard: str) -> None:
        """Recover the jobs of one shard. May be repeated."""
        suspects = [(batch, job) for batch, job in self._suspects if shard_of(job.descriptor) == shard]
        ended = [*self._in_state(FAILED, shard), *self._in_state(DISCARDED, shard)]
        failed = [recorded_failure(*one) or _unexplained_failure(self._ended, *one) for one in ended]
        suspect_names = {job.descriptor for _, job in suspects}
        succeeded = [(job.descriptor, batch.claim, job.result) for batch, job in self._in_state(SUCCEEDED, shard)]
        unstarted = list(self._in_state(HELD, shard))
        unaffected = [one for one in self._in_state(RUNNING, shard) if one[1].descriptor not in suspect_names]
        released = [*unstarted, *self._in_state(RETURNING, shard), *unaffected]
        crashed: list[FailureReport] = []
        refusals = Refusals()
        with refusals:
            crashed += [_ended_attempt(self._ended, *one, self._client, len(self._suspects)) for one in suspects]
            failed += crashed
        with refusals:
            self._client.failed(failed)
        with refusals:
            self._client.succeeded(succeeded)
        with refusals:
            self._client.release([(job.descriptor, batch.claim) for batch, job in released])
        refusals.raise_first()
        self._crashed += [(job, attempt) for (_, job), attempt in zip(suspects, crashed, strict=True)]
        self._interrupted += [job for _, job in unaffected]
        self._delays_ms += [attempt.delay_ms for attempt in failed if not attempt.is_final]
        self._jobs.update(failed=len(failed), succeeded=len(succeeded), released=len(released))
        self._returned.update(queue_of(job.descriptor) for _, job in unstarted)

    def _in_state(self, state: int, shard: str) -> Iterator[HeldRef]:
        held = self._ended.snapshot.in_state(state)
        return ((batch, job) for batch, job in held if shard_of(job.descriptor) == shard)

    def _release_unread(self, source: str) -> None:
        """Release the jobs claimed for a dequeue whose reply was not read."""
        self._returned += self._client.release_claims(self._ended.snapshot.identity.queues, source)

    def _count(self) -> None:
        """Count how the runs have ended, and report the crashed attempts to the servers."""
        runs = [(job, attempt.ending) for job, attempt in self._crashed]
        runs += [(job, "interrupted") for job in self._interrupted]
        died_ns = self._ended.info.died_ns
        for job, ending in runs:
            run_ns = max(died_ns - job.started_ns, 0) if job.started_ns else 0
            self._counters.count_ending_of(queue_of(job.descriptor), job.kind, ending, run_ns)
        for queue, jobs in self._returned.items():
            self._counters.count_event(queue, RETURNED, jobs)
        self._client.tell_runs(
            (job.descriptor, RunStatistics(job.kind, failed=1, given_up=int(attempt.is_final)))
            for job, attempt in self._crashed
            if attempt.ending != CANCELLED
        )


def _due_ms(delay_ms: int) -> int:
    """Return when a job that goes back now is due, in monotonic milliseconds."""
    return time.monotonic_ns() // 1_000_000 + delay_ms + _RETRY_SLACK_MS


def _suspects(ended: ProcessExit) -> list[HeldRef]:
    """Return the running jobs that may be to blame for the exit.

    After a kill for a time limit, these are the jobs past their limit. All others are released, no attempt spent,
    including one that started when the kill was already decided: stacks are dumped between that decision and the kill.
    """
    if ended.info.was_interrupted:
        return []
    running = list(ended.snapshot.in_state(RUNNING))
    if ended.info.is_timeout:
        return [(batch, job) for batch, job in running if 0 < job.kill_ns <= ended.info.died_ns]
    return running


def recorded_failure(batch: HeldBatch, job: HeldJob) -> FailureReport | None:
    """Return the failure that the process has written to the claim table; None if there was no room for it."""
    if job.failure is None:
        return None
    failure = Failure.decode(job.failure)
    told = failure.status, job.delay_ms, job.state == DISCARDED, failure.job, failure.ending
    return FailureReport(job.descriptor, batch.claim, *told)


def _unexplained_failure(ended: ProcessExit, batch: HeldBatch, job: HeldJob) -> FailureReport:
    """Return a failure of which only that it happened is known."""
    return FailureReport(
        job.descriptor,
        batch.claim,
        f"[{_where(ended)}] {_UNEXPLAINED}",
        job.delay_ms,
        is_final=job.state == DISCARDED,
        job=job.kind,
    )


def _ended_attempt(
    ended: ProcessExit, batch: HeldBatch, job: HeldJob, client: KeeperClient, suspects: int
) -> FailureReport:
    if job.is_cancelled:
        mark = read_saga(client.lookup_job(job.descriptor)[1])
        if mark is None or not mark.steps or not mark.why:
            return _undoing_first(ended, job, client, _cancelled_job(ended, batch, job))
    return _undoing_first(ended, job, client, _crashed_attempt(ended, batch, job, client, suspects))


def _crashed_attempt(
    ended: ProcessExit, batch: HeldBatch, job: HeldJob, client: KeeperClient, suspects: int
) -> FailureReport:
    if ended.info.is_timeout:
        return _overdue_job(ended, batch, job)
    if suspects == 1:
        return _crashed_job(ended, batch, job, client)
    return _possible_culprit(ended, batch, job, suspects)


def _undoing_first(ended: ProcessExit, job: HeldJob, client: KeeperClient, attempt: FailureReport) -> FailureReport:
    """Let a job that is given up undo its sagas first, if it has any; otherwise return ``attempt`` as it is."""
    if not attempt.is_final:
        return attempt
    _, body = client.lookup_job(attempt.descriptor)
    new_body = body_to_undo(body, _evidence(ended, job), is_cancelled=job.is_cancelled)
    if new_body is None:
        return attempt
    again = read_recurrence(body)
    spare = PERIODIC_SPARE_ATTEMPTS if again is not None and again.schedule else 0
    client.replace_body((attempt.descriptor, attempt.claim), new_body, 1 + UNDO_ATTEMPTS + spare)
    return attempt._replace(is_final=False, delay_ms=0)


def _cancelled_job(ended: ProcessExit, batch: HeldBatch, job: HeldJob) -> FailureReport:
    """Return the last failure of a job that was asked to stop, and ran until its process died."""
    how = "cancelled, and did not stop in time" if ended.info.is_timeout else "cancelled"
    status = f"[{_where(ended)}] {how}: {_evidence(ended, job)}\n"
    log.warning("%s: %s", job.descriptor, status.strip())
    return FailureReport(job.descriptor, batch.claim, status, 0, is_final=True, job=job.kind, ending=CANCELLED)


def _overdue_job(ended: ProcessExit, batch: HeldBatch, job: HeldJob) -> FailureReport:
    """Return the failure of a job killed for a time limit; it counts like a soft time-out, not as a crash."""
    status = f"[{_where(ended)}] time-out: {_evidence(ended, job)}\n"
    log.error("%s: %s", job.descriptor, status.strip())
    is_final = _is_too_late(ended, job)
    return FailureReport(job.descriptor, batch.claim, status, job.delay_ms, is_final, job.kind, "timed_out")


def _crashed_job(ended: ProcessExit, batch: HeldBatch, job: HeldJob, client: KeeperClient) -> FailureReport:
    """Return the crash of the only running job; it is given up after too many crashes."""
    where, (before, body) = _where(ended), client.lookup_job(job.descriptor)
    is_repeated = is_recorded(before, where)  # by a recovery whose further calls, or their replies, were lost
    crashes = crashes_in(before) + (not is_repeated)
    is_given_up = is_poison(crashes, body)
    status = crash_mark(where, crashes, _evidence(ended, job), is_given_up=is_given_up)
    if not is_repeated and len(before) + len(status) > MAX_STATUS_CHARACTERS:
        client.prepend_status((job.descriptor, batch.claim), status)
    log.error("%s: %s", job.descriptor, status.strip())
    is_final = is_given_up or _is_too_late(ended, job)
    return FailureReport(
        job.descriptor,
        batch.claim,
        status,
        job.delay_ms,
        is_final,
        job.kind,
        ending="poison" if is_given_up else "crashed",
    )


def _possible_culprit(ended: ProcessExit, batch: HeldBatch, job: HeldJob, number: int) -> FailureReport:
    """Return the failure of one of several jobs that ran when the process died; nobody knows which one caused it.

    So it does not count towards poison: otherwise jobs would be given up for running beside a poison job.
    """
    status = f"[{_where(ended)}] crash of one of {number} jobs that ran: {_evidence(ended, job)}\n"
    log.error("%s: %s", job.descriptor, status.strip())
    return FailureReport(job.descriptor, batch.claim, status, job.delay_ms, _is_too_late(ended, job), job.kind)


def _is_too_late(ended: ProcessExit, job: HeldJob) -> bool:
    """Tell whether the next attempt would come after the job's ``give_up_after``."""
    return 0 < job.give_up_ns <= ended.info.died_ns + job.delay_ms * 1_000_000


def _where(ended: ProcessExit) -> str:
    return format_origin(socket.gethostname(), ended.info.pid, ended.info.died_at)


def _evidence(ended: ProcessExit, job: HeldJob) -> str:
    seconds = max(ended.info.died_ns - job.started_ns, 0) / 1e9 if job.started_ns else 0.0
    verdict = " (too late to try again: its give_up_after)" if _is_too_late(ended, job) else ""
    return f"the process died while it ran {job.kind} for {seconds:.2f} s: {ended.info.description}{verdict}"
