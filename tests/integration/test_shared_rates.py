"""Rates of queues on stores that several servers share: the tokens that they take."""

import asyncio
import itertools

import pytest

from pinlater.errors import QueueNotFound, ServiceError
from pinlater.server.backends.redis import RedisEndpoint, RedisShard
from pinlater.server.backends.redis.scripts import scripts
from pinlater.server.backends.store_options import StoreOptions
from pinlater.server.backends.token_bucket import Tokens
from tests.support.bench import QUEUE, START_MS, Bench, FakeClock
from tests.support.lossy_proxy import LossyProxy
from tests.support.mariadb_service import shared_service
from tests.support.mysql_bench import endpoint_of, fresh_prefix, make_fleet
from tests.support.redis_service import shared_redis_service
from tests.support.stores import SHARDED_STORES

SERVERS = 4


@pytest.fixture(params=itertools.product(SHARDED_STORES, (1, 2)), ids=lambda param: f"{param[0]}, {param[1]} shards")
def home(request, tmp_path):
    store, shards = request.param
    return SHARDED_STORES[store].home(tmp_path / "store", shards=shards)


def with_servers(home, scenario):
    """Run ``scenario(servers, clock)`` with several servers' views of one store."""

    async def run():
        clock = FakeClock()
        servers = [home.open(clock) for _ in range(SERVERS)]
        await servers[0].create_queue(QUEUE)
        try:
            await scenario(servers, clock)
        finally:
            await asyncio.gather(*(server.close() for server in servers))

    asyncio.run(run())


async def taken_by_all(servers, rate, wanted):
    tokens = await asyncio.gather(*(server.acquire_tokens(QUEUE, rate, wanted) for server in servers * 3))
    return sum(one.taken for one in tokens)


def test_all_servers_together_get_what_the_rate_brings(home):
    async def scenario(servers, clock):
        assert await taken_by_all(servers, 100, 30) == 100
        for _ in range(5):
            clock.advance(100)
            assert await taken_by_all(servers, 100, 30) == 10
        clock.advance(3_600_000)
        assert await taken_by_all(servers, 100, 30) == 100

    with_servers(home, scenario)


def test_one_server_alone_gets_all_of_it(home):
    async def scenario(servers, clock):
        assert await servers[0].acquire_tokens(QUEUE, 8, 100) == Tokens(8, 125)
        clock.advance(500)
        assert await servers[0].acquire_tokens(QUEUE, 8, 100) == Tokens(4, 125)
        assert await servers[1].acquire_tokens(QUEUE, 8, 1) == Tokens(0, 125)
        clock.advance(124)
        assert await servers[1].acquire_tokens(QUEUE, 8, 1) == Tokens(0, 1)
        clock.advance(1)
        assert await servers[1].acquire_tokens(QUEUE, 8, 1) == Tokens(1, 125)

    with_servers(home, scenario)


def test_what_one_server_gives_back_another_one_gets(home):
    async def scenario(servers, _):
        await servers[0].acquire_tokens(QUEUE, 10, 10)
        assert (await servers[1].acquire_tokens(QUEUE, 10, 10)).taken == 0
        assert await servers[0].acquire_tokens(QUEUE, 10, -6) == Tokens(-6, 0)
        assert (await servers[1].acquire_tokens(QUEUE, 10, 10)).taken == 6

    with_servers(home, scenario)


@pytest.mark.parametrize(("rate", "pause_ms"), [(1e-3, 1_000_000), (0.25, 4000), (0.3, 3334), (3, 334), (1e5, 1)])
def test_slow_and_fast_rates(home, rate, pause_ms):
    async def scenario(servers, clock):
        assert (await servers[0].acquire_tokens(QUEUE, rate, 10**6)).taken == max(int(rate), 1)
        clock.advance(pause_ms - 1)
        assert (await servers[1].acquire_tokens(QUEUE, rate, 1)).taken == 0
        clock.advance(1)
        assert (await servers[1].acquire_tokens(QUEUE, rate, 1)).taken == 1

    with_servers(home, scenario)


def test_a_queue_that_is_made_anew_begins_with_a_full_bucket(home):
    async def scenario(servers, _):
        server = servers[1]
        await servers[0].acquire_tokens(QUEUE, 10, 10)
        await server.delete_queue(QUEUE)
        with pytest.raises(QueueNotFound):
            await server.acquire_tokens(QUEUE, 10, 10)
        await server.create_queue(QUEUE)
        await server.collect_finished(1, 1, 100)
        assert (await server.acquire_tokens(QUEUE, 10, 10)).taken == 10

    with_servers(home, scenario)


def test_what_was_taken_outlives_a_server(home):
    bench = Bench(home)
    bench.create_queue(QUEUE)
    assert bench.acquire_tokens(QUEUE, 10, 10).taken == 10
    bench.crash()
    assert bench.acquire_tokens(QUEUE, 10, 10).taken == 0
    bench.end()


def test_a_clock_that_was_ahead_holds_a_queue_for_no_longer_than_a_moment(home):
    async def scenario(servers, clock):
        clock.advance(3_600_000)
        assert (await servers[0].acquire_tokens(QUEUE, 10, 10)).taken == 10
        clock.advance(-3_600_000)
        assert await servers[1].acquire_tokens(QUEUE, 10, 10) == Tokens(0, 100)
        for _ in range(2):  # with two shards, one bucket after the other finds out
            clock.advance(100)
            tokens = await servers[2].acquire_tokens(QUEUE, 10, 10)
        assert tokens.taken == 1

    with_servers(home, scenario)


def mysql_behind(proxy):
    return make_fleet([endpoint_of(shared_service(), port=proxy.port)], lambda: START_MS, prefix=fresh_prefix())


def redis_behind(proxy):
    place = RedisEndpoint(("127.0.0.1", proxy.port))
    return RedisShard("1", place, StoreOptions(3, now_ms=lambda: START_MS))


@pytest.mark.parametrize(
    ("service", "behind", "marker"),
    [
        (shared_service, mysql_behind, b".settings SET value"),
        (lambda: shared_redis_service("stores"), redis_behind, scripts()["acquire_tokens"].sha.encode()),
    ],
    ids=["mysql", "redis"],
)
def test_tokens_are_not_given_back_twice_when_the_answer_is_lost(service, behind, marker):
    async def scenario(proxy):
        store = behind(proxy)
        await store.delete_queue(QUEUE)
        await store.create_queue(QUEUE)
        assert (await store.acquire_tokens(QUEUE, 10.0, 10)).taken == 10
        proxy.lose(marker)
        with pytest.raises(ServiceError):
            await store.acquire_tokens(QUEUE, 10.0, -3)
        assert proxy.lost == 1
        assert (await store.acquire_tokens(QUEUE, 10.0, 10)).taken == 3
        await store.close()

    with LossyProxy(service().port) as proxy:
        asyncio.run(scenario(proxy))
