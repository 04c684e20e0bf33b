"""The jobs that a job calls: enqueued once, and waited for without a process until all have ended."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from pinlater.errors import EnqueueRejected, JobFailed, JobInterrupted, JoinTimeout, StepMismatch
from pinlater.jobs.enqueue_options import CallOptions
from pinlater.jobs.interruptible import InterruptibleContext
from pinlater.jobs.job import Job
from pinlater.jobs.message_link import Children, MessageLink
from pinlater.jobs.name_counter import NameCounter
from pinlater.jobs.result_codec import decode_result, job_failed
from pinlater.jobs.waiting import ENDLESS_MS, JobWaits
from pinlater.model.body_metadata import BodyMetadata
from pinlater.model.messages import MessageKind, MessageWait, Parent, ReceivedMessage
from pinlater.model.wait_records import CallRecord

_PAGE = 1000
DEFAULT_BATCH = 1000
"""Children that are enqueued at once."""


class Joined(NamedTuple):
    """The ends of all children of a call, in the order of the jobs that were given: results and failures."""

    name: str
    ends: list[Any]

    def results(self) -> list[Any]:
        """Return the results.

        Raises:
            JobFailed: some have failed; it is the first of them.
        """
        failures = [end for end in self.ends if isinstance(end, JobFailed)]
        if not failures:
            return self.ends
        first = failures[0]
        if len(failures) > 1:
            first.args = (f"{first} (and {len(failures) - 1} more of {len(self.ends)} jobs of call {self.name!r})",)
        raise first


class ChildCalls:
    """Calls other jobs in one attempt.

    Args:
        context: of the attempt.
        metadata: where it is recorded what was called.
        link: enqueues the children and reads what they tell.
        save: saves the record.

    Attributes:
        names: counts the uses of names.
        failures: of children; an attempt that ends with one of them would end so again.
    """

    def __init__(
        self, context: InterruptibleContext, metadata: BodyMetadata, link: MessageLink, save: Callable[[], object]
    ) -> None:
        self.names = NameCounter()
        self.failures: list[JobFailed] = []
        self._context = context
        self._metadata = metadata
        self._link = link
        self._save = save

    def join(
        self, jobs: Iterable[Job], name: str, *, timeout: float | None, batch_size: int, options: CallOptions
    ) -> Joined:
        """Enqueue children and return how they have ended; see ``JobContext.call_all``."""
        use = self.names.next(name)
        self._context.go_on_to_wait()
        children = list(jobs)
        if not children:
            return Joined(name, [])
        if batch_size < 1:
            raise ValueError(f"batch_size={batch_size} must be at least 1")
        record = self._record(use, len(children), batch_size, timeout)
        if record.has_timed_out:
            raise _timed_out(name)
        messages = self._messages_if_complete(self._message_name(use), len(children))
        self._enqueue_rest(use, children, record, options)
        if messages is None:
            raise self._wait(use, name, record)
        ended = {int(message.id): message for message in messages}
        is_good = all(message.kind == MessageKind.SUCCEEDED for message in messages)
        descriptors = {} if is_good else self._descriptors(use, children, record, options)
        ends = [_end(job, ended[at], descriptors.get(at, "")) for at, job in enumerate(children)]
        self.failures += [end for end in ends if isinstance(end, JobFailed)]
        return Joined(name, ends)

    def ends(self, name: str, count: int) -> list[ReceivedMessage]:
        """Return what children tell that somebody else has enqueued, once all have ended.

        Args:
            name: of their messages.
            count: how many there are, or will be.
        """
        self._context.go_on_to_wait()
        messages = self._messages_if_complete(name, count) if count else []
        if messages is None:
            raise self._context.wait(JobWaits([MessageWait(name, count)]))
        return messages

    def _message_name(self, use: str) -> str:
        return f"call/{self._metadata.run}/{use}"

    def _record(self, use: str, count: int, batch_size: int, timeout: float | None) -> CallRecord:
        record = self._metadata.calls.get(use)
        if record is None:
            until_ms = 0 if timeout is None else self._link.now_ms() + int(timeout * 1000)
            record = self._metadata.calls[use] = CallRecord(count, batch_size, until_ms=until_ms)
        elif record.count != count:
            mismatch = StepMismatch(
                f"call {use!r} is of {count} jobs now, but {record.count} were called when the job came here first. "
                "Give the same jobs in each attempt: read what may change in a step before"
            )
            self._context.refuse_record(use, mismatch)
        return record

    # Enqueueing

    def _enqueue_rest(self, use: str, jobs: Sequence[Job], record: CallRecord, options: CallOptions) -> None:
        """Enqueue the children that were not enqueued yet, batch by batch, and save how far that has come."""
        while record.enqueued < len(jobs):
            self._context.begin()
            if self._context.is_draining:
                self._save()
                raise self._context.interrupt(JobInterrupted())
            end = min(record.enqueued + record.batch, len(jobs))
            stored = [
                descriptor
                for children in self._batches(use, jobs, record.enqueued, end, options)
                for descriptor in self._enqueue(children)
            ]
            record.add(stored)
            record.enqueued = end
            self._save()  # servers forget the key of a call after a day
            self._context.go_on_to_wait()

    def _batches(self, use: str, jobs: Sequence[Job], start: int, end: int, options: CallOptions) -> Iterator[Children]:
        name = self._message_name(use)
        queues = [options.get("queue") or job.job_options.queue for job in jobs[start:end]]
        for queue in dict.fromkeys(queues):
            positions = [start + number for number, other in enumerate(queues) if other == queue]
            told = [(jobs[at], Parent(self._context.descriptor, name, at)) for at in positions]
            yield Children(queue, told, options, f"{self._context.descriptor}/{name}/{start}/{queue}")

    def _enqueue(self, children: Children) -> list[str]:
        try:
            return self._link.enqueue(children)
        except EnqueueRejected:
            self._save()  # if that is because this job was cancelled, it hears so now
            raise

    # Waiting

    def _messages_if_complete(self, name: str, count: int) -> list[ReceivedMessage] | None:
        """Return the messages of all children; None if some have not ended.

        To be called before children are enqueued: servers that know no messages would enqueue them without a parent.
        """
        last = self._link.read(name, count - 1, 1)
        if not last:
            return None
        found: list[ReceivedMessage] = []
        while len(found) < count - 1:
            found += self._link.read(name, len(found), min(_PAGE, count - 1 - len(found)))
        return [*found, *last]

    def _wait(self, use: str, name: str, record: CallRecord) -> JobWaits | JoinTimeout:
        if record.until_ms and self._link.is_over(self._message_name(use), record.until_ms):
            record.has_timed_out = True
            self._save()
            return _timed_out(name)
        self._context.begin()
        wait = MessageWait(self._message_name(use), record.count)
        return self._context.wait(JobWaits([wait], record.until_ms or ENDLESS_MS))

    def _descriptors(self, use: str, jobs: Sequence[Job], record: CallRecord, options: CallOptions) -> dict[int, str]:
        """Return the descriptors of the children that are known, by position."""
        positions = [
            parent.position
            for start in range(0, len(jobs), record.batch)
            for children in self._batches(use, jobs, start, min(start + record.batch, len(jobs)), options)
            for _, parent in children.jobs
        ]
        return dict(zip(positions, record.descriptors(), strict=False))


def _end(job: Job, message: ReceivedMessage, descriptor: str) -> Any:
    if message.kind == MessageKind.SUCCEEDED:
        return decode_result(type(job), message.payload or None)
    return job_failed(
        descriptor,
        message.payload.decode(errors="replace"),
        name=job.job_options.name,
        is_cancelled=message.kind == MessageKind.CANCELLED,
        is_gone=message.kind == MessageKind.DELETED,
    )


def _timed_out(name: str) -> JoinTimeout:
    return JoinTimeout(f"not all jobs of call {name!r} have ended in time")
