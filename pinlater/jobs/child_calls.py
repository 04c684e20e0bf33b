"""The jobs that a job calls: enqueued once, and waited for without a process until all have ended."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from pinlater.errors import EnqueueRejected, JobFailed, JobInterrupted, JoinTimeout, StepMismatch
from pinlater.jobs.enqueue_options import CallOptions
from pinlater.jobs.interruptible import InterruptibleContext
from pinlater.jobs.job import Job
from pinlater.jobs.message_link import Children, MessageLink
from pinlater.jobs.name_counter import NameCounter
from pinlater.jobs.result_codec import decode_result, job_failed
from pinlater.jobs.settled import SettledErrors
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


class _Call(NamedTuple):
    """What a call says of all its children."""

    name: str
    timeout: float | None
    options: CallOptions


class ChildCalls:
    """Calls other jobs in one attempt.

    Args:
        context: of the attempt.
        metadata: where it is recorded what was called.
        link: enqueues the children and reads what they tell.
        save: saves the record.
        settled: is told of what calls have ended with.

    Attributes:
        names: counts the uses of names.
    """

    def __init__(
        self,
        context: InterruptibleContext,
        metadata: BodyMetadata,
        link: MessageLink,
        save: Callable[[], object],
        settled: SettledErrors,
    ) -> None:
        self.names = NameCounter()
        self._context = context
        self._metadata = metadata
        self._link = link
        self._save = save
        self._settled = settled

    def join(
        self, jobs: Iterable[Job], name: str, *, timeout: float | None, batch_size: int, options: CallOptions
    ) -> Joined:
        """Enqueue children and return how they have ended; see ``JobContext.call_all``."""
        use = self.names.next(name)
        self._context.go_on_to_wait()
        children = list(enumerate(jobs))
        if not children:
            return Joined(name, [])
        if batch_size < 1:
            raise ValueError(f"batch_size={batch_size} must be at least 1")
        record = self._record(use, len(children), batch_size)
        ended = self._ended(_Call(name, timeout, options), use, children, record)
        ends = [_end(job, *ended[position]) for position, job in children]
        latest = record.latest()
        failures = [end for end in ends if isinstance(end, JobFailed)]
        for failure in failures:
            self._settled.add(failure, partial(latest.call_again, len(failures)))
        return Joined(name, ends)

    def _ended(
        self, call: _Call, use: str, children: Sequence[tuple[int, Job]], record: CallRecord
    ) -> dict[int, tuple[ReceivedMessage, str]]:
        """Enqueue children; once all have ended, return by position what they tell, and the descriptors of the failed.

        Those that have failed are called again if a person has retried the job that was given up for that.
        """
        if call.timeout is not None and not record.until_ms:
            record.until_ms = self._link.now_ms() + int(call.timeout * 1000)
        if record.has_timed_out:
            raise self._timed_out(call.name, record)
        messages = self._messages_if_complete(self._message_name(use), len(children))
        self._enqueue_rest(use, children, record, call.options)
        if messages is None:
            raise self._wait(use, call.name, record)
        ended = {int(message.id): (message, "") for message in messages}
        failed = [child for child in children if ended[child[0]][0].kind != MessageKind.SUCCEEDED]
        if not failed:
            return ended
        if record.again is not None:
            return ended | self._ended(call, f"{use}/again", failed, record.again)
        descriptors = self._descriptors(use, children, record, call.options)
        return ended | {at: (ended[at][0], descriptors.get(at, "")) for at, _ in failed}

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

    def _record(self, use: str, count: int, batch_size: int) -> CallRecord:
        record = self._metadata.calls.get(use)
        if record is None:
            record = self._metadata.calls[use] = CallRecord(count, batch_size)
        elif record.count != count:
            mismatch = StepMismatch(
                f"call {use!r} is of {count} jobs now, but {record.count} were called when the job came here first. "
                "Give the same jobs in each attempt: read what may change in a step before"
            )
            self._context.refuse_record(f"call {use}", mismatch)
        self._metadata.accept_record(f"call {use}")
        return record

    # Enqueueing

    def _enqueue_rest(
        self, use: str, jobs: Sequence[tuple[int, Job]], record: CallRecord, options: CallOptions
    ) -> None:
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

    def _batches(
        self, use: str, jobs: Sequence[tuple[int, Job]], start: int, end: int, options: CallOptions
    ) -> Iterator[Children]:
        name, parent = self._message_name(use), self._context.descriptor
        queues: defaultdict[str, list[tuple[Job, Parent]]] = defaultdict(list)
        for position, job in jobs[start:end]:
            queues[options.get("queue") or job.job_options.queue].append((job, Parent(parent, name, position)))
        for queue, told in queues.items():
            yield Children(queue, told, options, f"{parent}/{name}/{start}/{queue}")

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
            return self._timed_out(name, record)
        self._context.begin()
        wait = MessageWait(self._message_name(use), record.count)
        return self._context.wait(JobWaits([wait], record.until_ms or ENDLESS_MS))

    def _timed_out(self, name: str, record: CallRecord) -> JoinTimeout:
        return self._settled.add(JoinTimeout(f"not all jobs of call {name!r} have ended in time"), record.restart)

    def _descriptors(
        self, use: str, jobs: Sequence[tuple[int, Job]], record: CallRecord, options: CallOptions
    ) -> dict[int, str]:
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
