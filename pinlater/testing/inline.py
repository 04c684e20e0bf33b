"""A client that runs jobs immediately instead of enqueueing them."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar, Unpack

from pinlater.client.batches import encoder_of_many
from pinlater.client.client import Client
from pinlater.client.tls import TlsFiles
from pinlater.errors import BodyInvalid, StaleClaims
from pinlater.jobs.enqueue_options import EnqueueManyOptions
from pinlater.jobs.job import Job
from pinlater.jobs.middleware import Middleware
from pinlater.model.attempts import ClaimedJob
from pinlater.model.body_metadata import OPEN_SAGA
from pinlater.model.class_name import name_in
from pinlater.model.jobs import NewJob
from pinlater.model.messages import Message, MessageKind
from pinlater.model.state import JobState
from pinlater.model.status import CANCELLED_WITH_PARENT
from pinlater.protocol.conversion.jobs import enqueue_reply, info_struct
from pinlater.protocol.conversion.messages import RECEIVED
from pinlater.protocol.framing import MAX_FRAME_BYTES
from pinlater.protocol.messages import PinLaterEnqueueResponse, PinLaterJob, PinLaterJobInfo, PinLaterMessage
from pinlater.protocol.operations import Call
from pinlater.server.api.rules import JobRules, message
from pinlater.testing.attempts import MOST_RUNS, Attempts, Outcome
from pinlater.testing.inline_job import InlineJob
from pinlater.testing.mailboxes import Mailboxes

T = TypeVar("T")

_RULES = JobRules(levels=127, max_body_bytes=MAX_FRAME_BYTES)
"""What every server demands of jobs, whatever its settings allow."""


@contextlib.contextmanager
def run_inline(
    *kinds: type[Job], most_runs: int = MOST_RUNS, middleware: Sequence[Middleware] = ()
) -> Iterator[InlineClient]:
    """Yield a client that runs each job of ``kinds`` as soon as it is enqueued.

    ::

        with run_inline(SendWelcomeEmail) as client:
            sign_up("ada@example.com", client)  # the code under test enqueues
            client.assert_succeeded()
            assert [outcome.job.user_id for outcome in client.outcomes] == [42]

    Nothing waits: ``delay``, ``run_at``, backoffs and sleeps are only recorded. A failed job is retried at once while
    attempts remain; a rescheduled one stays pending (to test its next runs, use ``pinlater_server``). Jobs that a job
    enqueues or calls run after it, in order, before the outermost ``enqueue`` returns. A job that waits for an event
    stays pending until ``handle.send`` sends one, or until ``client.advance`` reaches the end of its timeout.

    ``enqueue`` raises ``BodyInvalid`` for a job that a worker could not decode: one of another class, or with a field
    of the wrong type.

    Args:
        kinds: job classes that may be enqueued.
        most_runs: maximum number of attempts; more count as an endless loop.
        middleware: middleware of each run, outermost first.

    Raises:
        ConfigError: two classes share a name.
    """
    with InlineClient(kinds, most_runs, middleware) as client:
        yield client


class InlineClient(Client):
    """Client of ``run_inline``: it enqueues like a ``Client``, and its handles tell how their jobs ended.

    Calls that need a server, such as counting or dequeueing, raise ``RuntimeError``.

    Attributes:
        outcomes: one record per attempt, in the order in which they ran.
    """

    def __init__(
        self, kinds: Iterable[type[Job]], most_runs: int = MOST_RUNS, middleware: Sequence[Middleware] = ()
    ) -> None:
        super().__init__("localhost", source="inline", tls=TlsFiles())  # never connected to
        self.outcomes: list[Outcome] = []
        self._most_runs = most_runs
        self._attempts = Attempts(kinds, _InlineCalls(self), now=self._now, middleware=middleware)
        self._ahead_seconds = 0.0
        self._mailboxes = Mailboxes()
        self._stored_once: dict[bytes, list[str]] = {}
        self._numbers = itertools.count(1)
        self._jobs: dict[str, InlineJob] = {}
        self._keyed: dict[tuple[str, str], InlineJob] = {}
        self._due: deque[InlineJob] = deque()
        self._is_running = False

    def close(self) -> None:
        """Close the event loop of asynchronous jobs."""
        self._attempts.__exit__()
        super().close()

    def assert_succeeded(self) -> None:
        """Assert that jobs were enqueued, and that all have succeeded; for a rescheduled one, its first run counts.

        Raises:
            AssertionError: some have not; the message says which and why, and its cause is their last exception.
        """
        assert self._jobs, "no job was enqueued"
        failed = {job.descriptor: job for job in self._jobs.values() if not job.has_succeeded}
        if failed:
            told = "\n".join(f"{job.descriptor}: {job.status}{job.waits_text}" for job in failed.values())
            errors = [outcome.error for outcome in self.outcomes if outcome.descriptor in failed]
            cause = errors[-1] if errors else None
            raise AssertionError(f"{len(failed)} of {len(self._jobs)} jobs did not succeed\n{told}") from cause

    def enqueue_many(
        self,
        jobs: Iterable[Job],
        *,
        batch_size: int = 500,  # noqa: ARG002 - nothing is sent
        progress: Callable[[int], object] | None = None,
        **options: Unpack[EnqueueManyOptions],
    ) -> int:
        """Run many jobs, one after the other; return their number."""
        encoder_of_many(options)  # refuses what a client refuses
        count = 0
        for count, job in enumerate(jobs, 1):
            own = {name: value(job) if callable(value) else value for name, value in options.items()}
            self.enqueue(job, **own)  # type: ignore[arg-type]
            if progress is not None:
                progress(count)
        return count

    def advance(self, seconds: float) -> None:
        """Let time pass, and run the jobs whose wait for events or other jobs has timed out by then.

        Raises:
            ValueError: ``seconds`` is negative.
        """
        if not seconds >= 0:
            raise ValueError(f"advance({seconds}): time never goes back")
        self._ahead_seconds += seconds
        for job in self._jobs.values():
            if job.waits_for and job.run_after_ms <= self._now() * 1000:
                self._wake(job)
        self._run_due()

    def _now(self) -> float:
        return time.time() + self._ahead_seconds

    def _now_ms(self) -> int:
        return int(self._now() * 1000)

    # What a server would do

    def _execute(self, call: Call[T]) -> T:
        answer: Callable[[Any], Any] | None = {
            "createQueue": lambda _: None,
            "enqueueJobs": self._enqueue,
            "lookupJobs": self._lookup,
            "deleteJobs": self._delete,
            "cancelJobs": self._cancel,
            "sendMessage": self._send,
            "readMessages": self._read,
        }.get(call.method)
        if answer is None or (call.method == "deleteJobs" and call.arguments.request.jobDescriptors is None):
            raise RuntimeError(f"run_inline keeps no queues, so there is no {call.method}; use pinlater_server")
        return call.convert(answer(call.arguments))

    def _enqueue(self, arguments: Any) -> PinLaterEnqueueResponse:
        request = arguments.request
        queue, jobs = request.queueName, _RULES.new_jobs(request.jobs)
        stored = [self._duplicate(queue, job) or self._store(queue, job) for job in jobs]
        self._run_due()
        return enqueue_reply([job.descriptor for job in stored])

    def _duplicate(self, queue: str, job: NewJob) -> InlineJob | None:
        """Return the job that holds the same unique key; None if the new job gets the key, or has none."""
        keyed = None if job.unique is None else self._keyed.get((queue, job.unique))
        holder = None if keyed is None else keyed.key_holder(self._now_ms())
        if keyed is None or holder is None or holder.gives_way_to(job.unique_rule):
            return None
        if holder.is_replaced_by(job):
            self._refuse_unreadable(queue, job.body)
            keyed.replace(job, holder.replaced_due(job, self._now_ms()))
        return keyed

    def _store(self, queue: str, job: NewJob) -> InlineJob:
        self._refuse_unreadable(queue, job.body)
        now_ms = self._now_ms()
        descriptor = f"{queue}:s1:p{job.priority}:{next(self._numbers)}"
        due_ms = now_ms if job.run_after_ms is None else job.run_after_ms
        stored = InlineJob(descriptor, job.body, job.attempts, job.attempts, due_ms, job.status, now_ms)
        stored.key, stored.parent = job.key, job.parent
        self._jobs[descriptor] = stored
        if job.unique is not None:
            stored.unique_until_ms = now_ms + (0 if job.unique_rule is None else job.unique_rule.period_ms)
            self._keyed[queue, job.unique] = stored
        self._due.append(stored)
        return stored

    def _refuse_unreadable(self, queue: str, body: bytes) -> None:
        codec = self._attempts.codec
        try:
            codec.decode(queue, body)
        except BodyInvalid as error:
            if name_in(body) not in codec.names:
                error.add_note("in a test: run_inline(…) takes every class of which jobs are enqueued or called")
            raise

    def _lookup(self, arguments: Any) -> dict[str, PinLaterJobInfo]:
        asked = arguments.request
        return {
            descriptor: info_struct(
                self._jobs[descriptor].info(
                    include_body=bool(asked.includeBody),
                    include_result=bool(asked.includeResult),
                    body_bytes=asked.maxBodyBytes,
                )
            )
            for descriptor in asked.jobDescriptors
            if descriptor in self._jobs
        }

    def _delete(self, arguments: Any) -> int:
        known, state = self._jobs, arguments.request.jobState
        gone = [name for name in arguments.request.jobDescriptors if name in known and known[name].state == state]
        for name in gone:
            job = known.pop(name)
            if not job.state.is_final and job.parent is not None:
                self._deliver(
                    job.parent.descriptor,
                    Message(job.parent.name, str(job.parent.position), b"", MessageKind.DELETED),
                )
        self._due = deque(job for job in self._due if job.descriptor in known)
        self._keyed = {key: job for key, job in self._keyed.items() if job.descriptor in known or job.state.is_final}
        return len(gone)

    def _cancel(self, arguments: Any) -> int:
        request = arguments.request
        names = dict.fromkeys(request.jobDescriptors)
        found = [self._jobs[name] for name in names if name in self._jobs]
        before = sum(job.is_cancelled and job.state is JobState.FAILED for job in found)
        cancelled = self._cancel_families([job for job in found if not job.state.is_final], request.appendCustomStatus)
        self._due = deque(job for job in self._due if not job.state.is_final)
        self._run_due()
        return before + cancelled

    def _cancel_families(self, jobs: Sequence[InlineJob], status: str | None) -> int:
        """Cancel jobs that have not ended, and their children; a running one can still succeed, but is not retried."""
        for job in jobs:
            if not job.is_cancelled:
                job.status += status or ""
            job.is_cancelled, job.unique_until_ms = True, 0
            if job.state is JobState.PENDING:
                self._cancel_waiting(job)
        names = {job.descriptor for job in jobs}
        children = [
            job
            for job in self._jobs.values()
            if job.parent is not None
            and job.parent.descriptor in names
            and not (job.state.is_final or job.is_cancelled)
        ]
        return len(jobs) + (self._cancel_families(children, CANCELLED_WITH_PARENT) if children else 0)

    def _cancel_waiting(self, job: InlineJob) -> None:
        job.waits_for = ()
        if OPEN_SAGA not in job.body:
            job.state = JobState.FAILED
            self._tell_parent(job)
        elif job not in self._due:
            self._due.append(job)

    def _tell_parent(self, job: InlineJob) -> None:
        if job.state.is_final and (told := job.end_message()) is not None:
            self._deliver(*told)

    def _enqueue_once(self, queue: str, jobs: list[PinLaterJob], key: bytes) -> list[str]:
        """Enqueue jobs for a running one, once for each key."""
        if key not in self._stored_once:
            self._stored_once[key] = self._execute(self._calls.enqueue_structs(queue, jobs))
        return self._stored_once[key]

    def _send(self, arguments: Any) -> bool:
        request = arguments.request
        is_taken = self._deliver(request.jobDescriptor, message(request, _RULES.max_body_bytes))
        self._run_due()
        return is_taken

    def _read(self, arguments: Any) -> list[PinLaterMessage]:
        asked = arguments.request
        found = self._mailboxes.read(asked.jobDescriptor, asked.name, asked.after or 0, asked.limit)
        return RECEIVED.structs(found)

    def _deliver(self, descriptor: str, message: Message) -> bool:
        """Keep a message to a job, and wake the job if it waits for it; return False if it has ended or is gone."""
        job = self._jobs.get(descriptor)
        if job is None or job.state.is_final:
            return False
        self._mailboxes.put(descriptor, message)
        if self._mailboxes.is_fulfilled(descriptor, job.waits_for):
            self._wake(job)
        return True

    def _wake(self, job: InlineJob) -> None:
        job.waits_for = ()
        self._due.append(job)

    def _save(self, claimed: ClaimedJob, body: bytes, attempts: int | None) -> None:
        job = self._jobs.get(claimed.descriptor)
        if job is None:
            raise StaleClaims(f"job {claimed.descriptor} was deleted", [claimed.descriptor])
        job.body = body
        if attempts is not None:
            job.attempts_allowed = job.attempts_remaining = attempts

    # What a worker would do

    def _run_due(self) -> None:
        if self._is_running:  # called by a running job, which ends first
            return
        self._is_running = True
        try:
            while self._due:
                self._run(self._due.popleft())
        finally:
            self._is_running = False

    def _run(self, job: InlineJob) -> None:
        if len(self.outcomes) >= self._most_runs:
            raise AssertionError(
                f"{self._most_runs} attempts were run and it does not end; see most_runs of run_inline"
            )
        claimed = ClaimedJob(
            job.descriptor, job.body, job.attempts_allowed, job.attempts_remaining, created_at_ms=job.created_at_ms
        )
        job.state, job.has_started = JobState.IN_PROGRESS, True
        outcome = self._run_attempt(claimed)
        self.outcomes.append(outcome)
        if job.descriptor not in self._jobs:  # it was deleted while it ran
            return
        job.record(outcome)
        self._tell_parent(job)
        if self._mailboxes.is_fulfilled(job.descriptor, job.waits_for):
            job.waits_for = ()
        if job.state is JobState.PENDING and outcome.runs_again and not job.waits_for:
            self._due.appendleft(job)

    def _run_attempt(self, claimed: ClaimedJob) -> Outcome:
        return self._attempts.run(claimed)


class _InlineCalls:
    """The ``ServerCalls`` of jobs that run inline."""

    def __init__(self, client: InlineClient) -> None:
        self._client = client
        self.read_messages = client.read_messages

    def save(self, claimed: ClaimedJob, body: bytes, attempts: int | None) -> None:
        self._client._save(claimed, body, attempts)  # noqa: SLF001 - they are a pair

    def is_cancelled(self, claimed: ClaimedJob) -> bool:
        job = self._client._jobs.get(claimed.descriptor)  # noqa: SLF001 - likewise
        return job is not None and job.is_cancelled

    def enqueue_once(self, queue: str, jobs: list[PinLaterJob], key: bytes) -> list[str]:
        return self._client._enqueue_once(queue, jobs, key)  # noqa: SLF001 - likewise
