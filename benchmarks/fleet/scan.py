"""Model "scan", like the original PinLater: workers poll, and each dequeue walks the shards until it has enough."""

from __future__ import annotations

from benchmarks.fleet.costs import ROUND_TRIP_SECONDS
from benchmarks.fleet.model import Model
from benchmarks.fleet.shard import Job
from benchmarks.fleet.timeline import Steps
from benchmarks.fleet.worker import BATCH, Worker

POLL_SECONDS = 1.0
"""Interval between the starts of two rounds of a worker that finds nothing in any of its queues."""

PRIORITIES = 3
"""Number of priorities; a shard is asked once for each, since each has a table."""


class Scan(Model):
    """Dequeues do not wait at a server, so servers need not know about new jobs."""

    def dequeue(self, worker: Worker) -> Steps[list[Job]]:
        while True:
            began = self.timeline.now
            for queue in worker.in_turn():
                self.counts.calls += 1
                found = yield from self._walk(queue)
                self.count_attempt(worker.server, found)
                if found:
                    worker.served(queue)
                    return found
            yield max(began + POLL_SECONDS - self.timeline.now, 0.0)

    def stored(self, server: int, queue: int, shard: int) -> None:
        pass

    def _walk(self, queue: int) -> Steps[list[Job]]:
        """Ask one shard after the other, each once for each priority, and once more for the claimed jobs."""
        claimed: list[Job] = []
        for shard in self.random.sample(self.shards, len(self.shards)):
            yield shard.ask(PRIORITIES)
            found = shard.claim(queue, BATCH - len(claimed))
            if found:
                shard.ask(1, jobs=len(found))
                claimed += found
            yield ROUND_TRIP_SECONDS
            if len(claimed) >= BATCH:
                break
        return claimed
