"""Models "known" and "homes": servers know which shards have due jobs of which queue."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random

from benchmarks.fleet.load import Load
from benchmarks.fleet.model import claim_from
from benchmarks.fleet.shard import READ_STATEMENTS, Job, Shard
from benchmarks.fleet.timeline import Steps, Timeline
from benchmarks.fleet.waiting import Announcer, News, WaitingModel
from benchmarks.fleet.worker import BATCH, Worker

LOOK_SECONDS = 1.0
"""Interval at which a server polls a shard for jobs that nobody announced."""


class Known(WaitingModel):
    """Every server has a map: queue -> shards that are known to have due jobs of it.

    Announcements name queue and shard; a poll of each shard per second covers all queues. A dequeue asks only shards in
    the map. A shard that is asked leaves the map, and returns if it gave as many jobs as were wanted, or with the next
    announcement or poll. So of several dequeues at a server, only one asks for the same jobs.
    """

    def __init__(self, timeline: Timeline, load: Load, shards: Sequence[Shard], random: Random) -> None:
        super().__init__(timeline, load, shards, random)
        servers = range(load.servers)
        self._known: list[dict[int, dict[int, None]]] = [{} for _ in servers]
        self._announcers = [
            Announcer(timeline, lambda news, server=server: self._hear(server, news)) for server in servers
        ]

    def background(self) -> Iterable[Steps[None]]:
        return [self._look(server, shard) for server in range(self.load.servers) for shard in self.shards]

    def may_have(self, server: int, queue: int) -> bool:
        return bool(self._known[server].get(queue))

    def stored(self, server: int, queue: int, shard: int) -> None:
        if not self._learn(server, queue, shard):
            self._announcers[server].add(queue, shard)

    def claim(self, server: int, queue: int) -> Steps[list[Job]]:
        known, claimed = self._known[server][queue], list[Job]()
        while known and len(claimed) < BATCH:
            number, wanted = next(iter(known)), BATCH - len(claimed)
            del known[number]
            found = yield from claim_from(self.shards[number], queue, wanted)
            claimed += found
            if len(found) == wanted:
                known[number] = None
        return claimed

    def cares_for(self, server: int, queue: int) -> bool:
        """Return whether a server claims jobs of a queue."""
        del server, queue
        return True

    def _learn(self, server: int, queue: int, shard: int) -> bool:
        """Tell a server about a job; return whether a dequeue was waiting for it."""
        self._known[server].setdefault(queue, {})[shard] = None
        return self.lines[server].wake_first(queue)

    def _hear(self, sender: int, news: Sequence[News]) -> None:
        for server in range(self.load.servers):
            heard = [] if server == sender else [one for one in news if self.cares_for(server, one[0])]
            self.counts.messages += bool(heard)
            for queue, shard in heard:
                self._learn(server, queue, shard)

    def _look(self, server: int, shard: Shard) -> Steps[None]:
        """Poll a shard every second for the queues with due jobs; the map is then right for this shard."""
        yield self.random.random() * LOOK_SECONDS
        while True:
            yield shard.ask(READ_STATEMENTS)
            for queue, known in self._known[server].items():
                if queue not in shard.due_queues:
                    known.pop(shard.number, None)
            for queue in list(shard.due_queues):
                if self.cares_for(server, queue):
                    self._learn(server, queue, shard.number)
            yield LOOK_SECONDS


class Homes(Known):
    """One server for each queue has its map and claims its jobs; the others pass dequeues on to it."""

    def __init__(self, timeline: Timeline, load: Load, shards: Sequence[Shard], random: Random) -> None:
        super().__init__(timeline, load, shards, random)
        busy = [0.0] * load.servers
        self._homes: list[int] = []
        for share in load.shares():  # the busiest queues first, each on the server with the least to do
            home = busy.index(min(busy))
            busy[home] += share
            self._homes.append(home)

    def place(self, worker: Worker, queue: int) -> int:
        del worker
        return self._homes[queue]

    def cares_for(self, server: int, queue: int) -> bool:
        return self._homes[queue] == server

    def stored(self, server: int, queue: int, shard: int) -> None:
        if self._homes[queue] == server:
            self._learn(server, queue, shard)
        else:
            self._announcers[server].add(queue, shard)
