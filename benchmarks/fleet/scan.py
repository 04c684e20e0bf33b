"""Model "scan": as the original PinLater. Workers poll, and each dequeue walks the shards until it has enough."""

from __future__ import annotations

from benchmarks.fleet.costs import ROUND_TRIP_SECONDS
from benchmarks.fleet.model import Model
from benchmarks.fleet.shard import Job
from benchmarks.fleet.timeline import Steps
from benchmarks.fleet.worker import BATCH, Worker

POLL_SECONDS = 1.0
"""A worker that has found nothing in all of its queues begins again so long after it began."""

PRIORITIES = 3
"""An empty shard is asked once for each: there is a table for each."""


class Scan(Model):
    """Dequeues do not wait in a server, so servers need not know of new jobs."""

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
        """Ask one shard after the other, each one time for each priority, and once more for the claimed jobs."""
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
