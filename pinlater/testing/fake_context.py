"""A job context without a worker: ``job.run(FakeContext())``."""

from __future__ import annotations

import copy
import logging
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from threading import get_ident
from time import time
from typing import Any, TypeVar, Unpack

from pinlater.client.jobs import encoder
from pinlater.errors import JobCancelled, JobInterrupted
from pinlater.jobs.body_codec import encode_body
from pinlater.jobs.cursor import iterate
from pinlater.jobs.enqueue_options import FollowUpOptions
from pinlater.jobs.follow_ups import follow_up_key, set_unique_key
from pinlater.jobs.job import Job
from pinlater.jobs.lazy_attribute import lazy
from pinlater.jobs.next_run import NextRun
from pinlater.jobs.options import JobOptions
from pinlater.jobs.run_keys import new_run_id
from pinlater.jobs.step_deadline import StepDeadline
from pinlater.jobs.step_results import as_json
from pinlater.jobs.waiting import JobWaits
from pinlater.jobs.workflow_context import WorkflowContext
from pinlater.model.body_metadata import BodyMetadata
from pinlater.model.progress import Progress
from pinlater.testing.fake_link import FakeCalls, FakeLink, decoded
from pinlater.worker.running.step_limits import StepLimits

_T = TypeVar("_T")
_J = TypeVar("_J", bound=Job)


class FakeContext(WorkflowContext):
    """A context for ``run`` without a worker; it records what the job did.

    ::

        context = FakeContext(draining_after=3)
        job = ReindexBoard(board_id=7)
        with pytest.raises(JobInterrupted):
            job.run(context)
        assert [saved.cursor for saved in context.checkpoints] == [101, 102, 103]
        context.resume(job).run(FakeContext(previous=context))  # the next attempt

    For an ``async def run``, use ``asyncio.run(job.run(context))``.

    A real worker sends at most one checkpoint per ``heartbeat`` seconds. Here every checkpoint is recorded and decoded
    at once, so a field of the wrong type raises an error where it is saved.

    Attributes:
        checkpoints: the job as it was saved each time, oldest first: by ``checkpoint``, by each step that was run, and
            by other calls that save it, such as ``enqueue`` and ``sleep_for``.
        steps: name of a finished step -> its result, as decoded from JSON; the second use of a name is ``name#2``.
        progress_reports: progress that the job has reported, oldest first.
        sleeps: name of a sleep -> epoch milliseconds at which it ends.
        enqueued: name of a follow-up job -> the job.
        next_run: ``after`` or ``at`` of the last ``reschedule``; None without one.
        published: fields that the job has published.
        tries: name of a failed ``retrying`` step -> attempt of the job, and how often the step has failed in it.
        patches: name of a patch -> whether this run follows it.
        called: name of a call -> the jobs that were called; the second use of a name is ``name#2``.
        interruption: what was raised to end the attempt; a worker ends it even if ``run`` catches that and returns.

    Args:
        job: the job that runs; needed only if ``run`` passes the context to another thread.
        attempt: number of this attempt, 1 for the first.
        attempts_allowed: total number of attempts.
        queue: queue that the job came from.
        descriptor: its address; None: one is made up.
        steps: results of steps that earlier attempts have finished.
        sleeps: finished sleeps, as in ``sleeps`` of the previous context.
        enqueued: follow-up jobs that earlier attempts have enqueued.
        scheduled_for: the time for which this run was scheduled.
        tries: attempts that steps have spent, as in ``tries`` of the previous context.
        patches: name of a patch -> whether this run follows it, for ``since``.
        results: name of a call -> what its jobs have returned, in their order; a ``JobFailed`` stands for one that has
            failed. If a call has no results, the job begins to wait: ``JobSleeps`` is raised.
        events: name of an event -> the values sent under it, in the order of their arrival, for ``wait_for``.
        timed_out: names of calls and events whose timeout is over; their ``results`` and ``events`` came before that.
        draining_after: number of the checkpoint at which a drain interrupts the job; counted as in ``checkpoints``.
        cancelled_after: number of the checkpoint that raises ``JobCancelled``; counted as in ``checkpoints``.
        previous: context of the previous attempt, whose records this attempt continues; other arguments override them.
        gave_up: why the job gave up after ``previous``, so that this attempt undoes its sagas; empty if it did not.
    """

    def __init__(
        self,
        job: Job | None = None,
        *,
        attempt: int = 1,
        attempts_allowed: int = 4,
        queue: str = "test",
        descriptor: str | None = None,
        steps: Mapping[str, Any] | None = None,
        sleeps: Mapping[str, int] | None = None,
        tries: Mapping[str, tuple[int, int]] | None = None,
        enqueued: Mapping[str, Job] | None = None,
        scheduled_for: datetime | None = None,
        patches: Mapping[str, bool] | None = None,
        results: Mapping[str, Sequence[Any]] | None = None,
        events: Mapping[str, Sequence[Any]] | None = None,
        timed_out: Collection[str] = (),
        draining_after: int | None = None,
        cancelled_after: int | None = None,
        previous: FakeContext | None = None,
        gave_up: str = "",
    ) -> None:
        self.thread = get_ident()
        self.descriptor = descriptor or f"{queue}:s1:p1:1"
        self.queue = queue
        self.attempt = attempt
        self.attempts_allowed = attempts_allowed
        self.log = logging.LoggerAdapter(logging.getLogger(__name__), {"descriptor": self.descriptor})
        self.checkpoints: list[Any] = []
        kept = BodyMetadata() if previous is None else previous.recorded()
        if steps is not None:
            kept.steps = {name: as_json(name, result)[0] for name, result in steps.items()}
            kept.fingerprints, kept.untyped = {}, []
        kept.sleeps = kept.sleeps if sleeps is None else dict(sleeps)
        kept.tries = kept.tries if tries is None else dict(tries)
        kept.patches = kept.patches if patches is None else dict(patches)
        if kept.saga is not None and gave_up:
            kept.saga.why = gave_up
        self._metadata = kept
        self.steps, self.sleeps, self.tries = kept.steps, kept.sleeps, kept.tries
        self.progress_reports: list[Progress] = []
        self.patches, self.published = kept.patches, kept.published
        self.enqueued: dict[str, Job] = dict(previous.enqueued if enqueued is None and previous else enqueued or {})
        kept.enqueued = dict.fromkeys(self.enqueued, "")
        self._fake_link = FakeLink(results or {}, events or {}, timed_out)
        self.called = self._fake_link.called
        self.next_run: NextRun | None = None
        self._scheduled_for = scheduled_for
        self._job = job
        self._body: bytes | None = None
        self._draining_after = draining_after
        self._cancelled_after = cancelled_after

    @property
    def is_draining(self) -> bool:
        """Whether the next checkpoint interrupts the job."""
        return self._draining_after is not None and len(self.checkpoints) + 1 >= self._draining_after

    @property
    def is_cancelled(self) -> bool:
        """Whether the job was cancelled; see ``JobContext.is_cancelled``."""
        return self._cancelled_after is not None and len(self.checkpoints) + 1 >= self._cancelled_after

    def go_on(self) -> None:
        """Raise the interruption if there is one, or if the job was cancelled."""
        if self.is_cancelled:
            self.note_interruption(JobCancelled("the job was cancelled"))
        super().go_on()

    def begin_wait(self, why: JobWaits) -> JobWaits:
        """End the attempt to wait, and say how a test lets the job go on."""
        why.add_note("in a test: FakeContext(results={'CALL': […]}, events={'EVENT': […]}) is what has come already")
        return super().begin_wait(why)

    def checkpoint(self, *, flush: bool = False) -> None:  # noqa: ARG002 - every checkpoint is recorded
        """Save the record; see ``JobContext.checkpoint``."""
        self.go_on()
        is_draining = self.is_draining
        self._save()
        if is_draining:
            raise self.interrupt(JobInterrupted())

    @property
    def ran(self) -> list[str]:
        """Names of the steps that were run with this context, in order; without those finished before."""
        return self._steps.ran

    @property
    def _link(self) -> FakeLink:
        return self._fake_link

    @lazy
    def _calls(self) -> FakeCalls:
        return FakeCalls(self, self._metadata, self._link, self._save_surely, self._settled)

    def progress(self, done: float, total: float | None = None, note: str = "") -> None:
        """Record the job's progress; see ``JobContext.progress``."""
        self._refuse_raw("progress")
        self.progress_reports.append(Progress(done, total, note))

    def iterate(self, items: Iterable[_T], *, cursor: str = "cursor") -> Iterator[_T]:
        """Iterate over items from the cursor on; see ``JobContext.iterate``."""
        return iterate(self._running_job(), items, cursor, self.go_on, self.checkpoint)

    def enqueue(
        self,
        job: Job,
        *,
        name: str,
        **options: Unpack[FollowUpOptions],
    ) -> str:
        """Record a follow-up job once; see ``JobContext.enqueue``."""
        self.go_on()
        self._refuse_raw("follow-up jobs")
        use = self._follow_up_names.next(name)
        key = follow_up_key(self.descriptor, 0, use)
        set_unique_key(options, key)
        encoding = encoder(options)
        if use not in self.enqueued:
            self.begin()
            self.enqueued[use] = decoded(job, encoding.struct(job).body or b"")
            self._metadata.enqueued[use] = ""
            self._save()
        return f"{encoding.target_queue(job)}:s1:p1:{2 + list(self.enqueued).index(use)}"

    def reschedule(self, *, after: float | None = None, at: datetime | float | None = None) -> None:
        """Record when the job runs again; see ``JobContext.reschedule``."""
        self._refuse_raw("its next run")
        self.next_run = NextRun.of(after, at)

    @property
    def scheduled_for(self) -> datetime | None:
        """The time for which this run was scheduled; see ``JobContext.scheduled_for``."""
        return self._scheduled_for

    def recorded(self) -> BodyMetadata:
        """Return a copy of the metadata that the next attempt gets."""
        return copy.deepcopy(self._metadata)

    def resume(self, job: _J) -> _J:
        """Return ``job`` as its next attempt gets it, decoded from the last saved record.

        Raises:
            LookupError: nothing was saved; the next attempt starts with the job as it was enqueued.
        """
        if self._body is None:
            raise LookupError("nothing was saved here; the next attempt begins with the job as it was enqueued")
        return decoded(job, self._body)

    def _save(self) -> None:
        job = self._running_job()
        body = encode_body(job, self._metadata)
        self.checkpoints.append(decoded(job, body))
        self._body = body

    _save_surely = _save

    def server_seconds(self) -> float:
        """Return epoch seconds of this machine."""
        return time()

    def limit_step(self, deadline: StepDeadline) -> AbstractContextManager[None]:
        """Return a context manager in which the deadline of a step is enforced, as in a worker."""
        return StepLimits().limit(deadline)

    def _new_run_id(self) -> str:
        return new_run_id(self.descriptor, None, 0)

    async def _save_awaited(self) -> None:
        self._save()

    @property
    def _running_options(self) -> JobOptions:
        return self._running_job().job_options

    def _running_job(self) -> Job:
        """Return the job that runs with this context; if it was not given, find it among the callers."""
        frame = sys._getframe(1)  # noqa: SLF001 - the documented way to one's caller
        while self._job is None:
            if frame.f_back is None:
                raise LookupError("no job's run(self, context) is calling; say whose context it is: FakeContext(job)")
            frame = frame.f_back
            names = frame.f_code.co_varnames[: frame.f_code.co_argcount]
            given = [frame.f_locals.get(name) for name in names]
            if given and isinstance(given[0], Job) and any(argument is self for argument in given[1:]):
                self._job = given[0]
        return self._job
