"""Servers that poll for each other: what goes wrong with one of them, or between them, keeps no job from being found.

Time is virtual, so that each wait is exact. No server announces jobs: all must be found by polls.
"""

import asyncio
import random
from itertools import product

import pytest

from pinlater.errors import NoHealthyShards, QueueNotFound
from pinlater.model.attempts import DequeuedJob
from pinlater.model.queues import QueueSettings
from pinlater.server import clock as clocks
from pinlater.server.backends.poll_intervals import POLLS_BESIDE_DATAGRAMS
from pinlater.server.backends.poll_of_all import PollOfAll
from pinlater.server.backends.records import Claim, Dequeued
from pinlater.server.backends.store import Capabilities
from pinlater.server.broker import Broker, Caller, polling
from pinlater.server.broker.dequeue import DequeueRequest
from pinlater.server.limits.rate_limits import RateLimits
from pinlater.server.limits.stored_limits import StoredLimits
from pinlater.server.metrics.shard_state import ShardState
from pinlater.server.peer_processes.job_offers import JobOffers
from pinlater.server.peer_processes.poll_message import poll_in, poll_messages
from pinlater.server.peer_processes.server_rank import ServerRank
from tests.support import virtual_time
from tests.support.notifiers import FakeNotifier

SERVERS, SHARDS, QUEUES = 3, ("1", "2"), 20
LONGEST = POLLS_BESIDE_DATAGRAMS.longest
ANSWER_SECONDS = 0.004
SETTLE_SECONDS = 20.0
"""Until each server polls as rarely as it may."""

DOCUMENTED_SECONDS = LONGEST + 5 * ANSWER_SECONDS
"""Within which a waiting dequeue has a job that nobody announced: the poll takes an answer, and so does the claim."""


class World:
    """Jobs by shard and queue, the servers, and the queries so far.

    Attributes:
        loss: share of the messages from one server to another that are lost, by both.
        delay: how long messages are on the way.
    """

    def __init__(self):
        self.jobs = {(shard, f"q{number}"): [] for shard in SHARDS for number in range(QUEUES)}
        self.queries = 0
        self.loss = {}
        self.delay = 0.001
        self.servers = [Server(self, number) for number in range(SERVERS)]
        for server in self.servers:
            server.connect()

    def now_ms(self):
        return int(asyncio.get_running_loop().time() * 1000)

    def deliver(self, sender, receiver, message):
        if random.random() >= self.loss.get((sender.number, receiver.number), 0.0):
            asyncio.get_running_loop().call_later(self.delay, receiver.receive, message)


class Server:
    """A server: its view of the store, its broker, and its monitor's turns.

    Attributes:
        answers: the shards that answer it.
        is_alive: whether it runs.
        ahead_ms: by how much its clock is ahead.
    """

    def __init__(self, world, number):
        self.world = world
        self.number = number
        self.answers = set(SHARDS)
        self.is_alive = True
        self.ahead_ms = 0
        self.capabilities = Capabilities("fake", is_serial=False, poll_intervals=POLLS_BESIDE_DATAGRAMS)
        self.broker = Broker(self, RateLimits(), poll_all=self.poll_all)
        self._claims = 0

    def connect(self):
        self.own_id = b"%d" % self.number
        self.offers = self.broker.offers = JobOffers(self, self.broker)
        self.broker.notifiers.append(FakeNotifier(notify_polled=self.notify_polled))
        self.settings = StoredLimits(self, self, self.broker.on_deleted)

    def now_ms(self):
        return self.world.now_ms() + self.ahead_ms

    # The store, as far as it answers

    async def _ask(self, shard):
        self.world.queries += 1
        await asyncio.sleep(ANSWER_SECONDS)
        return {queue: list(jobs) for (at, queue), jobs in self.world.jobs.items() if at == shard}

    async def _ask_all(self):
        if not self.answers:
            await asyncio.sleep(ANSWER_SECONDS)
            raise NoHealthyShards("no shard answers")
        return await asyncio.gather(*map(self._ask, sorted(self.answers)))

    async def first_due(self, queues):
        answers = await self._ask_all()
        known = {queue: [job for answer in answers for job in answer[queue]] for queue in queues if queue in answers[0]}
        return {queue: min(jobs, default=None) for queue, jobs in known.items()}

    async def poll_all(self, within_ms):
        asked_at, before_ms = clocks.elapsed_seconds(), self.now_ms() + within_ms
        shards = frozenset(self.answers)
        answers = await self._ask_all()
        soon = [
            (queue, job) for answer in answers for queue, jobs in answer.items() for job in jobs if job <= before_ms
        ]
        return PollOfAll(asked_at, dict(sorted(soon, reverse=True)), shards, is_whole=True)

    async def dequeue_jobs(self, queue, limit, claim, **_):
        await self._ask_all()
        if not any(known == queue for _, known in self.world.jobs):
            raise QueueNotFound(f"there is no queue {queue}")
        due = [(shard, job) for shard in sorted(self.answers) for job in self.world.jobs[shard, queue]]
        later = min((job for _, job in due if job > self.now_ms()), default=None)
        ready = [(shard, job) for shard, job in due if job <= self.now_ms()]
        taken = ready[:limit]
        for shard, job in taken:
            self.world.jobs[shard, queue].remove(job)
        jobs = [DequeuedJob(f"{queue}:s{shard}:p1:1", b"", 1, 1, 0, job) for shard, job in taken]
        return Dequeued(jobs, later, has_more=len(ready) > len(taken))

    async def changed_queue_settings(self):
        return {queue: QueueSettings() for _, queue in self.world.jobs}

    def apply_settings(self, settings):
        pass

    apply_stored = apply_settings

    def jobs_arrived(self, queue, due_ms, locations):
        pass

    def shard_states(self):
        return [ShardState(shard, "", 0, unhealthy_in=int(shard not in self.answers)) for shard in SHARDS]

    @property
    def unhealthy_shards(self):
        return sum(shard.unhealthy_in for shard in self.shard_states())

    # The others

    @property
    def ids(self):
        return [other.own_id for other in self.world.servers if other is not self]

    def send(self, message, to):
        if self.is_alive:
            [receiver] = [other for other in self.world.servers if other.own_id == to]
            self.world.deliver(self, receiver, message)

    def announce(self, queue, locations, to):
        pass

    announce_to_all = announce

    def notify_polled(self, poll, now_ms):
        for message in poll_messages(poll, now_ms, 1200):
            for other in self.ids:
                self.send(message, other)

    def receive(self, message):
        if self.is_alive and not self.offers.receive(message):
            self.broker.on_poll(poll_in(message))

    async def take_turns(self):
        rank = ServerRank(self.number, SERVERS)
        while True:
            await asyncio.sleep(rank.seconds_until_turn(self.now_ms(), 1.0))
            if self.is_alive:
                await self.broker.poll_all()

    def dequeue(self, queues):
        self._claims += 1
        request = DequeueRequest(queues, 1, 10**6, lambda: Claim(f"h:1:1:w:{self._claims}", 60_000), 3600.0)
        return asyncio.create_task(self.broker.dequeue(request, Caller()))


@pytest.fixture
def run(monkeypatch):
    """Run a scenario in a world of servers, at each of which a dequeue waits for each queue."""
    for module in (clocks, polling):
        monkeypatch.setattr(module, "elapsed_seconds", lambda: asyncio.get_running_loop().time())

    def run(scenario, *, waiting_at=range(SERVERS)):
        random.seed(5)

        async def whole():
            world = World()
            turns = [asyncio.create_task(server.take_turns()) for server in world.servers]
            turns += [asyncio.create_task(server.settings.watch()) for server in world.servers]
            waits = {
                (number, queue): world.servers[number].dequeue([queue])
                for number in waiting_at
                for queue in (f"q{number}" for number in range(QUEUES))
            }
            await asyncio.sleep(SETTLE_SECONDS)
            await scenario(world, waits)
            for server in world.servers:
                server.broker.end_all_waits()
            await asyncio.gather(*waits.values(), return_exceptions=True)
            for task in turns:
                task.cancel()

        virtual_time.run(whole())

    return run


async def find_late(world, waits, servers=range(SERVERS), rounds=40, shards=SHARDS):
    """Store jobs that nobody announces, one after the other; return how long dequeues at ``servers`` took to have them.

    Dequeues at other servers may have them, too: those are frozen, or cannot reach the shard.
    """
    taken = []
    for number in range(rounds):
        queue, loop = f"q{number % QUEUES}", asyncio.get_running_loop()
        await asyncio.sleep(random.uniform(0.0, 3.0))
        world.jobs[random.choice(shards), queue].append(world.now_ms())
        began = loop.time()
        wanted = [waits[server, queue] for server in servers if (server, queue) in waits]
        done, _ = await asyncio.wait(wanted, timeout=100.0, return_when=asyncio.FIRST_COMPLETED)
        assert done, f"{queue} was not found"
        taken.append(loop.time() - began)
        for server in servers:
            if (server, queue) in waits and waits[server, queue].done():
                waits[server, queue] = world.servers[server].dequeue([queue])
    return taken


async def polls(world, seconds):
    """Return how many queries there are for each shard and second."""
    before = world.queries
    await asyncio.sleep(seconds)
    return (world.queries - before) / seconds / len(SHARDS)


def test_idle_queues_cost_one_query_a_shard_and_second_for_all_servers(run):
    async def scenario(world, waits):
        assert await polls(world, 300.0) == pytest.approx(1.0, abs=0.02)
        assert max(await find_late(world, waits)) <= 1.0 + 5 * ANSWER_SECONDS

    run(scenario)


def test_a_server_that_is_alone_polls_as_if_there_were_no_others(run):
    async def scenario(world, waits):
        world.loss = dict.fromkeys(product(range(SERVERS), repeat=2), 1.0)
        assert max(await find_late(world, waits)) <= DOCUMENTED_SECONDS
        assert await polls(world, 300.0) <= SERVERS * (1 / LONGEST + 1 / 3) + 0.1

    run(scenario)


@pytest.mark.parametrize("loss", [0.1, 0.5, 0.9])
def test_lost_messages_let_no_job_wait_for_longer(run, loss):
    async def scenario(world, waits):
        world.loss = dict.fromkeys(product(range(SERVERS), repeat=2), loss)
        assert max(await find_late(world, waits, servers=[0])) <= DOCUMENTED_SECONDS

    run(scenario, waiting_at=[0])


@pytest.mark.parametrize("cut", [[(0, 1), (0, 2)], [(1, 0), (2, 0)]], ids=["it is not heard", "it hears nothing"])
@pytest.mark.parametrize("waiting_at", [0, 1])
def test_a_link_that_is_cut_in_one_direction_lets_no_job_wait_for_longer(run, cut, waiting_at):
    async def scenario(world, waits):
        world.loss |= dict.fromkeys(cut, 1.0)
        assert max(await find_late(world, waits, servers=[waiting_at])) <= DOCUMENTED_SECONDS

    run(scenario, waiting_at=[waiting_at])


@pytest.mark.parametrize("dead", [[1], [1, 2]])
def test_servers_that_die_or_freeze_let_no_job_of_the_others_wait_for_longer(run, dead):
    async def scenario(world, waits):
        for _ in range(10):
            for number in dead:
                world.servers[number].is_alive = False
            assert max(await find_late(world, waits, servers=[0], rounds=4)) <= DOCUMENTED_SECONDS
            for number in dead:
                world.servers[number].is_alive = True
            assert max(await find_late(world, waits, servers=[0], rounds=2)) <= DOCUMENTED_SECONDS

    run(scenario, waiting_at=[0])


def test_a_server_that_no_shard_answers_lets_no_job_of_the_others_wait_for_longer(run):
    async def scenario(world, waits):
        for number in (1, 2):
            world.servers[number].answers = set()
        assert max(await find_late(world, waits, servers=[0])) <= DOCUMENTED_SECONDS

    run(scenario, waiting_at=[0])


@pytest.mark.parametrize("reaching", [[0], [1]])
def test_a_shard_that_answers_only_one_server_is_polled_by_that_one(run, reaching):
    async def scenario(world, waits):
        for number in set(range(SERVERS)) - set(reaching):
            world.servers[number].answers = {"1"}
        assert max(await find_late(world, waits, servers=reaching, shards=["2"])) <= DOCUMENTED_SECONDS

    run(scenario, waiting_at=reaching)


def test_a_server_that_does_not_reach_all_shards_does_not_say_that_it_sees_to_a_job(run):
    async def scenario(world, _):
        due_ms = world.servers[0].now_ms() + 1000
        assert [server.broker.sees_to("q0", due_ms) for server in world.servers[:2]] == [True, True]
        world.servers[1].answers = {"1"}
        assert [server.broker.sees_to("q0", due_ms) for server in world.servers[:2]] == [True, False]

    run(scenario)


@pytest.mark.parametrize("seconds", [0.3, 1.2, 5.0, 30.0])
@pytest.mark.parametrize("ahead_ms", [0, 400, 10_000])
def test_messages_that_come_late_count_from_when_the_poll_began(run, seconds, ahead_ms):
    async def scenario(world, waits):
        world.delay = seconds
        world.servers[0].ahead_ms = ahead_ms
        assert max(await find_late(world, waits, servers=[0])) <= DOCUMENTED_SECONDS

    run(scenario, waiting_at=[0])


@pytest.mark.parametrize("ahead_ms", [-10_000, -400, 400, 10_000])
@pytest.mark.parametrize("number", [0, 1])
def test_clocks_that_differ_let_no_job_wait_for_longer(run, ahead_ms, number):
    async def scenario(world, waits):
        world.servers[number].ahead_ms = ahead_ms
        late = await find_late(world, waits, servers=[0], rounds=20)
        assert max(late) <= DOCUMENTED_SECONDS + max(-world.servers[0].ahead_ms, 0) / 1000  # it is due later there

    run(scenario, waiting_at=[0])


def test_a_scheduled_job_that_nobody_announced_starts_on_time(run):
    async def scenario(world, waits):
        loop = asyncio.get_running_loop()
        for number in range(QUEUES):
            queue, due_ms = f"q{number}", world.now_ms() + random.randint(2000, 20_000)
            world.jobs["1", queue].append(due_ms)
            await asyncio.wait([waits[0, queue]])
            assert 0 <= loop.time() * 1000 - due_ms <= 2 * ANSWER_SECONDS * 1000 + 5

    run(scenario, waiting_at=[0])


def test_queues_of_a_worker_that_is_often_busy_are_polled_no_more_often_than_those_of_one_that_waits(run, monkeypatch):
    async def scenario(world, _):
        server, asked, queues = world.servers[0], [], [f"q{number}" for number in range(QUEUES)]
        first_due = server.first_due

        async def noting(names):
            asked.extend(names)
            return await first_due(names)

        async def work():
            while True:
                await server.dequeue(queues)
                await asyncio.sleep(0.05)

        for other in world.servers:
            other.is_alive = False  # no poll of all
        monkeypatch.setattr(server, "first_due", noting)
        working = asyncio.create_task(work())
        for _ in range(600):
            await asyncio.sleep(0.1)
            world.jobs["1", "q0"].append(world.now_ms())
            server.broker.on_remote_jobs("q0", None)
        working.cancel()
        idle = len(asked) - asked.count("q0")
        assert 0.5 <= idle / (QUEUES - 1) / 60 <= 1.5, "polls of a queue in a second"

    run(scenario, waiting_at=[])


def test_a_job_that_only_another_server_has_a_dequeue_for_is_offered_to_it(run):
    async def scenario(world, waits):
        late = await find_late(world, waits, servers=[0])
        assert max(late) <= 1.1 + 10 * ANSWER_SECONDS  # the first poll after a tenth of a second, whoever makes it
        assert min(late) < 1.0

    run(scenario, waiting_at=[0])


def test_what_a_dequeue_has_just_claimed_is_polled_for_soon_whatever_was_heard(run):
    async def scenario(world, waits):
        world.jobs["1", "q0"] += [world.now_ms()]
        await asyncio.wait([waits[0, "q0"]])
        waits[0, "q0"] = world.servers[0].dequeue(["q0"])
        await asyncio.sleep(0.02)
        loop = asyncio.get_running_loop()
        world.jobs["1", "q0"] += [world.now_ms()]
        began = loop.time()
        await asyncio.wait([waits[0, "q0"]])
        assert loop.time() - began <= 0.25

    run(scenario, waiting_at=[0])


def test_a_queue_that_another_server_has_deleted_ends_the_wait_for_it(run):
    async def scenario(world, waits):
        for shard in SHARDS:
            del world.jobs[shard, "q3"]
        await asyncio.sleep(1.0)
        for server in range(SERVERS):
            assert isinstance(waits[server, "q3"].exception(), QueueNotFound)
            assert not waits[server, "q4"].done()

    run(scenario)


def test_what_is_to_be_looked_at_again_is_not_left_out_for_an_older_poll(run):
    async def scenario(world, waits):
        here, loop = world.servers[0], asyncio.get_running_loop()
        for server in world.servers:
            server.is_alive = False  # no further poll of all
        older = PollOfAll(loop.time(), {}, frozenset(SHARDS), is_whole=True)
        await asyncio.sleep(0.01)
        here.broker._dequeues.poller.look_again("q0")
        world.jobs["1", "q0"] += [world.now_ms() - 1000]
        for message in poll_messages(older, world.now_ms(), 1200):
            here.broker.on_poll(poll_in(message))
        began = loop.time()
        await asyncio.wait([waits[0, "q0"]])
        assert loop.time() - began <= POLLS_BESIDE_DATAGRAMS.leeway + 5 * ANSWER_SECONDS

    run(scenario, waiting_at=[0])


def test_jobs_that_come_after_others_were_refused_are_offered_when_a_dequeue_that_waited_leaves_them(run):
    """That it waited means that the queue was empty since, so that by now dequeues may wait at other servers, too."""

    async def scenario(world, _):
        here, there = world.servers[:2]
        world.jobs["1", "q0"] += [world.now_ms()] * 2
        await here.dequeue(["q0"])  # leaves one, for which nobody waits
        await asyncio.sleep(0.2)
        await there.dequeue(["q0"])
        waits = [here.dequeue(["q0"]), there.dequeue(["q0"])]
        await asyncio.sleep(0.1)
        world.jobs["1", "q0"] += [world.now_ms()] * 2
        here.broker.on_remote_jobs("q0", None)
        await asyncio.sleep(0.05)
        assert [wait.done() for wait in waits] == [True, True]

    run(scenario, waiting_at=[])
