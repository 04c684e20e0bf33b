"""Several Redis shards that lose answers to claims, and a server of several processes: each gives back what it claimed
for nobody, before the leases end, and nothing of what is alive."""

import asyncio
import contextlib
import threading

import pytest

from pinlater import Client, JobState
from pinlater.server.backends.redis import RedisEndpoint, RedisShard
from pinlater.server.backends.redis.scripts import scripts
from pinlater.server.backends.store_options import StoreOptions
from tests.support.crowd import Crowd
from tests.support.lossy_proxy import LossyProxy
from tests.support.redis_service import RedisService, shard_file
from tests.support.server import ServerProcess

ROUNDS = 5
LOSSES = 6
"""In a round."""


@pytest.fixture
def proxies(tmp_path):
    """Two Redis servers, each behind a proxy."""
    with contextlib.ExitStack() as stack:
        services = [RedisService(tmp_path / f"redis{number}") for number in (1, 2)]
        for service in services:
            stack.callback(service.close)
        proxies = [LossyProxy(service.port) for service in services]
        for proxy in proxies:
            stack.callback(proxy.close)
        yield proxies


@pytest.fixture
def server(tmp_path, proxies):
    with ServerProcess(
        tmp_path / "server",
        PINLATER_BACKEND="redis",
        BACKEND_CONFIG=shard_file(tmp_path, proxies),
        SERVER_PROCESSES=3,
    ) as server:
        yield server


def lose_answers(proxies, is_over):
    """Lose claims, at one shard after the other, as the crowd makes them."""
    marker = scripts()["claim"].sha.encode()
    for number in range(LOSSES):
        proxy = proxies[number % len(proxies)]
        before = proxy.lost
        proxy.lose(marker)
        while proxy.lost == before and not is_over.wait(0.01):
            pass


def test_no_job_has_two_holders_and_no_attempt_is_spent(proxies, server):
    with Client(server.address) as client:
        for number in range(ROUNDS):
            queue = f"round{number}"
            client.create_queue(queue)
            is_over = threading.Event()
            loser = threading.Thread(target=lose_answers, args=(proxies, is_over))
            loser.start()
            try:
                # What is cut may also carry the answers to enqueues, each of five jobs, which are repeated.
                Crowd([server.address], queue, producers=2, consumers=6, jobs=300).join(spare=LOSSES * 2 * 5)
            finally:
                is_over.set()
                loser.join()
            done = list(client.scan_all(queue, JobState.SUCCEEDED))
            assert {job.attempts_remaining for job in done} == {done[0].attempts_allowed}, "no lease had to end"
    assert sum(proxy.lost for proxy in proxies) >= ROUNDS
    assert "whose dequeue was not answered" in server.log


def test_a_queue_is_locked_although_the_answer_was_lost(proxies):
    async def scenario():
        shard = RedisShard("1", RedisEndpoint(("127.0.0.1", proxies[0].port)), StoreOptions(3))
        await shard.create_queue("limited")
        await shard.unlock_queue("limited", await shard.lock_queue("limited", 60_000))
        proxies[0].lose(scripts()["lock_queue"].sha.encode())
        token = await shard.lock_queue("limited", 60_000)
        assert proxies[0].lost == 1
        assert token is not None, "nobody could claim until the lock ended by itself"
        assert await shard.lock_queue("limited", 60_000) is None
        await shard.close()

    asyncio.run(scenario())
