"""Model "priorities": each dequeue first asks all shards which priorities are due, then claims.

``docs/design/sharding.md`` describes it. Servers announce new jobs, and poll for those that nobody announced.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from random import Random
from typing import NamedTuple

from benchmarks.fleet.costs import ROUND_TRIP_SECONDS
from benchmarks.fleet.load import Load
from benchmarks.fleet.model import claim_from
from benchmarks.fleet.shard import READ_STATEMENTS, Job, Shard
from benchmarks.fleet.timeline import Steps, Timeline
from benchmarks.fleet.waiting import Announcer, News, WaitingModel
from benchmarks.fleet.worker import BATCH

FRESH_SECONDS = 0.05
"""As in ``pinlater/server/backends/sharded/due_priorities.py``."""

SHORTEST_POLL_SECONDS, LONGEST_POLL_SECONDS = 0.02, 1.5
"""``FREQUENT_POLLS`` of ``pinlater/server/backends/poll_intervals.py``."""

POLL_GROWTH, EARLIEST_SHARE = 1.25, 0.5
"""As in ``pinlater/server/broker/polling.py``."""

KNOWN_EMPTY_SECONDS = 2 * LONGEST_POLL_SECONDS
"""Twice the longest poll interval; ``pinlater/server/broker/broker.py`` has a larger minimum."""


class Due(NamedTuple):
    """The shards that had due jobs of a queue, and until when that is assumed to hold."""

    until: float
    shards: list[Shard]


class Knowledge:
    """What one server knows about queues, as in ``pinlater/server/broker/parking.py``."""

    def __init__(self) -> None:
        self.arrivals: Counter[int] = Counter()
        self.empty_until: dict[int, float] = {}
        self.due: dict[int, Due] = {}
        self.polls: dict[int, Poll] = {}

    def jobs_arrived(self, queue: int) -> None:
        """Record that a queue may have due jobs."""
        self.arrivals[queue] += 1
        self.empty_until.pop(queue, None)


class Poll:
    """How often one queue is polled, and when it is polled next."""

    __slots__ = ("next_at", "pause")

    def __init__(self, now: float) -> None:
        self.poll_soon(now)

    def poll_soon(self, now: float) -> None:
        """Poll as often as possible, because jobs come."""
        self.pause, self.next_at = SHORTEST_POLL_SECONDS, now + SHORTEST_POLL_SECONDS

    def poll_later(self, now: float) -> None:
        """Poll less often."""
        self.pause = min(self.pause * POLL_GROWTH, LONGEST_POLL_SECONDS)
        self.next_at = now + self.pause


class Priorities(WaitingModel):
    """Servers know which queues are empty, but not on which shards the others have their jobs."""

    def __init__(self, timeline: Timeline, load: Load, shards: Sequence[Shard], random: Random) -> None:
        super().__init__(timeline, load, shards, random)
        servers = range(load.servers)
        self._knowledge = [Knowledge() for _ in servers]
        self._announcers = [
            Announcer(timeline, lambda news, server=server: self._hear(server, news)) for server in servers
        ]

    def background(self) -> Iterable[Steps[None]]:
        return [self._poll(server) for server in range(self.load.servers)]

    def may_have(self, server: int, queue: int) -> bool:
        return self._knowledge[server].empty_until.get(queue, 0.0) <= self.timeline.now

    def parked(self, server: int, queue: int) -> None:
        polls = self._knowledge[server].polls
        if queue not in polls:
            polls[queue] = Poll(self.timeline.now)

    def stored(self, server: int, queue: int, shard: int) -> None:
        self._knowledge[server].due.pop(queue, None)
        if not self._jobs_arrived(server, queue):
            self._announcers[server].add(queue, shard)

    def claim(self, server: int, queue: int) -> Steps[list[Job]]:
        knowledge, claimed = self._knowledge[server], list[Job]()
        arrivals, due = knowledge.arrivals[queue], knowledge.due.get(queue)
        if len(self.shards) == 1:
            claimed = yield from claim_from(self.shards[0], queue, BATCH)
        else:
            if due is not None and due.shards and self.timeline.now <= due.until:
                claimed = yield from self._claim_from_all(due, queue, BATCH)
            if len(claimed) < BATCH:
                due = yield from self._read(server, queue)
                claimed += yield from self._claim_from_all(due, queue, BATCH - len(claimed))
        if len(claimed) < BATCH and arrivals == knowledge.arrivals[queue]:
            knowledge.empty_until[queue] = self.timeline.now + KNOWN_EMPTY_SECONDS
        if claimed and queue in knowledge.polls:
            knowledge.polls[queue].poll_soon(self.timeline.now)
        return claimed

    def _read(self, server: int, queue: int) -> Steps[Due]:
        """Ask all shards at once which of them have due jobs of a queue."""
        knowledge, arrivals = self._knowledge[server], self._knowledge[server].arrivals[queue]
        until = self.timeline.now + FRESH_SECONDS
        yield max(shard.ask(READ_STATEMENTS) for shard in self.shards)
        due = Due(until, [shard for shard in self.shards if queue in shard.due_queues])
        self.random.shuffle(due.shards)
        yield ROUND_TRIP_SECONDS
        if arrivals == knowledge.arrivals[queue]:
            knowledge.due[queue] = due
        return due

    def _claim_from_all(self, due: Due, queue: int, most: int) -> Steps[list[Job]]:
        """Claim from one shard after the other; forget those that have no more."""
        claimed: list[Job] = []
        for shard in list(due.shards):
            found = yield from claim_from(shard, queue, most - len(claimed))
            claimed += found
            if len(claimed) >= most:
                break
            if shard in due.shards:  # unless another dequeue has also found that out
                due.shards.remove(shard)
        return claimed

    def _jobs_arrived(self, server: int, queue: int) -> bool:
        """Tell a server about a job; return whether a dequeue was waiting for it."""
        self._knowledge[server].jobs_arrived(queue)
        return self.lines[server].wake_first(queue)

    def _hear(self, sender: int, news: Sequence[News]) -> None:
        self.counts.messages += self.load.servers - 1
        for server in range(self.load.servers):
            if server != sender:
                for queue in dict.fromkeys(queue for queue, _ in news):
                    self._jobs_arrived(server, queue)

    def _poll(self, server: int) -> Steps[None]:
        """Poll all shards for all queues whose turn it is, with one statement each."""
        knowledge = self._knowledge[server]
        while True:
            yield SHORTEST_POLL_SECONDS
            queues = self._turn(server)
            if not queues:
                continue
            yield max(shard.ask(READ_STATEMENTS) for shard in self.shards)
            found = {queue for shard in self.shards for queue in shard.due_queues}
            yield ROUND_TRIP_SECONDS
            for queue in queues:
                if queue in found:
                    self._jobs_arrived(server, queue)
                elif not self.may_have(server, queue):
                    knowledge.empty_until[queue] = self.timeline.now + KNOWN_EMPTY_SECONDS

    def _turn(self, server: int) -> list[int]:
        """Return the queues to poll now, including those whose poll is nearly due."""
        now, polls, queues = self.timeline.now, self._knowledge[server].polls, list[int]()
        if not any(poll.next_at <= now for poll in polls.values()):
            return queues
        for queue, poll in list(polls.items()):
            if now < poll.next_at - poll.pause * EARLIEST_SHARE:
                continue
            if not self.lines[server].waits_for(queue):
                del polls[queue]
                continue
            poll.poll_later(now)
            if not self.may_have(server, queue):
                queues.append(queue)
        return queues
