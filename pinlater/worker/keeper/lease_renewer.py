"""The keeper: a process without user code that keeps the claims of the job processes.

1. Renews the claims of jobs that take long, even while a job keeps the interpreter busy.
2. Releases jobs that wait, unstarted, behind long ones, and acks jobs that have ended before these.
3. Recovers the jobs of a dead process: the running one fails, the unstarted ones are released, no attempt spent.
"""

from __future__ import annotations

import logging
import select
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from pinlater_supervisor import Child

from pinlater.client.servers import STORE_OUT_OF_REACH
from pinlater.errors import CallError, CallUnsendable, ServerError, ServerUnavailable, ServiceError
from pinlater.worker.claim_table.counters import ProcessCounters
from pinlater.worker.claim_table.exit_queue import ExitQueue, ProcessExit
from pinlater.worker.claim_table.row import ClaimRow
from pinlater.worker.claim_table.snapshot import ENDED, HELD, RUNNING, SUCCEEDED, ClaimSnapshot, HeldBatch, HeldJob
from pinlater.worker.claim_table.table import ClaimTable
from pinlater.worker.keeper.failure_report import recorded_failure
from pinlater.worker.keeper.held_claims import HeldClaim, held_claims, mark_stops
from pinlater.worker.keeper.orphan_recovery import OrphanRecovery
from pinlater.worker.keeper.service_client import ClaimKey, KeeperClient, Refusals, by_queue, by_shard
from pinlater.worker.log_once import LogOnce
from pinlater.worker.options import WorkerOptions
from pinlater.worker.session.connector import Connector
from pinlater.worker.session.fetcher import RELEASED_AGAIN_SECONDS

_RENEWALS_PER_LEASE = 3
_YOUNG_PER_LEASE = 6
"""A claim is not renewed in the first sixth of its lease, as most jobs are done by then. So it is renewed for the first
time before half of its lease is over, and ``keeper_hang_seconds`` leaves room for another keeper to do it."""
_CHECK_SECONDS = 1.0
_STALLED_SECONDS = 1.0
_SUSPENDED_SECONDS = 1.0
"""The machine was suspended if the time for which it has been has grown by this."""
_REVOKE_SECONDS = 0.05
"""After this time, a job process has seen that jobs were revoked, or has recorded that it started them."""
_RELEASE_TIMES = 3
_STOP_SECONDS = 5.0
"""How long a stopping keeper tries to reach a server."""

log = logging.getLogger(__name__)


class Keeper:
    """Renews leases, releases waiting jobs and recovers orphaned ones; see the module."""

    def __init__(
        self,
        child: Child,
        options: WorkerOptions,
        claim_table: ClaimTable,
        exit_queue: ExitQueue,
        counters: ProcessCounters,
    ) -> None:
        self._child = child
        self._claim_table = claim_table
        self._exit_queue = exit_queue
        self._counters = counters
        self._lease_seconds = options.lease_seconds
        connector = Connector(options.servers, contact=claim_table.contact)
        self._client = KeeperClient(connector, f"keeper:{child.pid}", options.lease_seconds, child.beat)
        self._stalled_ns = int(min(_STALLED_SECONDS, options.lease_seconds / 3) * 1e9)
        self._renew_at = time.monotonic()
        self._suspended_seconds = _suspended_seconds()
        self._renews_young = False
        self._release_counts: dict[str, int] = {}
        self._unacked: set[ClaimKey] = set()
        self._last_done = time.monotonic()
        self._recoveries: dict[int, OrphanRecovery] = {}  # by entry of the exit queue
        self._released_again: list[tuple[float, OrphanRecovery]] = []  # with the time of each
        self._log_once = LogOnce(log, "the server rejected a call of the keeper: %s")

    def work(self) -> None:
        """Run until told to stop, which happens when all job processes have ended.

        This holds for a quick stop, too: recovering their jobs takes one call, and is why the keeper stops last.
        """
        while True:
            is_done = self._run_once()
            if is_done or not self._child.draining:
                self._last_done = time.monotonic()
            if self._child.draining and not self._exit_queue.has_pending:
                return
            if self._child.draining and time.monotonic() > self._last_done + _STOP_SECONDS:
                log.error("no server reachable: unrecovered jobs return to their queues when their claims expire")
                return
            self._sleep(is_done)

    def _run_once(self) -> bool:
        """Run all tasks that are due; return whether all succeeded. An error of one does not stop the others."""
        tasks: list[Callable[[], object]] = [self._renew_when_due]
        for ended in self._exit_queue.pending():  # each may take long if a shard does not answer
            tasks += [partial(self._recover, ended), self._renew_when_due]
        tasks += [self._release_again, self._release_waiting]
        is_done = True
        for task in tasks:
            self._child.beat()
            try:
                task()
            except ServerUnavailable as error:
                log.debug("%s", error)
                return False  # the other tasks would fail, too
            except CallError as error:
                log.debug("%s", error)
                is_done = False
            except ServiceError as error:
                self._log_once.report(error)
                is_done = False
        if is_done:
            self._log_once.reset()
        return is_done

    def _sleep(self, is_done: bool) -> None:
        """Sleep until there is something to do; after an error, for a fixed time."""
        poll = select.poll()
        if not self._child.draining:
            poll.register(self._child.wakeup_fd, select.POLLIN)
        seconds = min(_CHECK_SECONDS, self._lease_seconds / 3)
        if is_done:
            poll.register(self._exit_queue.posted, select.POLLIN)
            seconds = min(seconds, max(self._renew_at - time.monotonic(), 0.0))
        poll.poll(seconds * 1000)

    # Exits

    def _recover(self, ended: ProcessExit) -> None:
        """Recover the jobs of an exited process.

        Raises:
            CallError: no server has answered; try again.
            ServiceError, CallUnsendable: a call was refused; try again. Only raised until the claims have expired; they
                do not expire while their store is away.
        """
        recovery = self._recoveries.get(ended.entry)
        if recovery is None:
            recovery = self._recoveries[ended.entry] = OrphanRecovery(ended, self._client, self._counters)
        try:
            recovery.attempt(self._claim_table.record_retry_due)
        except STORE_OUT_OF_REACH:
            raise
        except (ServiceError, CallUnsendable) as error:
            if time.monotonic_ns() - ended.info.died_ns < self._lease_seconds * 1e9:
                raise
            log.error("cannot recover the jobs of process %d: %s", ended.info.pid, error)  # noqa: TRY400
        del self._recoveries[ended.entry]
        self._exit_queue.remove(ended)
        if recovery.has_unread:
            now = time.monotonic()
            self._released_again += [(now + seconds, recovery) for seconds in RELEASED_AGAIN_SECONDS]

    def _release_again(self) -> None:
        """Release the claims of unread replies of dead processes again, when it is time.

        Raises:
            CallError, ServiceError: a call failed; it is not repeated, since the next time will do.
        """
        now = time.monotonic()
        due = [recovery for at, recovery in self._released_again if at <= now]
        if not due:
            return
        self._released_again = [again for again in self._released_again if again[0] > now]
        refusals = Refusals()
        for recovery in due:
            with refusals:
                recovery.release_again()
        refusals.raise_first()

    # Long jobs

    def _renew_when_due(self) -> None:
        """Renew claims when it is time; after a suspension at once, for a server gives all claims only some seconds."""
        suspended_seconds = _suspended_seconds()
        if suspended_seconds - self._suspended_seconds > _SUSPENDED_SECONDS:
            self._suspended_seconds, self._renew_at, self._renews_young = suspended_seconds, 0.0, True
        if time.monotonic() >= self._renew_at:
            self._renew()
            self._renew_at = time.monotonic() + self._lease_seconds / _RENEWALS_PER_LEASE
            self._renews_young = False

    def _renew(self) -> None:
        """Renew all claims older than a sixth of their lease, after a suspension all, and mark which jobs are to stop.

        Ended jobs whose claims can be renewed are not acked yet, whatever their process has sent. (An original PinLater
        server, which gives out no claim descriptors, does not tell.)

        Raises:
            ServerUnavailable: no server can be reached.
            CallError, ServiceError: some calls failed, perhaps since a shard is away; the others succeeded.
        """
        now_ns = time.monotonic_ns()
        oldest_ns = now_ns - (0 if self._renews_young else int(self._lease_seconds / _YOUNG_PER_LEASE * 1e9))
        refusals = Refusals()
        held = held_claims(self._claim_table, lambda batch, _: batch.fetched_ns <= oldest_ns)
        self._unacked.clear()
        for _, keys in by_queue(claim.key for claim in held):
            with refusals:
                try:
                    self._renew_claims(held, keys, now_ns)
                except ServerError:
                    # A shard is away, so the server did not say which claims on others are lost. Or the server does not
                    # know a shard that was just added, and has renewed no claim of the call.
                    parts = by_shard(keys)
                    if len(parts) == 1:
                        raise
                    for part in parts:
                        with refusals:
                            self._renew_claims(held, part, now_ns)
        refusals.raise_first()

    def _renew_claims(self, held: Sequence[HeldClaim], keys: Sequence[ClaimKey], seen_ns: int) -> None:
        renewal = self._client.renew(keys)
        mark_stops(held, renewal, seen_ns)
        renewed = set(keys) - renewal.lost
        ended = (claim for claim in held if claim.job.state in ENDED and claim.batch.claim)
        self._unacked |= {claim.key for claim in ended if claim.key in renewed}
        if renewal.cancelled:
            self._child.wake_master()  # it kills the processes of those that do not stop

    def _release_waiting(self) -> None:
        """Release jobs that wait behind long ones, in agreement with the process that runs them.

        The keeper revokes the jobs, and waits until the process must have seen that. A job still unstarted then will
        not be started: the process first records each start in the claim table, then checks for a revocation.
        """
        busy = [(row, snapshot) for row in self._claim_table.rows() if self._is_stalled(snapshot := row.snapshot())]
        stalled = [row for row, snapshot in busy if self._revoke(row, snapshot)]
        refusals = Refusals()
        if stalled:
            time.sleep(_REVOKE_SECONDS)
        else:
            self._release_counts.clear()
        for row in stalled:
            with refusals:
                self._release_revoked(row.snapshot())
        for row, snapshot in busy:
            with refusals:
                self._ack_ended(row, snapshot)
        refusals.raise_first()

    def _ack_ended(self, row: ClaimRow, snapshot: ClaimSnapshot) -> None:
        """Ack ended jobs that their process would only ack after its long job: somebody may be waiting for them.

        These are the jobs of the same dequeue whose acks it has not sent yet, and any that were not acked at the last
        renewal: their acks could not be sent, or were refused. A process that runs several jobs at once does all that
        itself, in a thread that runs no job.
        """
        if row.batch_jobs == 1:
            return
        refusals = Refusals()
        for batch in snapshot.batches:
            running = next((job.position for job in batch.jobs if job.state == RUNNING), 0)
            unsent = range(batch.sent_to, running)
            ended = [
                job for job in batch.jobs if job.position in unsent or (job.descriptor, batch.claim) in self._unacked
            ]
            for of_shard in by_shard(ended):
                with refusals:
                    self._ack_succeeded(row, batch, [job for job in of_shard if job.state == SUCCEEDED])
                with refusals:
                    self._ack_failed(row, batch, of_shard)
        refusals.raise_first()

    def _ack_succeeded(self, row: ClaimRow, batch: HeldBatch, jobs: Sequence[HeldJob]) -> None:
        self._client.succeeded([(job.descriptor, batch.claim, job.result) for job in jobs])
        self._mark_acked(row, batch, jobs)

    def _ack_failed(self, row: ClaimRow, batch: HeldBatch, jobs: Sequence[HeldJob]) -> None:
        """Ack those of the jobs that have failed, as far as the claim table says how."""
        failed = [(job, report) for job in jobs if (report := recorded_failure(batch, job)) is not None]
        self._client.failed([report for _, report in failed])
        self._mark_acked(row, batch, [job for job, _ in failed])
        for _, report in failed:
            self._claim_table.record_retry_due(report.retry_due_ms)

    def _mark_acked(self, row: ClaimRow, batch: HeldBatch, jobs: Iterable[HeldJob]) -> None:
        area = row.area(batch.number)
        for job in jobs:
            area.mark_acked(job.position, batch.fetched_ns)

    def _revoke(self, row: ClaimRow, snapshot: ClaimSnapshot) -> bool:
        """Revoke the unstarted jobs of a process with long jobs; return whether there are any."""
        waiting = [batch for batch in snapshot.batches if any(job.state == HELD for job in batch.jobs)]
        for batch in waiting:
            row.area(batch.number).revoke()
        if snapshot.unread:
            row.revoke_dequeues()
        return bool(waiting or snapshot.unread)

    def _release_revoked(self, snapshot: ClaimSnapshot) -> None:
        revoked = [
            batch for batch in snapshot.batches if batch.is_revoked and self._needs_release(_batch_name(batch), times=1)
        ]
        self._client.release(
            [(job.descriptor, batch.claim) for batch in revoked for job in batch.jobs if job.state == HELD]
        )
        for batch in revoked:
            self._count_release(_batch_name(batch))
        # Others may be unread, too: the process may have ended its long job, and sent them after the revocation.
        for source in map(snapshot.identity.source_of, snapshot.revoked):
            # Repeated: the server may not have claimed anything for that dequeue yet.
            if self._needs_release(source, times=_RELEASE_TIMES):
                self._client.release_claims(snapshot.identity.queues, source)
                self._count_release(source)

    def _needs_release(self, name: str, times: int) -> bool:
        return self._release_counts.get(name, 0) < times

    def _count_release(self, name: str) -> None:
        self._release_counts[name] = self._release_counts.get(name, 0) + 1

    def _is_stalled(self, snapshot: ClaimSnapshot) -> bool:
        """Tell whether long jobs take the full capacity of a process, so that it starts no others."""
        long_ago = time.monotonic_ns() - self._stalled_ns
        long_busy = sum(0 < job.started_ns < long_ago for _, job in snapshot.in_state(RUNNING))
        return long_busy >= snapshot.identity.capacity


def _suspended_seconds() -> float:
    """Return for how long this machine has been suspended since its start: ``time.monotonic`` does not count that."""
    if not hasattr(time, "CLOCK_BOOTTIME"):
        return 0.0
    return time.clock_gettime(time.CLOCK_BOOTTIME) - time.monotonic()


def _batch_name(batch: HeldBatch) -> str:
    return f"{batch.claim} {batch.number}"
