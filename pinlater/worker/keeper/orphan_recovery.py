"""Recovers the jobs of a job process that died."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable

from pinlater.model.descriptor import queue_of, shard_of
from pinlater.model.statistics import RunStatistics
from pinlater.worker.claim_table.counters import CANCELLED, RETURNED, ProcessCounters
from pinlater.worker.claim_table.exit_queue import ExitInfo, ProcessExit
from pinlater.worker.claim_table.snapshot import (
    DISCARDED,
    FAILED,
    HELD,
    RETURNING,
    RUNNING,
    STARTING,
    SUCCEEDED,
    HeldBatch,
    HeldJob,
)
from pinlater.worker.keeper.dead_run import DeadRun
from pinlater.worker.keeper.failure_report import FailureReport, due_ms_after, recorded_failure, unexplained_failure
from pinlater.worker.keeper.service_client import KeeperClient, Refusals

HeldRef = tuple[HeldBatch, HeldJob]

log = logging.getLogger(__name__)


class OrphanRecovery:
    """Recovers the jobs of an exited process: acks finished ones, fails those that ran, releases those not started.

    Each shard's jobs are recovered by separate calls, so that a shard that is away does not hold up the others.

    Args:
        ended: the exit and what the process held.
        client: client for the calls.
        counters: counters of job endings.
    """

    def __init__(self, ended: ProcessExit, client: KeeperClient, counters: ProcessCounters) -> None:
        self._info, self._snapshot = info, snapshot = ended.info, ended.snapshot
        self._client = client
        self._counters = counters
        running = list(snapshot.in_state(RUNNING))
        self._suspects = [(batch, job) for batch, job in running if _may_be_to_blame(info, job)]
        self._innocent = [(batch, job) for batch, job in running if not _may_be_to_blame(info, job)]
        # What is left to recover
        self._shards = sorted({shard_of(job.descriptor) for batch in snapshot.batches for job in batch.jobs})
        self._unread = list(map(snapshot.identity.source_of, snapshot.unread))
        self._sources = tuple(self._unread)
        # What has been recovered
        self._failed: list[tuple[HeldJob, FailureReport]] = []
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
        record_retry_due(due_ms_after(max(self._delays_ms)))
        self._count()
        log.info(
            "recovered jobs of process %d: %d failed, %d succeeded, %d released",
            self._info.pid,
            self._jobs["failed"],
            self._jobs["succeeded"],
            self._jobs["released"],
        )

    def _recover_on(self, shard: str) -> None:
        """Recover the jobs of one shard. May be repeated."""
        suspects, innocent = _on_shard(shard, self._suspects), _on_shard(shard, self._innocent)
        unstarted = [*self._in_state(HELD, shard), *self._in_state(STARTING, shard)]
        released = [*unstarted, *self._in_state(RETURNING, shard), *innocent]
        succeeded = self._in_state(SUCCEEDED, shard)
        ended = [*self._in_state(FAILED, shard), *self._in_state(DISCARDED, shard)]
        failed = [recorded_failure(*one) or unexplained_failure(self._info, *one) for one in ended]
        dead: list[tuple[HeldJob, FailureReport]] = []
        refusals = Refusals()
        with refusals:
            count = len(self._suspects)
            dead += [(job, DeadRun(self._info, batch, job, self._client).failure(count)) for batch, job in suspects]
            failed += [report for _, report in dead]
        with refusals:
            self._client.failed(failed)
        with refusals:
            self._client.succeeded([(job.descriptor, batch.claim, job.result) for batch, job in succeeded])
        with refusals:
            self._client.release([(job.descriptor, batch.claim) for batch, job in released])
        refusals.raise_first()
        self._failed += dead
        self._interrupted += [job for _, job in innocent]
        self._delays_ms += [report.delay_ms for report in failed if report.is_retried]
        self._jobs.update(failed=len(failed), succeeded=len(succeeded), released=len(released))
        self._returned.update(queue_of(job.descriptor) for _, job in unstarted)

    def _in_state(self, state: int, shard: str) -> list[HeldRef]:
        return _on_shard(shard, self._snapshot.in_state(state))

    def _release_unread(self, source: str) -> None:
        """Release the jobs claimed for a dequeue whose reply was not read."""
        self._returned += self._client.release_claims(self._snapshot.identity.queues, source)

    @property
    def has_unread(self) -> bool:
        """Whether the process had sent dequeues whose replies it has not read."""
        return bool(self._sources)

    def release_again(self) -> None:
        """Release what was claimed for unread replies since they were released first.

        Raises:
            CallError, ServiceError: a call failed.
        """
        for source in self._sources:
            for queue, jobs in self._client.release_claims(self._snapshot.identity.queues, source).items():
                self._counters.count_event(queue, RETURNED, jobs)

    def _count(self) -> None:
        """Count how the runs have ended, and report the failed ones to the servers."""
        runs = [(job, report.ending) for job, report in self._failed]
        runs += [(job, "interrupted") for job in self._interrupted]
        for job, ending in runs:
            run_ns = max(self._info.died_ns - job.started_ns, 0) if job.started_ns else 0
            self._counters.count_ending_of(queue_of(job.descriptor), job.kind, ending, run_ns)
        for queue, jobs in self._returned.items():
            self._counters.count_event(queue, RETURNED, jobs)
        self._client.tell_runs(
            (job.descriptor, RunStatistics(job.kind, failed=1, given_up=int(not report.is_retried)))
            for job, report in self._failed
            if report.ending != CANCELLED
        )


def _on_shard(shard: str, held: Iterable[HeldRef]) -> list[HeldRef]:
    return [(batch, job) for batch, job in held if shard_of(job.descriptor) == shard]


def _may_be_to_blame(info: ExitInfo, job: HeldJob) -> bool:
    """Return whether a running job may be to blame for the exit.

    After a kill for a time limit, these are the jobs past their limit. All others are released, no attempt spent,
    including one that started when the kill was already decided: stacks are dumped between that decision and the kill.
    """
    if info.was_interrupted:
        return False
    return not info.is_timeout or 0 < job.kill_ns <= info.died_ns
