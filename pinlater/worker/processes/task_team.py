"""Runs each job as a task of one event loop, in a thread beside the main one."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from time import monotonic_ns

from pinlater.worker.claim_table.snapshot import RUNNING
from pinlater.worker.pipe_event import PipeEvent
from pinlater.worker.processes.loop_watch import LoopWatch, TimedSelector
from pinlater.worker.processes.team import EndedJob, Team
from pinlater.worker.running.coroutines import CHECK_SECONDS, cancel_all
from pinlater.worker.running.deadlines import Deadlines
from pinlater.worker.running.limits import KillAt
from pinlater.worker.running.loop_threads import LoopThreads
from pinlater.worker.running.task_group import TaskGroup, family, new_task
from pinlater.worker.running.task_runner import TaskRunner
from pinlater.worker.session.batch import DequeuedBatch

_JOIN_SECONDS = 1.0


class _SharedLoop(asyncio.SelectorEventLoop):
    """The event loop of all jobs."""

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - of the base
        """Do nothing: a job that ends as a program does would take the threads of all others."""


class TaskTeam(Team):
    """Runs jobs on an event loop in one thread, which starts with the first job.

    Args:
        capacity: how many jobs may run at once.
        waker: wakes the main thread when a job has ended.
        new_runner: makes the runner, given the hard limits of all jobs.
        kill_at: has this process killed if a job does not heed its limits.
        stopped_ns: returns when a job was last marked as one that is to stop.
    """

    def __init__(
        self,
        capacity: int,
        waker: PipeEvent,
        new_runner: Callable[[Deadlines], TaskRunner],
        kill_at: KillAt,
        stopped_ns: Callable[[], int],
    ) -> None:
        super().__init__(capacity, waker)
        self._runner = new_runner(Deadlines(kill_at))
        selector = TimedSelector()
        self._loop = _SharedLoop(selector)
        self._loop.set_task_factory(new_task)
        self._call_threads = LoopThreads(self._loop)
        self._watch = LoopWatch(selector, self._current_job)
        self._thread: threading.Thread | None = None
        self._waiting: deque[DequeuedBatch] = deque()
        self._is_notified = self._is_closing = False
        self._tasks: dict[asyncio.Task[None], TaskGroup] = {}
        self._unbegun: dict[asyncio.Task[None], DequeuedBatch] = {}
        self._batches: dict[asyncio.Task[None], DequeuedBatch] = {}
        self._is_checking = False
        self._stopped_ns, self._checked_ns = stopped_ns, 0

    def _start_job(self, batch: DequeuedBatch) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="jobs", daemon=True)
            self._thread.start()
        self._waiting.append(batch)
        if not self._is_notified:
            self._is_notified = True
            self._loop.call_soon_threadsafe(self._start_all)

    def check(self) -> float | None:
        """Check whether a job blocks the others."""
        if not self._busy or self._thread is None:
            return None
        return self._watch.check(self._thread.ident or 0)

    def _current_job(self) -> object:
        task = asyncio.current_task(self._loop)
        for leader, found in list(self._tasks.items()):
            if task is leader or (found.tasks is not None and task in found.tasks):
                return found.job
        return "something that is not a job's task"

    def close(self) -> None:
        """Stop the loop, unless it is busy."""
        if self._busy:
            return
        self._is_closing = True
        if self._thread is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(_JOIN_SECONDS)
        if self._thread is None or not self._thread.is_alive():
            self._loop.close()

    # In the loop's thread

    def _work(self) -> None:
        try:
            asyncio.set_event_loop(self._loop)
            while not self._is_closing:
                # A job's task may stop our loop, or raise SystemExit, which asyncio raises here as well.
                with suppress(SystemExit, KeyboardInterrupt):
                    self._loop.run_forever()
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        except BaseException as error:  # noqa: BLE001 - it is raised in the main thread
            self._on_breakdown(error)

    def _start_all(self) -> None:
        self._is_notified = False
        self._loop.set_task_factory(new_task)  # a job may have given the loop another one
        while self._waiting:
            self._begin(self._waiting.popleft())
        if not self._is_checking:
            self._is_checking = True
            self._loop.call_later(CHECK_SECONDS, self._check_tasks)

    def _begin(self, batch: DequeuedBatch) -> None:
        task = self._loop.create_task(self._run(batch))
        self._tasks[task] = TaskGroup(batch.descriptors[0])
        self._unbegun[task] = batch

    def _begin_again(self) -> None:
        """Restart jobs whose tasks were cancelled before their first step, such as by a job that cancels all tasks."""
        for task in [task for task in self._unbegun if task.done()]:
            del self._tasks[task]
            self._begin(self._unbegun.pop(task))

    def _check_tasks(self) -> None:
        """Cancel, once, the jobs that are to stop; one that has not begun finds out by itself."""
        self._begin_again()
        stopped_ns = self._stopped_ns()
        if stopped_ns != self._checked_ns:
            self._checked_ns = stopped_ns
            for task in [task for task, batch in self._batches.items() if batch.must_stop(0)]:
                self._batches.pop(task).is_told = True
                task.cancel()
        self._is_checking = bool(self._tasks)
        if self._is_checking:
            self._loop.call_later(CHECK_SECONDS, self._check_tasks)

    async def _run(self, batch: DequeuedBatch) -> None:
        began_ns = monotonic_ns()
        batch.area.states[0] = RUNNING
        task = asyncio.current_task()
        assert task is not None  # this is a coroutine
        own = self._tasks[task]
        self._batches[task] = self._unbegun.pop(task)
        family.set(own)
        try:
            outcome = await self._runner.run_awaited(batch, 0, began_ns)
            leftovers = own.unfinished()
            if leftovers:
                with suppress(asyncio.CancelledError):  # a leftover may cancel us in turn
                    await cancel_all(leftovers)
            self._call_threads.leave(own)
        except BaseException as error:  # noqa: BLE001 - it is raised in the main thread
            self._on_breakdown(error)
            return
        del self._tasks[task]
        self._batches.pop(task, None)
        self._on_ended(EndedJob(batch, outcome, (monotonic_ns() - began_ns) / 1e9))
