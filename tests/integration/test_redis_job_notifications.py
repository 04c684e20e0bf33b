"""Servers on one Redis shard tell each other of jobs that have become claimable."""

import asyncio
import json
import threading
import time

import pytest

from pinlater.server.backends.job_notifications import JobNotifications, locations_of
from pinlater.server.backends.records import Claim
from pinlater.server.backends.redis import RedisEndpoint, RedisShard
from tests.support.bench import QUEUE, ack_of, new_job
from tests.support.server import ServerProcess, wait_for
from tests.support.waiting import until


class Server:
    """A shard as one server has it, and what it heard."""

    def __init__(self, service):
        self.heard = []
        self.gaps = 0
        self.notifications = notifications = JobNotifications()
        notifications.on_jobs = lambda queue, due_ms, _locations: self.heard.append((queue, due_ms))
        notifications.on_gap = self._note_gap
        self.shard = RedisShard(
            "1", RedisEndpoint(("127.0.0.1", service.port)), priority_levels=3, notifications=notifications
        )

    def _note_gap(self):
        self.gaps += 1

    async def enqueue(self, **fields):
        """Store a job that nobody waits for here, and have the others notified, as a server does."""
        names = await self.shard.enqueue_jobs(QUEUE, [new_job(**fields)])
        self.notifications.publish(QUEUE, fields.get("run_after_ms"), lambda: locations_of(names))


@pytest.fixture
def run(redis_service):
    """Run a test with so many servers."""

    def run(test, count=2):
        async def main():
            servers = [Server(redis_service) for _ in range(count)]
            try:
                for server in servers:
                    await server.shard.ping()
                    await until(lambda server=server: server.gaps)
                await servers[0].shard.create_queue(QUEUE)
                await test(*servers)
            finally:
                for server in servers:
                    await server.shard.close()

        asyncio.run(main())

    return run


def test_all_others_hear_of_a_job(run):
    async def test(one, two, three):
        await one.enqueue()
        await until(lambda: two.heard and three.heard)
        assert two.heard == three.heard == [(QUEUE, None)]
        await two.enqueue(run_after_ms=5_000_000_000_000)
        await until(lambda: one.heard)
        assert one.heard == [(QUEUE, 5_000_000_000_000)], "and nothing of its own"

    run(test, 3)


def test_whatever_makes_jobs_claimable_is_told(run):
    async def test(one, two):
        async def told(call):
            two.heard.clear()
            await asyncio.sleep(0.01)
            await call
            await until(lambda: two.heard)
            return two.heard[0]

        names = await one.shard.enqueue_jobs(QUEUE, [new_job(attempts=3) for _ in range(3)])
        await one.shard.dequeue_jobs(QUEUE, 3, Claim("host:1:1:worker:1", 1))
        queue, due_ms = await told(one.shard.ack_dequeued_jobs(QUEUE, [], [ack_of(names[0], retry_delay_ms=10**9)]))
        assert queue == QUEUE
        assert due_ms > time.time() * 1000 + 10**8
        assert await told(one.shard.reap_expired(1, server_age_ms=10**9, quiet_ms=1)) == (QUEUE, None)
        assert await told(one.shard.release_claims(QUEUE, "worker")) == (QUEUE, None)
        await one.shard.dequeue_jobs(QUEUE, 3, Claim("host:1:1:worker:2", 10**6))
        await one.shard.ack_dequeued_jobs(QUEUE, [], [ack_of(name, is_final=True) for name in names])
        assert await told(one.shard.retry_failed_jobs(QUEUE, 1, 1, None, 1)) == (QUEUE, None)

    run(test)


def test_many_enqueues_make_few_messages(run):
    async def test(one, two):
        await asyncio.gather(*(one.enqueue() for _ in range(1000)))
        await until(lambda: two.heard)
        await asyncio.sleep(0.1)
        assert len(two.heard) < 500

    run(test)


def test_a_server_that_is_alone_keeps_silent_until_another_greets(run, redis_service):
    async def test(one):
        for _ in range(20):
            await one.enqueue()
            await asyncio.sleep(0.006)
        with redis_service.client() as client:
            assert client.info("commandstats")["cmdstat_publish"]["calls"] <= 2
        two = Server(redis_service)
        await two.shard.ping()
        await until(lambda: two.gaps)
        try:
            async with asyncio.timeout(30):
                while not two.heard:
                    await one.enqueue()
                    await asyncio.sleep(0.01)
        finally:
            await two.shard.close()

    run(test, 1)


def test_after_a_broken_connection_what_may_have_been_missed_is_made_up_for(run, redis_service):
    async def test(one, two):
        with redis_service.client() as client:
            client.client_kill_filter(_type="pubsub")
        await until(lambda: one.gaps == two.gaps == 2)
        async with asyncio.timeout(30):
            while not two.heard:
                await one.enqueue()
                await asyncio.sleep(0.01)

    run(test)


def test_each_time_the_channel_is_away_is_told_once(run, redis_service, caplog):
    async def away(*servers):
        for _ in range(2):
            caplog.clear()
            for server in servers:
                server.gaps = 0
            redis_service.kill()
            await asyncio.sleep(1)  # for some tries
            redis_service.start()
            await until(lambda: all(server.gaps for server in servers))
            assert caplog.text.count("job notifications of other servers are not received") == len(servers)

    run(away)


def test_nonsense_on_the_channel_disturbs_nobody(run, redis_service):
    async def test(one, two):
        with redis_service.client() as client:
            for nonsense in (b"", b"a b c d", b"x \xff 12", b"x q 1.5", b"x q "):
                client.publish("pinlater:{1}:arrivals", nonsense)
        await one.enqueue()
        await until(lambda: (QUEUE, None) in two.heard)

    run(test)


def test_a_server_gets_the_job_of_another_and_hears_that_it_is_to_stop(tmp_path, redis_service):
    file = tmp_path / "shards.json"
    master = {"host": "127.0.0.1", "port": redis_service.port}
    file.write_text(json.dumps({"shards": [{"name": "1", "shardConfig": {"master": master}}]}))
    settings = {"PINLATER_BACKEND": "redis", "BACKEND_CONFIG": str(file)}
    servers = [ServerProcess(tmp_path / name, "tests.support.unpolled_server", **settings) for name in ("one", "two")]
    try:
        with servers[0].client() as waiting, servers[1].client() as client:
            client.createQueue(name=QUEUE)
            got = []

            def wait():
                got.append(waiting.dequeueJobs(queueName=QUEUE, limit=1, waitMillis=60_000))
                got.append(waiting.getCancelledJobs(sinceTimestampMillis=0, waitMillis=60_000))

            thread = threading.Thread(target=wait)
            thread.start()
            wait_for(lambda: "\npinlater_parked_dequeues 1" in servers[0].page("/metrics")[1])
            (name,) = client.enqueueJobs(queueName=QUEUE, jobs=[{"body": b"hello"}])["jobDescriptors"]
            wait_for(lambda: got)
            assert client.cancelJobs(queueName=QUEUE, jobDescriptors=[name]) == 1
            thread.join(30)
        assert got[0]["jobs"] == {name: b"hello"}
        assert got[1]["jobDescriptors"] == [name]
    finally:
        for server in servers:
            server.kill()
