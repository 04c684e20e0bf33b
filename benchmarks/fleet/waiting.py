"""Models in which dequeues wait at servers, and servers tell each other about new jobs."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from random import Random

from benchmarks.fleet.costs import HOP_SECONDS
from benchmarks.fleet.load import Load
from benchmarks.fleet.model import Model
from benchmarks.fleet.shard import Job, Shard
from benchmarks.fleet.timeline import Steps, Timeline
from benchmarks.fleet.worker import BATCH, Line, Worker

ANNOUNCE_SECONDS = 0.005
"""Time between messages of a server: ``BATCH_SECONDS`` of ``pinlater/server/peer_processes/notification_batch.py``."""

News = tuple[int, int]
"""A queue and a shard that has a new job of it."""


class Announcer:
    """Sends news immediately, or together with those of the next few milliseconds.

    Args:
        timeline: the simulated time.
        hear: receives each message when it arrives.
    """

    def __init__(self, timeline: Timeline, hear: Callable[[Sequence[News]], None]) -> None:
        self._timeline, self._hear = timeline, hear
        self._unsent: dict[News, None] = {}
        self._is_sending = False

    def add(self, queue: int, shard: int) -> None:
        """Announce a new job."""
        self._unsent[queue, shard] = None
        if not self._is_sending:
            self._is_sending = True
            self._timeline.start(self._send())

    def _send(self) -> Steps[None]:
        while self._unsent:
            self._timeline.start(self._deliver(list(self._unsent)))
            self._unsent.clear()
            yield ANNOUNCE_SECONDS
        self._is_sending = False

    def _deliver(self, message: Sequence[News]) -> Steps[None]:
        yield HOP_SECONDS
        self._hear(message)


class WaitingModel(Model):
    """Parks a dequeue that finds no job, and wakes it when there may be one.

    A dequeue waits at the server of its worker, unless ``place`` says otherwise.
    """

    def __init__(self, timeline: Timeline, load: Load, shards: Sequence[Shard], random: Random) -> None:
        super().__init__(timeline, load, shards, random)
        self.lines = [Line() for _ in range(self.load.servers)]

    def place(self, worker: Worker, queue: int) -> int:
        """Return the number of the server that claims jobs of a queue for a worker."""
        del queue
        return worker.server

    @abstractmethod
    def may_have(self, server: int, queue: int) -> bool:
        """Return whether a server would ask a shard for jobs of a queue now."""

    @abstractmethod
    def claim(self, server: int, queue: int) -> Steps[list[Job]]:
        """Claim due jobs of a queue."""

    def parked(self, server: int, queue: int) -> None:
        """Tell a server that a dequeue begins to wait; by default, do nothing: it is already in the line."""

    def dequeue(self, worker: Worker) -> Steps[list[Job]]:
        self.counts.calls += 1
        yield from self._pass_on(worker)
        while True:
            for queue in worker.in_turn():
                server = self.place(worker, queue)
                if self.may_have(server, queue):
                    claimed = yield from self._attempt(worker, server, queue)
                    if claimed:
                        worker.served(queue)
                        return claimed
            if not any(self.may_have(self.place(worker, queue), queue) for queue in worker.queues):
                yield from self._wait(worker)

    def _pass_on(self, worker: Worker) -> Steps[None]:
        """Pass a dequeue on to the servers that claim jobs for it, except for the one where it is."""
        others = {self.place(worker, queue) for queue in worker.queues} - {worker.server}
        if others:
            self.counts.passed_on += len(others)
            yield HOP_SECONDS

    def _attempt(self, worker: Worker, server: int, queue: int) -> Steps[list[Job]]:
        """Claim jobs; wake another dequeue for jobs that this one leaves."""
        if worker.woken_for == queue:
            worker.woken_for = None
        claimed = yield from self.claim(server, queue)
        self.count_attempt(server, claimed)
        if len(claimed) == BATCH and self.may_have(server, queue):
            self.lines[server].wake_first(queue)
        if claimed:
            missed, worker.woken_for = worker.woken_for, None
            if missed is not None and self.may_have(self.place(worker, missed), missed):
                self.lines[self.place(worker, missed)].wake_first(missed)
            if server != worker.server:
                yield HOP_SECONDS
        return claimed

    def _wait(self, worker: Worker) -> Steps[None]:
        worker.is_parked = True
        for queue in worker.queues:
            server = self.place(worker, queue)
            self.lines[server].join(queue, worker)
            self.parked(server, queue)
        yield None
        for queue in worker.queues:
            self.lines[self.place(worker, queue)].leave(queue, worker)
