"""Runs each job in a thread: for work that waits in blocking calls."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue
from time import monotonic_ns

from pinlater.worker import logs
from pinlater.worker.claim_table.snapshot import RUNNING
from pinlater.worker.pipe_event import PipeEvent
from pinlater.worker.processes.team import EndedJob, Team
from pinlater.worker.running.alarms import Alarms
from pinlater.worker.running.deadlines import Deadlines
from pinlater.worker.running.limits import KillAt
from pinlater.worker.running.runner import Runner
from pinlater.worker.running.thread_limits import ThreadLimits
from pinlater.worker.session.batch import DequeuedBatch

NewRunner = Callable[[logs.CurrentJob, ThreadLimits], Runner]
"""Creates the runner of a thread."""

_JOIN_SECONDS = 1.0


class ThreadTeam(Team):
    """Runs each job in an idle thread, or a new one; threads live as long as the process.

    Args:
        capacity: how many threads there may be.
        waker: wakes the main thread when a job has ended, or a limit was set.
        new_runner: makes the runner of a thread.
        kill_at: has this process killed if a job does not heed its limits.
    """

    def __init__(self, capacity: int, waker: PipeEvent, new_runner: NewRunner, kill_at: KillAt) -> None:
        super().__init__(capacity, waker)
        self._new_runner = new_runner
        self._deadlines = Deadlines(kill_at)
        self._alarms = Alarms(waker.set)
        self._threads: list[threading.Thread] = []
        self._waiting: SimpleQueue[DequeuedBatch | None] = SimpleQueue()

    def _start_job(self, batch: DequeuedBatch) -> None:
        if self._busy > len(self._threads):
            number = len(self._threads) + 1
            self._threads.append(threading.Thread(target=self._work, name=f"job-{number}", daemon=True))
            self._threads[-1].start()
        self._waiting.put(batch)

    def check(self) -> float | None:
        """Check the soft limits."""
        return self._alarms.check()

    def close(self) -> None:
        """End the idle threads."""
        for _ in self._threads:
            self._waiting.put(None)
        if not self._busy:
            for thread in self._threads:
                thread.join(_JOIN_SECONDS)

    def _work(self) -> None:
        try:
            running = logs.CurrentJob()
            logs.current_job.set(running)
            runner = self._new_runner(running, ThreadLimits(self._deadlines, self._alarms))
            while (batch := self._waiting.get()) is not None:
                began_ns = monotonic_ns()
                batch.area.states[0] = RUNNING
                outcome = runner.run(batch, 0, began_ns)
                self._on_ended(EndedJob(batch, outcome, (monotonic_ns() - began_ns) / 1e9))
            runner.close()
        except BaseException as error:  # noqa: BLE001 - it is raised in the main thread
            self._on_breakdown(error)
