"""Jobs with keys on MySQL: several servers change jobs of the same keys at once, also while connections are killed."""

import asyncio
import itertools
import os
import random
from collections import Counter, defaultdict

import pytest

from pinlater.errors import ServiceError
from pinlater.model.attempts import StoredAck
from pinlater.model.descriptor import JobDescriptor
from pinlater.model.keys import WAITS_FOR_KEY_MS, JobKey
from pinlater.protocol.messages import IN_PROGRESS, PENDING, SUCCEEDED
from pinlater.server.backends.mysql.connection import MysqlConnection
from pinlater.server.backends.records import Claim, IdempotencyKey, JobFilter
from tests.support.bench import QUEUE, new_job
from tests.support.examples import IS_THOROUGH
from tests.support.mariadb_service import MariadbService
from tests.support.mysql_bench import ConnectionKills, endpoint_of, fresh_prefix, make_fleet

KEYS = [
    *[JobKey(f"ordered {number}", 1, is_ordered=True) for number in range(4)],
    JobKey("one", 1),
    JobKey("another", 1),
    JobKey("three", 3),
    JobKey("any"),
]
JOBS_OF_A_KEY = 80 if IS_THOROUGH else 40
PRODUCERS_OF_A_KEY = 2
HOLDERS = 24
FAILING_SHARE = 0.1
THROUGH = f"""
SELECT job_key, COUNT(*) FROM {{database}}.jobs
WHERE job_key IS NOT NULL AND (state = 1 OR (state = 0 AND run_after < {WAITS_FOR_KEY_MS})) GROUP BY job_key
"""


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with MariadbService(tmp_path_factory.mktemp("keys")) as service:
        yield service


class Crowd:
    """Producers and holders on several servers.

    Args:
        servers: stores with the same shards.
        endpoint: of the shards.
        databases: of the shards.
    """

    def __init__(self, servers, endpoint, databases):
        self._servers = servers
        self._endpoint = endpoint
        self._databases = databases
        self._claims = itertools.count(1)
        self._held = Counter()
        self._enqueued = defaultdict(list)
        self.done = set()
        self.faults = []

    @property
    def is_over(self):
        return len(self.done) == len(KEYS) * JOBS_OF_A_KEY

    async def patiently(self, verb, *arguments, once=None):
        """Make a call until it is answered, as a client does."""
        options = {} if once is None else {"once": once}
        while True:
            try:
                return await verb(*arguments, **options)
            except ServiceError:
                if once is not None:
                    options["once"] = once._replace(is_repeat=True)
                await asyncio.sleep(0.01)

    async def produce(self, key, numbers, turn):
        for number in numbers:
            async with turn:  # so that the order of enqueues is known
                job = new_job(b"%d %d" % (KEYS.index(key), number), key=key, priority=number % 3 + 1, attempts=1000)
                server = random.choice(self._servers)
                await self.patiently(server.enqueue_jobs, QUEUE, [job], once=IdempotencyKey(os.urandom(16), 600_000))
                self._enqueued[key].append(number)

    async def hold(self, lot):
        while not self.is_over:
            claim = Claim(f"host:1:1:worker:{next(self._claims)}", 120_000)
            try:
                found = await lot.choice(self._servers).dequeue_jobs(QUEUE, lot.choice([1, 4]), claim)
            except ServiceError:
                continue
            taken = [(job, KEYS[int(job.body.split()[0])], int(job.body.split()[1])) for job in found.jobs]
            for _, key, number in taken:
                self._begin(key, number)
            await asyncio.sleep(lot.choice([0, 0.002]))
            for job, key, number in taken:
                await self._end(lot, claim, job, key, number)
            if not found.jobs:
                await asyncio.sleep(0.01)

    def _begin(self, key, number):
        self._held[key] += 1
        if key.max_running is not None and self._held[key] > key.max_running:
            self.faults.append(f"{self._held[key]} of {key} were held at once")
        before = itertools.takewhile(lambda other: other != number, list(self._enqueued[key]))
        if key.is_ordered and any((key, other) not in self.done for other in before):
            self.faults.append(f"{number} of {key} was handed out too early")

    async def _end(self, lot, claim, job, key, number):
        is_failing = lot.random() < FAILING_SHARE
        ack = StoredAck(JobDescriptor.parse(job.descriptor), claim.descriptor, "", lot.choice([0, 20]), False)
        self._held[key] -= 1
        if not is_failing:
            self.done.add((key, number))
        lists = ([], [ack]) if is_failing else ([ack], [])
        await self.patiently(lot.choice(self._servers).ack_dequeued_jobs, QUEUE, *lists)

    async def watch(self):
        """Look into the tables, which no answer can be late for."""
        connection = await MysqlConnection.open(self._endpoint)
        limits = {key.text.encode(): key.max_running for key in KEYS if key.max_running is not None}
        while not self.is_over:
            for database in self._databases:
                [(rows, _, _)] = await connection.run(THROUGH.format(database=database).encode())
                self.faults += [
                    f"{count} of {text} are let through" for text, count in rows if count > limits.get(text, 1000)
                ]
            await asyncio.sleep(0.01)
        connection.close()


def run_crowd(service, *, is_killing):
    async def run():
        prefix = fresh_prefix()
        endpoint = endpoint_of(service)
        kills = ConnectionKills(endpoint, random.Random(1))
        servers = [make_fleet([endpoint, endpoint], None, prefix=prefix, on_commit=kills.on_commit) for _ in range(2)]
        await servers[0].create_queue(QUEUE)
        crowd = Crowd(servers, endpoint, [f"{prefix}{number}" for number in (1, 2)])
        turns = {key: asyncio.Lock() for key in KEYS}
        async with asyncio.timeout(150), asyncio.TaskGroup() as tasks:
            for key in KEYS:
                for number in range(PRODUCERS_OF_A_KEY):
                    mine = range(number, JOBS_OF_A_KEY, PRODUCERS_OF_A_KEY)
                    tasks.create_task(crowd.produce(key, mine, turns[key]))
            for number in range(HOLDERS):
                tasks.create_task(crowd.hold(random.Random(number)))
            if is_killing:
                tasks.create_task(kills.until(lambda: crowd.is_over))
            else:
                tasks.create_task(crowd.watch())
        return crowd, servers, prefix, endpoint, kills

    async def check():
        crowd, servers, prefix, endpoint, kills = await run()
        assert crowd.faults == []
        for state, count in ((PENDING, 0), (IN_PROGRESS, 0), (SUCCEEDED, len(KEYS) * JOBS_OF_A_KEY)):
            assert await servers[0].count_jobs(QUEUE, JobFilter(state)) == count
        connection = await MysqlConnection.open(endpoint)
        found = await connection.run(*(b"SELECT COUNT(*) FROM %b%d.keyed_jobs" % (prefix.encode(), n) for n in (1, 2)))
        connection.close()
        assert [result.rows[0][0] for result in found] == [0, 0]
        await asyncio.gather(*(server.close() for server in servers))
        return kills

    return asyncio.run(check())


def test_limits_and_order_hold_over_servers_that_change_the_same_keys_at_once(service):
    run_crowd(service, is_killing=False)


def test_limits_and_order_hold_while_connections_are_killed(service):
    kills = run_crowd(service, is_killing=True)
    assert kills.kills > 5
    assert kills.failed_commits > 0, "or nothing was killed that mattered"


def test_what_a_server_of_the_version_before_has_ended_is_made_good_by_the_next_change(service):
    key = JobKey("a", 1)

    async def scenario():
        prefix, endpoint = fresh_prefix(), endpoint_of(service)
        server = make_fleet([endpoint], None, prefix=prefix)
        await server.create_queue(QUEUE)
        first, second = await server.enqueue_jobs(QUEUE, [new_job(key=key), new_job(key=key)])
        claim = Claim("host:1:1:worker:1", 60_000)
        assert [job.descriptor for job in (await server.dequeue_jobs(QUEUE, 5, claim)).jobs] == [first]
        connection = await MysqlConnection.open(endpoint)
        await connection.run(f"UPDATE {prefix}1.jobs SET state = 2, moment = 1 WHERE state = 1".encode())
        connection.close()
        assert (await server.dequeue_jobs(QUEUE, 5, claim)).jobs == []
        await server.enqueue_jobs(QUEUE, [new_job(key=key)])
        assert [job.descriptor for job in (await server.dequeue_jobs(QUEUE, 5, claim)).jobs] == [second]
        await server.close()

    asyncio.run(scenario())
