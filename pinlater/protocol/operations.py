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
        """Create a queue; nothing happens if it is there.

        Raises:
            QueueNameInvalid: the name has other characters than letters, digits and underscore.
            QueueNameTooLong: no store could keep it.
        """
        return (name,)

    # Not repeated: somebody may have created the queue anew in between.
    @operation("deleteQueue", nothing, repeatable=never)
    def delete_queue(self, name: str, password: str) -> Arguments:
        """Delete a queue and all its jobs; nothing happens if there is none.

        Raises:
            PasswordInvalid: it is not the server's admin password, or the server has none.
        """
        return name, password

    @operation("getQueueNames", queue_conversion.names)
    def queue_names(self) -> Arguments:
        """Return the names of all queues."""
        return ()

    @addition("getQueueSettings", queue_conversion.QUEUE_SETTINGS.records_by_name)
    def queue_settings(self) -> Arguments:
        """Return what holds back the jobs of each queue."""
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
        """Pause or resume a queue, or limit it; all servers of the store heed it within a second.

        Args:
            name: the queue.
            paused: whether nothing is to be handed out; None leaves it as it is.
            jobs_per_second: most jobs handed out a second; 0 takes the limit away, None leaves it as it is.
            max_running: most jobs claimed at once; likewise.
            shards: how many shards new jobs without a key go to; -1: as many as the load needs, 0: all, None: as it is.
        """
        return (messages.PinLaterChangeQueueSettingsRequest(name, paused, jobs_per_second, max_running, shards),)

    @addition("getOldestDueTimestamps", queue_conversion.moments)
    def oldest_due(self, queues: Iterable[str] = ()) -> Arguments:
        """Return since when the job is due that has been so for longest, by queue, in epoch milliseconds.

        Queues with nothing due are left out, and those that are not there; paused ones are not.

        Args:
            queues: names of queues; none: all queues.
        """
        return (several(queues),)

    # Into a queue

    def enqueue_jobs(self, queue: str, jobs: Iterable[NewJob]) -> Call[list[str]]:
        """Store jobs, all or none; return their descriptors in the same order.

        In the place of a job that is not stored for its ``unique`` stands the descriptor of the one that is there.
        When the answer is lost, the call is repeated: the jobs may then be stored twice.

        Raises:
            QueueNotFound: it is not there, and the server has ``QUEUE_AUTO_CREATE=false``; create it first.
            PriorityNotSupported: a priority is outside the server's levels.
            EnqueueRejected: a body is too large.
        """
        return self.enqueue_structs(queue, job_conversion.new_job_structs(jobs))

    # Without a key, finished jobs, which no unique key guards, would be there twice.
    @addition("importJobs", job_conversion.descriptors, repeatable=never, has_key=True)
    def import_jobs(self, queue: str, jobs: Iterable[JobInfo]) -> Arguments:
        """Store jobs of another store as they are there, with bodies; return their new descriptors.

        Their priorities, attempts, times and statuses are kept. Claimed ones become PENDING, no attempt spent.

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
        """Claim jobs that are due, and carry out acks on the way.

        Never repeated by itself when the answer is lost.

        Args:
            queue: where to take them.
            limit: at most so many.
            wait: seconds to wait for a job when there is none; the call's time-out is so much longer.
            lease: seconds until an unacknowledged job is given to somebody else; None leaves it to the server.
            dry_run: look, do not claim.
            acks: acks that ride along.
            other_queues: queues to ask, in this order, when ``queue`` has none.

        Raises:
            DequeueRateLimited: the queue is paused or has given out what it may for now.
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
        """Say how claimed jobs ended. Jobs that are claimed no longer, or otherwise, are left alone."""
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
        """Give back, no attempt spent, all jobs that one source has claimed; return how many."""
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
        """Return what is known of jobs, by descriptor; unknown ones are left out.

        Args:
            descriptors: of the jobs.
            include_body: whether to return their bodies.
            include_result: whether to return what they returned.
            wait: seconds to wait until all of them have finished, or are gone; the call's time-out is so much longer.
            max_body_bytes: longer bodies are cut to their first bytes; an older server returns them whole.

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

        Arguments are those of ``count``; ``oldest_first``: in the order in which they are due, not the latest first; of
        PENDING and IN_PROGRESS, ``key``: only those with this key, shared or unique, without the other filters.

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
        """Make those of the given jobs that are FAILED PENDING again; return how many.

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
        """Make those of the given jobs due now that are PENDING and not due yet; return how many.

        These are jobs that were enqueued for later, sleep, or wait for their next attempt; whether they have begun or
        not, they go on from where they are, with the attempts that they have left.

        Args:
            queue: that all of them are in.
            descriptors: the jobs.
        """
        return (messages.PinLaterRunJobsNowRequest(queue, several(descriptors)),)

    @addition("scheduleJobs", number, repeatable=never, has_key=True)
    def schedule(self, queue: str, descriptors: Iterable[str], run_after_ms: int) -> Arguments:
        """Make those of the given jobs that are PENDING due at another time; return how many.

        They keep all else. One that waits for its ordered key keeps its place. Older servers do not know this call.

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
        """Delete those of the given jobs that are in ``state``; return how many. All are of one queue."""
        return (messages.PinLaterDeleteJobsRequest(queue, int(state), 1, None, 0, several(descriptors)),)

    @addition("cancelJobs", number)
    def cancel_jobs(self, queue: str, descriptors: Iterable[str], *, status: str = "") -> Arguments:
        """Cancel jobs and their children; return how many were cancelled or asked to stop.

        PENDING ones are FAILED at once, and marked as cancelled. Running ones are asked to stop, as are those that have
        sagas to undo, which they do first; they can still succeed. Finished ones stay as they are.

        Args:
            queue: that all of them are in.
            descriptors: the jobs.
            status: text to append to their custom status, such as who cancelled them.
        """
        return (messages.PinLaterCancelJobsRequest(queue, several(descriptors), status or None),)

    # Messages

    @addition("sendMessage", flag)
    def send_message(self, descriptor: str, message: Message) -> Arguments:
        """Send a message to a job; return whether the job has it, or False if it is not there or has finished.

        The message is kept until the job reads it. Sent again with the same name and id, it is there once.
        """
        return (messages.PinLaterSendMessageRequest(descriptor, message.name, message.id, message.payload),)

    @addition("readMessages", RECEIVED.records)
    def read_messages(self, descriptor: str, name: str, *, after: int = 0, limit: int = 1000) -> Arguments:
        """Return messages of a job with that name, in the order of their arrival.

        Args:
            descriptor: of the job.
            name: of the messages.
            after: only those with a larger number.
            limit: at most so many, and no more than fit into an answer, but at least one.
        """
        return (messages.PinLaterReadMessagesRequest(descriptor, name, after, limit),)
