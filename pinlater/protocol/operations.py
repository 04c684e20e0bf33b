"""The calls of the contract, one row each: what is sent, what the reply means, whether it may be repeated.

All callers build their calls here: both clients, the worker, the keeper and the tests. The service answers exactly the
calls in ``OPERATIONS``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pinlater.model.attempts import Ack, Acks, Checkpoint
from pinlater.model.jobs import JobInfo, NewJob
from pinlater.model.messages import Message
from pinlater.model.state import JobState
from pinlater.protocol import messages
from pinlater.protocol.conversion import jobs as job_conversion
from pinlater.protocol.conversion import queues as queue_conversion
from pinlater.protocol.conversion.acks import acks_struct_of, checkpoint_struct
from pinlater.protocol.conversion.messages import RECEIVED
from pinlater.protocol.conversion.values import flag, milliseconds, nothing, number, several
from pinlater.protocol.messages import CONTINUATION_START
from pinlater.protocol.operation import OPERATIONS, Arguments, Call, addition, operation
from pinlater.protocol.repeating import all_checkpoints_fenced, claims_nothing, never
from pinlater.protocol.report_calls import ReportCalls

__all__ = ["OPERATIONS", "Call", "Calls"]


class Calls(ReportCalls):
    """Builds the calls of the clients, on behalf of one source.

    `make generate` derives the clients' methods from the public ones here and in ``ReportCalls``: same names, arguments
    and docstrings, plus the error that an addition raises with a server of the original service.
    """

    # Queues

    @operation("createQueue", nothing)
    def create_queue(self, name: str) -> Arguments:
        """Create a queue; do nothing if it exists.

        Raises:
            QueueNameInvalid: the name has characters other than letters, digits and underscores.
            QueueNameTooLong: the name is too long for any store.
        """
        return (name,)

    # Not repeated: somebody may have created the queue again in between.
    @operation("deleteQueue", nothing, repeatable=never)
    def delete_queue(self, name: str, password: str) -> Arguments:
        """Delete a queue and all its jobs; do nothing if it does not exist.

        Raises:
            PasswordInvalid: this is not the server's admin password, or the server has none.
        """
        return name, password

    @operation("getQueueNames", queue_conversion.names)
    def queue_names(self) -> Arguments:
        """Return the names of all queues."""
        return ()

    @addition("getQueueSettings", queue_conversion.QUEUE_SETTINGS.records_by_name)
    def queue_settings(self) -> Arguments:
        """Return the settings of each queue: pause, limits and shards."""
        return ()

    @addition("changeQueueSettings", nothing)
    def change_queue(
        self,
        name: str,
        *,
        paused: bool | None = None,
        jobs_per_second: float | None = None,
        max_running: int | None = None,
        shards: int | None = None,
    ) -> Arguments:
        """Pause, resume or limit a queue; all servers of the store apply the change within a second.

        Args:
            name: the queue.
            paused: True to stop handing out jobs, False to resume; None: unchanged.
            jobs_per_second: maximum number of jobs handed out per second; 0: no limit, None: unchanged.
            max_running: maximum number of jobs claimed at once; 0: no limit, None: unchanged.
            shards: how many shards new jobs without a key use; -1: as many as the load needs, 0: all, None: unchanged.
        """
        return (messages.PinLaterChangeQueueSettingsRequest(name, paused, jobs_per_second, max_running, shards),)

    @addition("getOldestDueTimestamps", queue_conversion.moments)
    def oldest_due(self, queues: Iterable[str] = ()) -> Arguments:
        """Return the time at which the oldest due job of each queue became due, in epoch milliseconds.

        Queues without due jobs, and queues that do not exist, are left out. Paused queues are included.

        Args:
            queues: names of queues; empty: all queues.
        """
        return (several(queues),)

    # Enqueueing

    def enqueue_jobs(self, queue: str, jobs: Iterable[NewJob]) -> Call[list[str]]:
        """Store jobs, all or none; return their descriptors in the same order.

        A job whose ``unique`` key is taken is not stored; the descriptor of the job that has the key is returned.
        If the answer is lost, the client repeats the call; a server of the original may then store the jobs twice.

        Raises:
            QueueNotFound: the queue does not exist, and the server has ``QUEUE_AUTO_CREATE=false``; create it first.
            PriorityNotSupported: a priority is outside the server's levels.
            EnqueueRejected: a body is too large.
        """
        return self.enqueue_structs(queue, job_conversion.new_job_structs(jobs))

    # Without an idempotency key, a repeat would store finished jobs twice: no unique key guards those.
    @addition("importJobs", job_conversion.descriptors, repeatable=never, has_key=True)
    def import_jobs(self, queue: str, jobs: Iterable[JobInfo]) -> Arguments:
        """Store jobs that were read from another store; return their new descriptors.

        The jobs keep their priorities, attempts, times and statuses. Claimed jobs become PENDING; no attempt is spent.

        Args:
            queue: queue to store them in.
            jobs: the jobs as a lookup there returned them, with their bodies.
        """
        return (messages.PinLaterImportJobsRequest(queue, [job_conversion.info_struct(info) for info in jobs]),)

    # Attempts

    @operation("dequeueJobs", job_conversion.claimed_jobs, repeatable=claims_nothing, may_wait=True)
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
    ) -> Arguments:
        """Claim jobs that are due, and send acks along with the call.

        The client does not repeat the call if its answer is lost, unless it is a dry run without acks.

        Args:
            queue: queue to take jobs from.
            limit: maximum number of jobs.
            wait: seconds to wait for a job if there is none; this time is added to the call's time-out.
            lease: seconds until a job that is not acknowledged is handed out again; None: the server's default.
            dry_run: return the jobs without claiming them.
            acks: acks to send along.
            other_queues: queues to take jobs from, in this order, if ``queue`` has none.

        Raises:
            DequeueRateLimited: the queue is paused, or has reached its rate limit.
        """
        request = messages.PinLaterDequeueRequest(queue, limit, dryRun=dry_run)
        if acks is not None:
            request.jobAckRequest = acks_struct_of(acks.queue or queue, acks.succeeded, acks.failed)
        if wait > 0:
            request.waitMillis = milliseconds(wait)
        if lease is not None:
            request.claimTimeoutMillis = milliseconds(lease)
        if other_queues:
            request.otherQueueNames = list(other_queues)
        return (request,)

    def ack(self, queue: str, succeeded: Sequence[Ack] = (), failed: Sequence[Ack] = ()) -> Call[None]:
        """Acknowledge claimed jobs as succeeded or failed; jobs that have lost the claim of their ack do not change."""
        return self.ack_structs(acks_struct_of(queue, succeeded, failed))

    @operation("checkpointJobs", nothing, repeatable=all_checkpoints_fenced)
    def checkpoint(self, queue: str, checkpoints: Sequence[Checkpoint]) -> Arguments:
        """Save progress of claimed jobs, renew their claims, or give them back.

        A body that is not valid UTF-8 is only stored by our servers; a server of the original keeps the old body.
        """
        structs = [checkpoint_struct(checkpoint) for checkpoint in checkpoints]
        return (messages.PinLaterCheckpointJobsRequest(queue, structs),)

    @addition("releaseClaims", number)
    def release_claims(self, queue: str, source: str) -> Arguments:
        """Give back all jobs that one source has claimed, without spending attempts; return how many."""
        return (messages.PinLaterReleaseClaimsRequest(queue, source),)

    # Reading jobs

    @operation("lookupJobs", job_conversion.job_infos, may_wait=True)
    def lookup(
        self,
        descriptors: Iterable[str],
        *,
        include_body: bool = False,
        include_result: bool = False,
        wait: float = 0.0,
        max_body_bytes: int | None = None,
    ) -> Arguments:
        """Return jobs by descriptor; unknown descriptors are left out.

        Args:
            descriptors: descriptors of the jobs.
            include_body: whether to return their bodies.
            include_result: whether to return their results.
            wait: seconds to wait until all jobs have finished or are gone; this time is added to the call's time-out.
            max_body_bytes: cut longer bodies to this many bytes; older servers return whole bodies.

        Raises:
            UnknownError: a descriptor is malformed.
        """
        request = messages.PinLaterLookupJobRequest(several(descriptors), include_body, include_result or None)
        request.waitMillis, request.maxBodyBytes = milliseconds(wait) if wait > 0 else None, max_body_bytes
        return (request,)

    @operation("getJobCount", job_conversion.job_count)
    def count(
        self,
        queue: str,
        state: JobState,
        *,
        priority: int | None = None,
        future: bool = False,
        body_regex: str | None = None,
        waiting_for_key: bool = False,
        retrying: bool | None = None,
        failure_group: int | None = None,
    ) -> Arguments:
        """Return the number of jobs in a state; ``missing_shards`` of it names shards whose jobs it lacks.

        Args:
            queue: name of the queue.
            state: state of the jobs.
            priority: count only this priority level; None: all levels.
            future: count PENDING jobs that are not due yet, instead of those that are due.
            body_regex: count only jobs with a match in their body.
            waiting_for_key: count only PENDING jobs that wait for others of their key; ``future`` counts them as well.
            retrying: True: only PENDING jobs whose last attempt failed, due or not; False: PENDING jobs without these.
            failure_group: only PENDING or FAILED jobs of this failure group, due or not, of all priorities.
        """
        asked = queue, int(JobState(state)), priority, future, body_regex, waiting_for_key or None
        return (messages.PinLaterGetJobCountRequest(*asked, retrying, failure_group, tellMissing=True),)

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
        retrying: bool | None = None,
        failure_group: int | None = None,
        oldest_first: bool = False,
        key: str | None = None,
    ) -> Arguments:
        """Return one page of up to ``limit`` jobs in a state, and the continuation for the next page.

        The filters are those of ``count``, or ``key`` alone: PENDING or IN_PROGRESS jobs with this key, shared or
        unique. ``oldest_first`` returns the jobs due earliest first, instead of those due latest.

        Raises:
            ContinuationInvalid: ``continuation`` was not returned by a scan.
        """
        asked = queue, int(JobState(state)), priority, future, continuation or CONTINUATION_START, limit, body_regex
        more = retrying, failure_group, oldest_first or None, key
        return (messages.PinLaterScanJobsRequest(*asked, *more),)

    # Changing jobs by hand. Repeated, these would exceed their limit and return a wrong count. If jobs are named, the
    # limit is 0: a server of the original ignores the names, and would change other jobs.

    @operation("retryFailedJobs", number, repeatable=never, has_key=True)
    def retry_failed(
        self,
        queue: str,
        *,
        priority: int = 1,
        attempts: int = 1,
        run_after_ms: int | None = None,
        limit: int = 1000,
    ) -> Arguments:
        """Make FAILED jobs of one priority level PENDING again; return how many.

        Args:
            queue: name of the queue.
            priority: priority level of the jobs.
            attempts: number of attempts they get.
            run_after_ms: earliest time to run them, epoch milliseconds; None: now.
            limit: maximum number of jobs.
        """
        return (messages.PinLaterRetryFailedJobsRequest(queue, priority, attempts, run_after_ms, limit),)

    @retry_failed.variant
    def retry_these(
        self, queue: str, descriptors: Iterable[str], *, attempts: int = 1, run_after_ms: int | None = None
    ) -> Arguments:
        """Make the FAILED ones among the given jobs PENDING again; return how many.

        Args:
            queue: queue of all these jobs.
            descriptors: the jobs.
            attempts: number of attempts they get.
            run_after_ms: earliest time to run them, epoch milliseconds; None: now.
        """
        names = several(descriptors)
        return (messages.PinLaterRetryFailedJobsRequest(queue, 1, attempts, run_after_ms, 0, names),)

    @addition("runJobsNow", number, repeatable=never, has_key=True)
    def run_now(self, queue: str, descriptors: Iterable[str]) -> Arguments:
        """Make due now those of the given jobs that are PENDING but not due yet; return how many.

        Such jobs were enqueued for later, are sleeping, or wait for their next attempt. They continue from where they
        are, with their remaining attempts.

        Args:
            queue: queue of all these jobs.
            descriptors: the jobs.
        """
        return (messages.PinLaterRunJobsNowRequest(queue, several(descriptors)),)

    @addition("scheduleJobs", number, repeatable=never, has_key=True)
    def schedule(self, queue: str, descriptors: Iterable[str], run_after_ms: int) -> Arguments:
        """Reschedule those of the given jobs that are PENDING; return how many.

        A job that waits for its ordered key keeps its place in the order. Older servers do not know this call.

        Args:
            queue: queue of all these jobs.
            descriptors: the jobs.
            run_after_ms: earliest time to run them, epoch milliseconds.
        """
        return (messages.PinLaterScheduleJobsRequest(queue, several(descriptors), run_after_ms),)

    @operation("deleteJobs", number, repeatable=never, has_key=True)
    def delete_jobs(
        self, queue: str, state: JobState, *, priority: int = 1, body_regex: str | None = None, limit: int = 1000
    ) -> Arguments:
        """Delete jobs of one state and priority level, up to ``limit``; return how many."""
        return (messages.PinLaterDeleteJobsRequest(queue, int(JobState(state)), priority, body_regex, limit),)

    @delete_jobs.variant
    def delete_these(self, queue: str, descriptors: Iterable[str], state: JobState) -> Arguments:
        """Delete those of the given jobs of one queue that are in ``state``; return how many."""
        return (messages.PinLaterDeleteJobsRequest(queue, int(JobState(state)), 1, None, 0, several(descriptors)),)

    @addition("cancelJobs", number)
    def cancel_these(self, queue: str, descriptors: Iterable[str], *, status: str = "") -> Arguments:
        """Cancel jobs and their children; return how many were cancelled or asked to stop.

        PENDING jobs are FAILED at once, and marked as cancelled. Running jobs, and jobs with sagas to undo, are asked
        to stop: they undo their sagas first, and can still succeed. Finished jobs do not change.

        The given jobs count even if an earlier call has cancelled them. Their children count only once: if an answer is
        lost and the client repeats the call, those that the first try has cancelled are not in the number.

        Args:
            queue: queue of all these jobs.
            descriptors: the jobs.
            status: text to append to their custom status, such as who cancelled them.
        """
        return (messages.PinLaterCancelJobsRequest(queue, several(descriptors), status or None),)

    # Messages

    @addition("sendMessage", flag)
    def send_message(self, descriptor: str, message: Message) -> Arguments:
        """Send a message to a job; return False if the job does not exist or has finished.

        The message is stored until the job reads it. If it is sent again with the same name and id, it is stored once.
        """
        return (messages.PinLaterSendMessageRequest(descriptor, message.name, message.id, message.payload),)

    @addition("readMessages", RECEIVED.records)
    def read_messages(self, descriptor: str, name: str, *, after: int = 0, limit: int = 1000) -> Arguments:
        """Return the messages of a job with a given name, in the order of their arrival.

        Args:
            descriptor: descriptor of the job.
            name: name of the messages.
            after: return only messages with a larger number.
            limit: maximum number of messages; fewer are returned, but at least one, if an answer cannot hold them all.
        """
        return (messages.PinLaterReadMessagesRequest(descriptor, name, after, limit),)
