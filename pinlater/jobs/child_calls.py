"""The jobs that a job calls: it enqueues them once, and waits without a process until all have ended."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from pinlater.errors import EnqueueRejected, JobFailed, JobInterrupted, JoinTimeout, ResultInvalid, StepMismatch
from pinlater.jobs.awaited_call import refuse_await
from pinlater.jobs.batch_size import check_batch_size
from pinlater.jobs.call_fingerprints import call_difference, call_fingerprint
from pinlater.jobs.enqueue_options import CallOptions
from pinlater.jobs.failed_jobs import job_failed
from pinlater.jobs.job import Job
from pinlater.jobs.message_link import Children, MessageLink
from pinlater.jobs.name_counter import NameCounter
from pinlater.jobs.result_codec import decode_result
from pinlater.jobs.settled import SettledErrors
from pinlater.jobs.waiting import ENDLESS_MS, JobWaits
from pinlater.model.body_metadata import BodyMetadata, call_name
from pinlater.model.messages import MessageKind, MessageWait, Parent, ReceivedMessage
from pinlater.model.plural import plural
from pinlater.model.wait_records import CallRecord

if TYPE_CHECKING:
    from pinlater.jobs.workflow_context import WorkflowContext

_PAGE = 1000
DEFAULT_BATCH = 1000
"""Number of children to enqueue at a time."""
_SAVE_SECONDS = 1.0
"""How long the number of enqueued children may be unsaved; a later attempt repeats what is missing, with equal keys."""
_SUCCEEDED = int(MessageKind.SUCCEEDED)

_parent: Callable[[tuple[str, str, int]], Parent] = partial(tuple.__new__, Parent)
"""Creates a ``Parent`` without running Python code, since there is one for each child."""


class Joined(NamedTuple):
    """The results and failures of all children of a call, in the order of the jobs."""

    name: str
    ends: list[Any]

    def results(self) -> list[Any]:
        """Return the results.

        Raises:
            JobFailed: some children have failed; this is the failure of the first.
        """
        failures = [end for end in self.ends if isinstance(end, JobFailed)]
        if not failures:
            return self.ends
        first = failures[0]
        if len(failures) > 1:
            first.args = (f"{first} (and {len(failures) - 1} more of {len(self.ends)} jobs of call {self.name!r})",)
        raise first


class _Call(NamedTuple):
    """The arguments of a call: the jobs, and what applies to all of them."""

    name: str
    jobs: Sequence[Job]
    timeout: float | None
    options: CallOptions


class Wave(NamedTuple):
    """The children that are enqueued and awaited together: those of all jobs of a call, or of some that it calls again.

    Attributes:
        call: the call.
        use: name under which the wave is recorded, such as ``load#2/again``.
        positions: positions of their jobs in the call.
        record: what is recorded of them.
    """

    call: _Call
    use: str
    positions: Sequence[int]
    record: CallRecord


class _Ended(NamedTuple):
    """The last messages of children, and if some have failed, the known descriptors; both by position."""

    messages: dict[int, ReceivedMessage]
    descriptors: dict[int, str]


class ChildCalls:
    """Calls other jobs in one attempt.

    Args:
        context: context of the attempt.
        metadata: records what was called.
        link: enqueues the children and reads their messages.
        save: saves the record.
        settled: collects the errors with which calls have ended.

    Attributes:
        names: counts the uses of names.
    """

    def __init__(
        self,
        context: WorkflowContext,
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
        call = _Call(name, list(jobs), timeout, options)
        if not call.jobs:
            return Joined(name, [])
        check_batch_size(batch_size)
        record = self._record(use, call.jobs, batch_size)
        messages, descriptors = self._ended(Wave(call, use, range(len(call.jobs)), record))
        ends = [
            self._result(job, messages[at], use)
            if messages[at].kind == _SUCCEEDED
            else _failure(job, messages[at], descriptors.get(at, ""))
            for at, job in enumerate(call.jobs)
        ]
        self._metadata.accept_record(_results_of(use))
        latest = record.latest()
        failures = [end for end in ends if isinstance(end, JobFailed)]
        for failure in failures:
            self._settled.add(failure, partial(latest.call_again, len(failures)))
        return Joined(name, ends)

    def _ended(self, wave: Wave) -> _Ended:
        """Enqueue the children of a wave; return their messages once all have ended.

        Failed ones are called again if this job was given up because of them and then retried by hand.
        """
        call, use, positions, record = wave
        if call.timeout is not None and not record.until_ms:
            record.until_ms = self._link.now_ms() + int(call.timeout * 1000)
        if record.has_timed_out:
            raise self._timed_out(call.name, record)
        messages, missing = self._read_ends(self._message_name(use), positions)
        if missing is not None:  # otherwise all were enqueued, even if an attempt died before it saved that
            refuse_await()
            self._enqueue_rest(wave)
            raise self._wait(missing, call.name, record)
        failed = [at for at in positions if messages[at].kind != _SUCCEEDED]
        if not failed:
            return _Ended(messages, {})
        if record.again is not None:
            again = self._ended(Wave(call, f"{use}/again", failed, record.again))
            return again._replace(messages=messages | again.messages)
        return _Ended(messages, self._descriptors(wave))

    def ends(self, name: str, count: int, before_wait: Callable[[], object]) -> list[ReceivedMessage]:
        """Return the messages of children that somebody else has enqueued, once all have ended.

        Args:
            name: name of their messages.
            count: number of children, including those that are yet to be enqueued.
            before_wait: called before the job waits for them.
        """
        self._context.go_on_to_wait()
        messages, missing = self._read_ends(name, range(count))
        if missing is not None:
            before_wait()
            raise self._context.begin_wait(JobWaits([missing]))
        return list(messages.values())

    def _result(self, job: Job, message: ReceivedMessage, use: str) -> Any:
        try:
            return decode_result(type(job), message.payload or None)
        except ResultInvalid as error:  # the child has ended: every attempt of this job would get the same result
            mismatch = StepMismatch(
                f"call {use!r}: {error}. Let the result type of the class allow what jobs of the code before returned: "
                "give new fields a default, or name both types"
            )
            self._context.refuse_record(_results_of(use), mismatch)

    def _message_name(self, use: str) -> str:
        return call_name(self._metadata.run, use)

    def _record(self, use: str, jobs: Sequence[Job], batch_size: int) -> CallRecord:
        calls, found = self._metadata.calls, call_fingerprint(jobs)
        if use not in calls:
            calls[use] = CallRecord(len(jobs), batch_size, fingerprint=found)
        record = calls[use]
        if record.count != len(jobs):
            difference = f"{plural(len(jobs))} now, but of {record.count} when the job came here first"
        else:
            difference = call_difference(use, jobs, calls, found)
        if difference:
            mismatch = StepMismatch(
                f"call {use!r} is of {difference}. Give the same jobs in each attempt: read what may change in a step "
                "before. Give a call with another meaning another name, or let runs that began before keep the old "
                "code, by context.since"
            )
            self._context.refuse_record(f"call {use}", mismatch)
        self._metadata.accept_record(f"call {use}")
        return record

    # Enqueueing

    def _enqueue_rest(self, wave: Wave) -> None:
        """Enqueue the remaining children batch by batch, and save how many were enqueued.

        This is saved after the first batch, so that every attempt makes the same batches; then every second, since
        servers forget the idempotency key of a call after a day; and after the last batch.
        """
        saved_at, record, count = -math.inf, wave.record, len(wave.positions)
        while record.enqueued < count:
            self._context.begin()
            if self._context.is_draining:
                self._save()
                raise self._context.interrupt(JobInterrupted())
            end = min(record.enqueued + record.batch, count)
            stored = [
                descriptor for children in self._batch(wave, record.enqueued) for descriptor in self._enqueue(children)
            ]
            record.add(stored)
            record.enqueued = end
            if end == count or time.monotonic() - saved_at >= _SAVE_SECONDS:
                self._save()
                saved_at = time.monotonic()
            self._context.go_on_to_wait()

    def _batch(self, wave: Wave, start: int) -> Iterator[Children]:
        """Yield the children of a wave that are enqueued together, from the one with number ``start`` on, by queue."""
        call, name, parent = wave.call, self._message_name(wave.use), self._context.descriptor
        queues: defaultdict[str, list[tuple[Job, Parent]]] = defaultdict(list)
        for position in wave.positions[start : start + wave.record.batch]:
            job = call.jobs[position]
            queues[call.options.get("queue") or job.job_options.queue].append((job, _parent((parent, name, position))))
        for queue, told in queues.items():
            yield Children(queue, told, call.options, f"{parent}/{name}/{start}/{queue}")

    def _enqueue(self, children: Children) -> list[str]:
        try:
            return self._link.enqueue(children)
        except EnqueueRejected:
            self._save()  # if the reason is that this job was cancelled, this raises JobCancelled
            raise

    # Waiting

    def _read_ends(self, name: str, positions: Sequence[int]) -> tuple[dict[int, ReceivedMessage], MessageWait | None]:
        """Return the messages of all children by position; if some have not ended, none, and what to wait for.

        A position may have two children, if an enqueue was repeated after servers had forgotten its key; the first that
        has ended counts. There may be others, of an attempt that called more jobs and was killed before it saved that.
        Call this before children are enqueued: it fails if the server does not know messages, and such a server would
        enqueue them without a parent.
        """
        wanted = positions if isinstance(positions, range) else frozenset(positions)
        found: dict[int, ReceivedMessage] = {}
        number = 0
        while missing := len(wanted) - len(found):
            needed = number + missing
            if not self._link.read(name, needed - 1, 1):
                return {}, MessageWait(name, needed)
            while number < needed:
                page = self._link.read(name, number, min(_PAGE, needed - number))
                if not page:  # the job was deleted meanwhile, which it learns before it waits
                    return {}, MessageWait(name, needed)
                for message in page:
                    if (position := int(message.id)) in wanted:
                        found.setdefault(position, message)
                number += len(page)
        return found, None

    def _wait(self, missing: MessageWait, name: str, record: CallRecord) -> JobWaits | JoinTimeout:
        if record.until_ms and self._link.is_over(missing.name, record.until_ms):
            record.has_timed_out = True
            self._save()
            return self._timed_out(name, record)
        self._context.begin()
        return self._context.begin_wait(JobWaits([missing], record.until_ms or ENDLESS_MS))

    def _timed_out(self, name: str, record: CallRecord) -> JoinTimeout:
        return self._settled.add(JoinTimeout(f"not all jobs of call {name!r} have ended in time"), record.restart)

    def _descriptors(self, wave: Wave) -> dict[int, str]:
        """Return the known descriptors of the children, by position."""
        enqueued = [
            parent.position
            for start in range(0, len(wave.positions), wave.record.batch)
            for children in self._batch(wave, start)
            for _, parent in children.jobs
        ]
        return dict(zip(enqueued, wave.record.descriptors(), strict=False))


def _results_of(use: str) -> str:
    """Return the key under which a job waits for code that fits the results of a call."""
    return f"results of call {use}"


def _failure(job: Job, message: ReceivedMessage, descriptor: str) -> JobFailed:
    return job_failed(
        descriptor,
        message.payload.decode(errors="replace"),
        name=job.job_options.name,
        is_cancelled=message.kind == MessageKind.CANCELLED,
        is_gone=message.kind == MessageKind.DELETED,
    )
