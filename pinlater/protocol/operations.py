"""The calls of the contract, one row each: what is sent, what the reply means, whether it may be repeated.

Whoever makes a call builds it here: both clients, the worker, the keeper, what tests use. The service answers exactly
the calls of ``OPERATIONS``.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Any

from pinlater.model.attempts import Ack, Acks, Checkpoint, ClaimedJob
from pinlater.model.jobs import JobInfo, NewJob
from pinlater.model.state import JobState
from pinlater.model.workers import WorkerReport
from pinlater.protocol import messages
from pinlater.protocol.conversion import acks as ack_conversion
from pinlater.protocol.conversion import jobs as job_conversion
from pinlater.protocol.conversion import queues as queue_conversion
from pinlater.protocol.conversion import workers as worker_conversion
from pinlater.protocol.conversion.values import milliseconds, nothing, number, several
from pinlater.protocol.messages import CONTINUATION_START
from pinlater.protocol.operation import OPERATIONS, Call, CallSource, never, operation

__all__ = ["OPERATIONS", "Call", "Calls"]

_addition = functools.partial(operation, is_original=False)


def _all_acks_fenced(arguments: Any) -> bool:
    """Tell whether a repeated failure cannot hit the job's next attempt, since it has a claim. Success is final."""
    return all(ack.claimDescriptor for ack in arguments.request.jobsFailed or ())


def _all_checkpoints_fenced(arguments: Any) -> bool:
    return all(checkpoint.claimDescriptor for checkpoint in arguments.request.requests)


def _claims_nothing(arguments: Any) -> bool:
    """Tell whether a dequeue changes nothing; jobs of a lost answer are claimed, and a second one would claim more."""
    return bool(arguments.request.dryRun) and arguments.request.jobAckRequest is None


class Calls(CallSource):
    """Builds calls in the name of one source: an attribute for each call of the contract, and some for common uses."""

    # Queues

    @operation("createQueue", nothing)
    def create_queue(self, name: str) -> tuple[str]:
        """Create a queue, unless there is one of this name."""
        return (name,)

    # Not repeated: somebody may have created the queue anew in between.
    @operation("deleteQueue", nothing, repeatable=never)
    def delete_queue(self, name: str, password: str) -> tuple[str, str]:
        """Delete a queue with all its jobs."""
        return name, password

    @operation("getQueueNames", queue_conversion.names)
    def queue_names(self) -> tuple[()]:
        """Return the names of all queues."""
        return ()

    @_addition("getQueueSettings", queue_conversion.queue_settings)
    def queue_settings(self) -> tuple[()]:
        """Return what holds back the jobs of each queue."""
        return ()

    @_addition("changeQueueSettings", nothing)
    def change_queue(
        self, name: str, *, paused: bool | None, jobs_per_second: float | None, max_running: int | None
    ) -> tuple[messages.PinLaterChangeQueueSettingsRequest]:
        """Pause or resume a queue, or change its limits."""
        return (messages.PinLaterChangeQueueSettingsRequest(name, paused, jobs_per_second, max_running),)

    @_addition("getOldestDueTimestamps", queue_conversion.moments)
    def oldest_due(self, queues: Iterable[str] = ()) -> tuple[list[str]]:
        """Return since when the oldest due job of each queue is due."""
        return (several(queues),)

    # Into a queue. Repeated also by servers that keep no results: twice is better than never, for delivery is at
    # least once.

    @operation("enqueueJobs", job_conversion.descriptors, has_key=True)
    def enqueue_structs(self, queue: str, jobs: list[messages.PinLaterJob]) -> tuple[messages.PinLaterEnqueueRequest]:
        """Store new jobs, and return their descriptors."""
        return (messages.PinLaterEnqueueRequest(queue, jobs),)

    def enqueue_jobs(self, queue: str, jobs: Iterable[NewJob]) -> Call[list[str]]:
        return self.enqueue_structs(queue, [job_conversion.job_struct(job) for job in jobs])

    def enqueue_once(
        self, queue: str, job: messages.PinLaterJob, key: bytes, *, is_repeat: bool, keep_result_ms: int
    ) -> Call[list[str]]:
        """Build an enqueue that a server knows again by a key which outlives this process."""
        call = self.enqueue_structs(queue, [job])
        call.arguments.context = self.new_context(key, isRepeat=is_repeat, keepResultMillis=keep_result_ms)
        return call

    # Without a key, finished jobs, which no unique key guards, would be there twice.
    @_addition("importJobs", job_conversion.descriptors, repeatable=never, has_key=True)
    def import_jobs(self, queue: str, jobs: Iterable[JobInfo]) -> tuple[messages.PinLaterImportJobsRequest]:
        """Store jobs of another store with their history, and return their new descriptors."""
        return (messages.PinLaterImportJobsRequest(queue, [job_conversion.info_struct(info) for info in jobs]),)

    # Attempts

    @operation("dequeueJobs", job_conversion.claimed_jobs, repeatable=_claims_nothing, may_wait=True)
    def dequeue(
        self,
        queue: str,
        limit: int,
        *,
        wait: float = 0.0,
        lease: float | None = None,
        dry_run: bool = False,
        acks: messages.PinLaterJobAckRequest | None = None,
        other_queues: Sequence[str] = (),
    ) -> tuple[messages.PinLaterDequeueRequest]:
        """Claim jobs that are due, and carry out acks on the way."""
        request = messages.PinLaterDequeueRequest(queue, limit, acks, dry_run)
        if wait > 0:
            request.waitMillis = milliseconds(wait)
        if lease is not None:
            request.claimTimeoutMillis = milliseconds(lease)
        if other_queues:
            request.otherQueueNames = list(other_queues)
        return (request,)

    def dequeue_jobs(
        self,
        queue: str,
        limit: int,
        *,
        wait: float = 0.0,
        lease: float | None = None,
        dry_run: bool = False,
        acks: Acks | None = None,
        other_queues: Sequence[str] = (),
    ) -> Call[list[ClaimedJob]]:
        structs = None
        if acks is not None:
            structs = ack_conversion.acks_struct_of(acks.queue or queue, acks.succeeded, acks.failed)
        return self.dequeue(
            queue, limit, wait=wait, lease=lease, dry_run=dry_run, acks=structs, other_queues=other_queues
        )

    def server_time(self, queue: str) -> Call[int | None]:
        """Ask when it is on the server, in epoch milliseconds: the answer of a dequeue that claims nothing has it."""
        call = self.dequeue(queue, 1, dry_run=True)
        return Call(call.method, call.arguments, job_conversion.server_time_ms, call.is_repeatable)

    @operation("ackDequeuedJobs", nothing, repeatable=_all_acks_fenced)
    def ack_structs(self, acks: messages.PinLaterJobAckRequest) -> tuple[messages.PinLaterJobAckRequest]:
        """End attempts of claimed jobs, with success or failure."""
        return (acks,)

    def ack(self, queue: str, succeeded: Sequence[Ack] = (), failed: Sequence[Ack] = ()) -> Call[None]:
        return self.ack_structs(ack_conversion.acks_struct_of(queue, succeeded, failed))

    @operation("checkpointJobs", nothing, repeatable=_all_checkpoints_fenced)
    def checkpoint(
        self, queue: str, checkpoints: Iterable[Checkpoint], *, tell_stale: bool | None = None
    ) -> tuple[messages.PinLaterCheckpointJobsRequest]:
        """Renew claims of jobs, save their bodies, or give them back."""
        structs = [ack_conversion.checkpoint_struct(checkpoint) for checkpoint in checkpoints]
        return (messages.PinLaterCheckpointJobsRequest(queue, structs, tell_stale),)

    @_addition("releaseClaims", number)
    def release_claims(self, queue: str, source: str) -> tuple[messages.PinLaterReleaseClaimsRequest]:
        """Give back all jobs that one source has claimed, and return how many."""
        return (messages.PinLaterReleaseClaimsRequest(queue, source),)

    # Reading jobs

    @operation("lookupJobs", job_conversion.job_infos)
    def lookup(
        self, descriptors: Iterable[str], *, include_body: bool = False
    ) -> tuple[messages.PinLaterLookupJobRequest]:
        """Return what the server knows of jobs, by descriptor."""
        return (messages.PinLaterLookupJobRequest(several(descriptors), include_body),)

    @operation("getJobCount", number)
    def count(
        self,
        queue: str,
        state: JobState,
        *,
        priority: int | None = None,
        future: bool = False,
        body_regex: str | None = None,
    ) -> tuple[messages.PinLaterGetJobCountRequest]:
        """Return how many jobs of a queue match."""
        return (messages.PinLaterGetJobCountRequest(queue, int(state), priority, future, body_regex),)

    @operation("scanJobs", job_conversion.page)
    def scan(
        self,
        queue: str,
        state: JobState,
        *,
        priority: int | None = None,
        future: bool = False,
        limit: int = 100,
        body_regex: str | None = None,
        continuation: str | None = None,
    ) -> tuple[messages.PinLaterScanJobsRequest]:
        """Return one page of the jobs of a queue that match."""
        begin = continuation or CONTINUATION_START
        request = messages.PinLaterScanJobsRequest(queue, int(state), priority, future, begin, limit, body_regex)
        return (request,)

    # Changing jobs by hand. Done twice, these would pass their limit, and count wrong. Those that name jobs have a
    # limit of 0 for a server of the original, which would change any others.

    @operation("retryFailedJobs", number, repeatable=never, has_key=True)
    def retry_failed(
        self,
        queue: str,
        *,
        priority: int = 1,
        attempts: int = 1,
        run_after_ms: int | None = None,
        limit: int = 1000,
        descriptors: list[str] | None = None,
    ) -> tuple[messages.PinLaterRetryFailedJobsRequest]:
        """Give failed jobs another chance, and return how many."""
        request = messages.PinLaterRetryFailedJobsRequest(queue, priority, attempts, run_after_ms, limit, descriptors)
        return (request,)

    def retry_these(
        self, queue: str, descriptors: Iterable[str], *, attempts: int = 1, run_after_ms: int | None = None
    ) -> Call[int]:
        names = several(descriptors)
        return self.retry_failed(queue, attempts=attempts, run_after_ms=run_after_ms, limit=0, descriptors=names)

    @_addition("runJobsNow", number, repeatable=never, has_key=True)
    def run_now(self, queue: str, descriptors: Iterable[str]) -> tuple[messages.PinLaterRunJobsNowRequest]:
        """Make pending jobs due now, and return how many."""
        return (messages.PinLaterRunJobsNowRequest(queue, several(descriptors)),)

    @operation("deleteJobs", number, repeatable=never, has_key=True)
    def delete_jobs(
        self,
        queue: str,
        state: JobState,
        *,
        priority: int = 1,
        body_regex: str | None = None,
        limit: int = 1000,
        descriptors: list[str] | None = None,
    ) -> tuple[messages.PinLaterDeleteJobsRequest]:
        """Delete jobs of a queue that match, and return how many."""
        request = messages.PinLaterDeleteJobsRequest(queue, int(state), priority, body_regex, limit, descriptors)
        return (request,)

    def delete_these(self, queue: str, descriptors: Iterable[str], state: JobState) -> Call[int]:
        return self.delete_jobs(queue, state, limit=0, descriptors=several(descriptors))

    # Servers and workers

    @_addition("keepsResults", nothing)
    def keeps_results(self) -> tuple[()]:
        """Tell that the server keeps the results of calls with a key; servers that do not lack the call."""
        return ()

    @_addition("reportWorker", nothing)
    def report_worker(self, report: WorkerReport, keep: float) -> tuple[messages.PinLaterReportWorkerRequest]:
        """Store a worker's report in the place of its last one."""
        return (messages.PinLaterReportWorkerRequest(worker_conversion.worker_struct(report), milliseconds(keep)),)

    @_addition("getWorkers", worker_conversion.worker_reports)
    def workers(self) -> tuple[()]:
        """Return the latest report of each worker."""
        return ()
