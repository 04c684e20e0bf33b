"""Workers, which ask for jobs, run them, and ask again."""

from __future__ import annotations

from benchmarks.fleet.timeline import Process

BATCH = 10
"""Maximum number of jobs of a dequeue."""


class Worker:
    """A job process with one connection.

    Attributes:
        server: the number of the server that it is connected to.
        queues: the queues that it serves.
        process: its simulated process; set when it is started.
        is_parked: whether its dequeue waits at a server.
        woken_for: the queue that it was woken for, until it has asked for jobs of that queue.
    """

    def __init__(self, server: int, queues: list[int]) -> None:
        self.server, self.queues = server, queues
        self.process: Process | None = None
        self.is_parked = False
        self.woken_for: int | None = None
        self._first = 0

    def in_turn(self) -> list[int]:
        """Return the queues that it serves; the queue that it got jobs from last comes last."""
        return self.queues[self._first :] + self.queues[: self._first]

    def served(self, queue: int) -> None:
        """Record the queue that it got jobs from."""
        self._first = (self.queues.index(queue) + 1) % len(self.queues)

    def wake(self, queue: int) -> None:
        """Wake its dequeue for a queue that may have jobs."""
        assert self.process is not None
        self.is_parked, self.woken_for = False, queue
        self.process.wake()


class Line:
    """The dequeues that wait at one server, by queue."""

    def __init__(self) -> None:
        self._waiting: dict[int, dict[Worker, None]] = {}

    def join(self, queue: int, worker: Worker) -> None:
        """Add a dequeue."""
        self._waiting.setdefault(queue, {})[worker] = None

    def leave(self, queue: int, worker: Worker) -> None:
        """Remove a dequeue."""
        self._waiting[queue].pop(worker, None)

    def waits_for(self, queue: int) -> bool:
        """Return whether a dequeue waits for a queue."""
        return any(worker.is_parked for worker in self._waiting.get(queue, ()))

    def wake_first(self, queue: int) -> bool:
        """Wake the dequeue that has waited longest; return whether there was one."""
        waiting = self._waiting.get(queue, {})
        while waiting:
            worker = next(iter(waiting))
            del waiting[worker]
            if worker.is_parked:  # otherwise it has just been woken for another queue
                worker.wake(queue)
                return True
        return False
