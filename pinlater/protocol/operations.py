"""The calls of the service, each described once: what is sent, what the reply means, whether it may be repeated.

Both clients carry these descriptions out; neither converts anything itself.
"""

from __future__ import annotations

import functools
import os
import socket
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from pinlater.model.records import (
    Ack,
    Acks,
    Checkpoint,
    ClaimedJob,
    JobInfo,
    NewJob,
    Page,
    QueueSettings,
    WorkerReport,
)
from pinlater.model.state import JobState
from pinlater.protocol import conversion, messages
from pinlater.protocol.idempotency import new_key
from pinlater.protocol.messages import CONTINUATION_START, RequestContext, arguments_of

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One call to be made.

    Attributes:
        method: name of the wire contract.
        arguments: its argument struct.
        convert: makes the result of the reply.
        safe_to_repeat: whether it may be sent again when nobody knows if it was carried out, to any server.
        wait: seconds that the server may park it, on top of the usual time-out.
    """

    method: str
    arguments: Any
    convert: Callable[[Any], T]
    safe_to_repeat: bool
    wait: float = 0.0

    @property
    def has_key(self) -> bool:
        """Whether a server that keeps results carries it out once, however often it is sent."""
        return self.arguments.context.idempotencyKey is not None

    @property
    def needs_memory(self) -> bool:
        """Whether it may have been carried out, and may be sent again only to a server that keeps results."""
        return not self.safe_to_repeat and bool(self.arguments.context.isRepeat)


@functools.lru_cache(maxsize=1)
def default_source(pid: int) -> str:
    """Return ``<program>:<host>:<pid>``, which tells a process's claims from those of all others."""
    path = Path(sys.argv[0]) if sys.argv and sys.argv[0] else Path("python")
    program = path.parent.name if path.name == "__main__.py" else path.name  # python -m package
    return f"{program}:{socket.gethostname()}:{pid}"


class Calls:
    """Builds calls in the name of one source; None is this process, also after a fork."""

    def __init__(self, source: str | None = None) -> None:
        self._source = source

    @property
    def source(self) -> str:
        """Who calls."""
        return self._source or default_source(os.getpid())

    def _call(
        self,
        method: str,
        convert: Callable[[Any], T],
        *,
        safe_to_repeat: bool,
        has_key: bool = False,
        wait: float = 0.0,
        **arguments: Any,
    ) -> Call[T]:
        key = new_key() if has_key else None
        context = RequestContext(source=self.source, idempotencyKey=key, hearsStopping=True)
        struct = arguments_of(method)(context=context, **arguments)
        return Call(method, struct, convert, safe_to_repeat, wait)

    def create_queue(self, name: str) -> Call[None]:
        return self._call("createQueue", conversion.nothing, safe_to_repeat=True, name=name)

    def delete_queue(self, name: str, password: str) -> Call[None]:
        # Not repeated: somebody may have created the queue anew in between.
        return self._call("deleteQueue", conversion.nothing, safe_to_repeat=False, name=name, password=password)

    def queue_names(self) -> Call[set[str]]:
        return self._call("getQueueNames", conversion.names, safe_to_repeat=True)

    def queue_settings(self) -> Call[dict[str, QueueSettings]]:
        return self._call("getQueueSettings", conversion.queue_settings, safe_to_repeat=True)

    def change_queue(
        self, name: str, *, paused: bool | None, jobs_per_second: float | None, max_running: int | None
    ) -> Call[None]:
        request = messages.PinLaterChangeQueueSettingsRequest(name, paused, jobs_per_second, max_running)
        return self._call("changeQueueSettings", conversion.nothing, safe_to_repeat=True, request=request)

    def oldest_due(self, queues: Iterable[str] = ()) -> Call[dict[str, int]]:
        return self._call(
            "getOldestDueTimestamps", conversion.moments, safe_to_repeat=True, queueNames=_several(queues)
        )

    def enqueue_jobs(self, queue: str, jobs: Iterable[NewJob]) -> Call[list[str]]:
        return self.enqueue_structs(queue, [conversion.job_struct(job) for job in jobs])

    def enqueue_structs(self, queue: str, jobs: list[messages.PinLaterJob]) -> Call[list[str]]:
        """Enqueue structs made already.

        Repeated also by servers that keep no results: twice is better than never, for delivery is at least once.
        """
        request = messages.PinLaterEnqueueRequest(queueName=queue, jobs=jobs)
        return self._call("enqueueJobs", conversion.descriptors, safe_to_repeat=True, has_key=True, request=request)

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
        request = messages.PinLaterDequeueRequest(queueName=queue, limit=limit, dryRun=dry_run)
        if wait > 0:
            request.waitMillis = conversion.milliseconds(wait)
        if lease is not None:
            request.claimTimeoutMillis = conversion.milliseconds(lease)
        if other_queues:
            request.otherQueueNames = list(other_queues)
        if acks is not None:
            request.jobAckRequest = conversion.ack_struct(acks.queue or queue, acks.succeeded, acks.failed)
        # Not repeated: jobs of the lost answer are claimed, and a second dequeue would claim more.
        convert = conversion.claimed_jobs
        return self._call("dequeueJobs", convert, safe_to_repeat=dry_run and not acks, wait=wait, request=request)

    def ack(self, queue: str, succeeded: Sequence[Ack] = (), failed: Sequence[Ack] = ()) -> Call[None]:
        # A failure without a claim, repeated, might hit the job's next attempt. Success is final.
        fenced = all(ack.claim for ack in failed)
        request = conversion.ack_struct(queue, succeeded, failed)
        return self._call("ackDequeuedJobs", conversion.nothing, safe_to_repeat=fenced, request=request)

    def checkpoint(self, queue: str, checkpoints: Sequence[Checkpoint]) -> Call[None]:
        fenced = all(checkpoint.claim for checkpoint in checkpoints)
        request = messages.PinLaterCheckpointJobsRequest(
            queueName=queue, requests=[conversion.checkpoint_struct(checkpoint) for checkpoint in checkpoints]
        )
        return self._call("checkpointJobs", conversion.nothing, safe_to_repeat=fenced, request=request)

    def lookup(self, descriptors: Iterable[str], *, include_body: bool = False) -> Call[dict[str, JobInfo]]:
        request = messages.PinLaterLookupJobRequest(jobDescriptors=_several(descriptors), includeBody=include_body)
        return self._call("lookupJobs", conversion.job_infos, safe_to_repeat=True, request=request)

    def count(
        self,
        queue: str,
        state: JobState,
        *,
        priority: int | None = None,
        future: bool = False,
        body_regex: str | None = None,
    ) -> Call[int]:
        request = messages.PinLaterGetJobCountRequest(
            queueName=queue,
            jobState=int(state),
            priority=priority,
            countFutureJobs=future,
            bodyRegexToMatch=body_regex,
        )
        return self._call("getJobCount", conversion.number, safe_to_repeat=True, request=request)

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
    ) -> Call[Page]:
        request = messages.PinLaterScanJobsRequest(
            queueName=queue,
            jobState=int(state),
            priority=priority,
            scanFutureJobs=future,
            continuation=continuation or CONTINUATION_START,
            limit=limit,
            bodyRegexToMatch=body_regex,
        )
        return self._call("scanJobs", conversion.page, safe_to_repeat=True, request=request)

    def retry_failed(
        self, queue: str, *, priority: int = 1, attempts: int = 1, run_after_ms: int | None = None, limit: int = 1000
    ) -> Call[int]:
        request = messages.PinLaterRetryFailedJobsRequest(
            queueName=queue,
            priority=priority,
            attemptsToAllow=attempts,
            runAfterTimestampMillis=run_after_ms,
            limit=limit,
        )
        return self._change("retryFailedJobs", request)

    def _change(self, method: str, request: Any) -> Call[int]:
        """Return a call that answers how many jobs it changed; done twice, it would pass its limit, and count wrong."""
        return self._call(method, conversion.number, safe_to_repeat=False, has_key=True, request=request)

    def retry_these(
        self, queue: str, descriptors: Iterable[str], *, attempts: int = 1, run_after_ms: int | None = None
    ) -> Call[int]:
        request = messages.PinLaterRetryFailedJobsRequest(
            queueName=queue,
            attemptsToAllow=attempts,
            runAfterTimestampMillis=run_after_ms,
            limit=0,  # for a server of the original, which would retry any others
            jobDescriptors=_several(descriptors),
        )
        return self._change("retryFailedJobs", request)

    def run_now(self, queue: str, descriptors: Iterable[str]) -> Call[int]:
        request = messages.PinLaterRunJobsNowRequest(queueName=queue, jobDescriptors=_several(descriptors))
        return self._change("runJobsNow", request)

    def delete_these(self, queue: str, descriptors: Iterable[str], state: JobState) -> Call[int]:
        request = messages.PinLaterDeleteJobsRequest(
            queueName=queue,
            jobState=int(state),
            limit=0,  # as above
            jobDescriptors=_several(descriptors),
        )
        return self._change("deleteJobs", request)

    def delete_jobs(
        self, queue: str, state: JobState, *, priority: int = 1, body_regex: str | None = None, limit: int = 1000
    ) -> Call[int]:
        request = messages.PinLaterDeleteJobsRequest(
            queueName=queue, jobState=int(state), priority=priority, bodyRegexToMatch=body_regex, limit=limit
        )
        return self._change("deleteJobs", request)

    def import_jobs(self, queue: str, jobs: Iterable[JobInfo]) -> Call[list[str]]:
        request = messages.PinLaterImportJobsRequest(
            queueName=queue, jobs=[conversion.info_struct(info) for info in jobs]
        )
        # Without a key, finished jobs, which no unique key guards, would be there twice.
        convert = conversion.descriptors
        return self._call("importJobs", convert, safe_to_repeat=False, has_key=True, request=request)

    def keeps_results(self) -> Call[None]:
        """Ask whether the server keeps results; a ``ProtocolError`` is a no."""
        return self._call("keepsResults", conversion.nothing, safe_to_repeat=True)

    def release_claims(self, queue: str, source: str) -> Call[int]:
        request = messages.PinLaterReleaseClaimsRequest(queueName=queue, claimSource=source)
        return self._call("releaseClaims", conversion.number, safe_to_repeat=True, request=request)

    def report_worker(self, report: WorkerReport, keep: float) -> Call[None]:
        request = messages.PinLaterReportWorkerRequest(
            worker=conversion.worker_struct(report), keepMillis=conversion.milliseconds(keep)
        )
        return self._call("reportWorker", conversion.nothing, safe_to_repeat=True, request=request)

    def workers(self) -> Call[list[WorkerReport]]:
        return self._call("getWorkers", conversion.worker_reports, safe_to_repeat=True)


def _several(names: Iterable[str]) -> list[str]:
    """Return a list; of a text, it would be one of letters."""
    if isinstance(names, str):
        raise TypeError(f"{names!r} is one name where several can be given; put it into a list: [{names!r}]")
    return list(names)
