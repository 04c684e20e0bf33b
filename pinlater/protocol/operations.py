"""The calls of the contract, one row each: what is sent, what the reply means, whether it may be repeated.

Whoever makes a call builds it here: both clients, the worker, the keeper, what tests use. The service answers exactly
the calls of ``OPERATIONS``.
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
    """Builds the calls of the clients, in the name of one source.

    `make generate` writes the clients' methods out of the public ones here and in ``ReportCalls``: same names,
    arguments and docstrings, with the error that an addition raises at a server of the original.
    """

    # Queues

    @operation("createQueue", nothing)
    def create_queue(self, name: str) -> Arguments:
        """Create a queue; nothing happens if the queue exists.

        Raises:
            QueueNameInvalid: the name has characters other than letters, digits and underscores.
            QueueNameTooLong: the name is too long for any store.
        """
        return (name,)

    # Not repeated: somebody may have created the queue anew in between.
    @operation("deleteQueue", nothing, repeatable=never)
    def delete_queue(self, name: str, password: str) -> Arguments:
        """Delete a queue and all its jobs; nothing happens if the queue does not exist.

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
            paused: True hands out no more jobs, False hands them out again; None: as it is.
            jobs_per_second: maximum number of jobs handed out per second; 0: no limit, None: as it is.
            max_running: maximum number of jobs claimed at once; 0: no limit, None: as it is.
            shards: how many shards new jobs without a key go to; -1: as many as the load needs, 0: all, None: as it is.
        """
        return (messages.PinLaterChangeQueueSettingsRequest(name, paused, jobs_per_second, max_running, shards),)

    @addition("getOldestDueTimestamps", queue_conversion.moments)
    def oldest_due(self, queues: Iterable[str] = ()) -> Arguments:
        """Return the time at which the oldest due job of each queue became due, in epoch milliseconds.

        Queues without due jobs, and queues that do not exist, are left out. Paused queues are included.

        Args:
            queues: names of queues; none: all queues.
        """
        return (several(queues),)

    # Into a queue

    def enqueue_jobs(self, queue: str, jobs: Iterable[NewJob]) -> Call[list[str]]:
        """Store jobs, all or none; return their descriptors in the same order.

        For a job that is not stored because its ``unique`` key is taken, the descriptor of the job that has the key is
        returned. If the answer is lost, the client repeats the call: the jobs may then be stored twice.

        Raises:
            QueueNotFound: it is not there, and the server has ``QUEUE_AUTO_CREATE=false``; create it first.
            PriorityNotSupported: a priority is outside the server's levels.
            EnqueueRejected: a body is too large.
        """
        return self.enqueue_structs(queue, job_conversion.new_job_structs(jobs))

    # Without a key, finished jobs, which no unique key guards, would be there twice.
    @addition("importJobs", job_conversion.descriptors, repeatable=never, has_key=True)
    def import_jobs(self, queue: str, jobs: Iterable[JobInfo]) -> Arguments:
        """Store jobs of another store as they are there, bodies included; return their new descriptors.

        The jobs keep their priorities, attempts, times and statuses. Claimed jobs become PENDING; no attempt is spent.

        Args:
            queue: where to.
            jobs: as a lookup there described them, bodies included.
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

        The client does not repeat the call by itself if the answer is lost.

        Args:
            queue: where to take them.
            limit: at most so many.
            wait: seconds to wait for a job if there is none; the call's time-out is extended by as much.
            lease: seconds until a job that is not acknowledged is handed out again; None: the server's default.
            dry_run: return the jobs without claiming them.
            acks: acks to send along.
            other_queues: queues to ask, in this order, when ``queue`` has none.

        Raises:
            DequeueRateLimited: the queue is paused, or has reached its rate.
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
        """Say how claimed jobs ended. Jobs that have lost this claim do not change."""
        return self.ack_structs(acks_struct_of(queue, succeeded, failed))

    @operation("checkpointJobs", nothing, repeatable=all_checkpoints_fenced)
    def checkpoint(self, queue: str, checkpoints: Sequence[Checkpoint]) -> Arguments:
        """Save progress of claimed jobs, renew their claims, or give them back.

        A body that is no UTF-8 text is kept by our server; a server of the original leaves the old body.
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
            descriptors: of the jobs.
            include_body: whether to return their bodies.
            include_result: whether to return what they returned.
            wait: seconds to wait until all jobs have finished or are gone; the call's time-out is extended by as much.
            max_body_bytes: return only so many bytes of a longer body; an older server returns whole bodies.

        Raises:
            UnknownError: a descriptor is malformed.
        """
        request = messages.PinLaterLookupJobRequest(several(descriptors), include_body, include_result or None)
        request.waitMillis, request.maxBodyBytes = milliseconds(wait) if wait > 0 else None, max_body_bytes
        return (request,)

    @operation("getJobCount", number)
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
        """Return the number of jobs in a state.

        Args:
            queue: whose jobs.
            state: which state.
            priority: only of this level; None is all.
            future: of PENDING, those not due yet instead of those due.
            body_regex: only jobs with a match in their body.
            waiting_for_key: of PENDING, only those that wait for others of their key; ``future`` counts them as well.
            retrying: of PENDING, only those whose last attempt failed, due or not; False: none of them.
            failure_group: of PENDING or FAILED, only those of this group, due or not, of all priorities.
        """
        asked = queue, int(state), priority, future, body_regex, waiting_for_key or None, retrying, failure_group
        return (messages.PinLaterGetJobCountRequest(*asked),)

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
        """Return one page of the jobs in a state, up to ``limit``, and where to go on.

        Filters are those of ``count``, or ``key``: PENDING and IN_PROGRESS jobs with this key, shared or unique, and no
        other filter. ``oldest_first``: the earliest due job first, instead of the latest.

        Raises:
            ContinuationInvalid: ``continuation`` comes from no scan of this kind.
        """
        asked = queue, int(state), priority, future, continuation or CONTINUATION_START, limit, body_regex
        more = retrying, failure_group, oldest_first or None, key
        return (messages.PinLaterScanJobsRequest(*asked, *more),)

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
    ) -> Arguments:
        """Make FAILED jobs of one priority level PENDING again; return how many.

        Args:
            queue: whose jobs.
            priority: of this level.
            attempts: attempts they get.
            run_after_ms: epoch milliseconds before which they do not run; None is now.
            limit: at most so many.
        """
        return (messages.PinLaterRetryFailedJobsRequest(queue, priority, attempts, run_after_ms, limit),)

    @retry_failed.variant
    def retry_these(
        self, queue: str, descriptors: Iterable[str], *, attempts: int = 1, run_after_ms: int | None = None
    ) -> Arguments:
        """Make the given jobs PENDING again, as far as they are FAILED; return how many.

        Args:
            queue: that all of them are in.
            descriptors: the jobs.
            attempts: attempts they get.
            run_after_ms: epoch milliseconds before which they do not run; None is now.
        """
        names = several(descriptors)
        return (messages.PinLaterRetryFailedJobsRequest(queue, 1, attempts, run_after_ms, 0, names),)

    @addition("runJobsNow", number, repeatable=never, has_key=True)
    def run_now(self, queue: str, descriptors: Iterable[str]) -> Arguments:
        """Make the given jobs due now, as far as they are PENDING and not due yet; return how many.

        Such jobs were enqueued for later, sleep, or wait for their next attempt. They go on from where they are, with
        the attempts that they have left.

        Args:
            queue: that all of them are in.
            descriptors: the jobs.
        """
        return (messages.PinLaterRunJobsNowRequest(queue, several(descriptors)),)

    @addition("scheduleJobs", number, repeatable=never, has_key=True)
    def schedule(self, queue: str, descriptors: Iterable[str], run_after_ms: int) -> Arguments:
        """Make the given jobs due at another time, as far as they are PENDING; return how many.

        A job that waits for its ordered key keeps its place. Older servers do not know this call.

        Args:
            queue: that all of them are in.
            descriptors: the jobs.
            run_after_ms: epoch milliseconds before which they do not run.
        """
        return (messages.PinLaterScheduleJobsRequest(queue, several(descriptors), run_after_ms),)

    @operation("deleteJobs", number, repeatable=never, has_key=True)
    def delete_jobs(
        self, queue: str, state: JobState, *, priority: int = 1, body_regex: str | None = None, limit: int = 1000
    ) -> Arguments:
        """Delete jobs of one state and priority level, up to ``limit``; return how many."""
        return (messages.PinLaterDeleteJobsRequest(queue, int(state), priority, body_regex, limit),)

    @delete_jobs.variant
    def delete_these(self, queue: str, descriptors: Iterable[str], state: JobState) -> Arguments:
        """Delete the given jobs of one queue, as far as they are in ``state``; return how many."""
        return (messages.PinLaterDeleteJobsRequest(queue, int(state), 1, None, 0, several(descriptors)),)

    @addition("cancelJobs", number)
    def cancel_jobs(self, queue: str, descriptors: Iterable[str], *, status: str = "") -> Arguments:
        """Cancel jobs and their children; return how many were cancelled or asked to stop.

        PENDING jobs are FAILED at once, and marked as cancelled. Running jobs, and jobs with sagas to undo, are asked
        to stop: they undo their sagas first, and can still succeed. Finished jobs do not change.

        Args:
            queue: that all of them are in.
            descriptors: the jobs.
            status: text to append to their custom status, such as who cancelled them.
        """
        return (messages.PinLaterCancelJobsRequest(queue, several(descriptors), status or None),)

    # Messages

    @addition("sendMessage", flag)
    def send_message(self, descriptor: str, message: Message) -> Arguments:
        """Send a message to a job; return False if the job does not exist or has finished.

        The message is kept until the job reads it. If it is sent again with the same name and id, it is kept once.
        """
        return (messages.PinLaterSendMessageRequest(descriptor, message.name, message.id, message.payload),)

    @addition("readMessages", RECEIVED.records)
    def read_messages(self, descriptor: str, name: str, *, after: int = 0, limit: int = 1000) -> Arguments:
        """Return the messages of a job that have this name, in the order of their arrival.

        Args:
            descriptor: of the job.
            name: of the messages.
            after: only those with a larger number.
            limit: at most so many, and no more than fit into an answer, but at least one.
        """
        return (messages.PinLaterReadMessagesRequest(descriptor, name, after, limit),)
