"""Queues that use some shards of the store, set over the wire while two servers and their clients are at work."""

import threading

import pytest

from pinlater import Client, JobState
from pinlater.client import NewJob
from pinlater.model.descriptor import JobDescriptor
from pinlater.model.keys import JobKey
from pinlater.model.queues import FOLLOWS_LOAD
from tests.support.key_checker import QUEUE, KeyedLoad
from tests.support.redis_service import shard_file
from tests.support.server import ServerProcess, wait_for
from tests.support.stores import SHARED_STORES

pytestmark = pytest.mark.timeout(300)

SHARDS = 4
JOBS_OF_A_KEY = 60
KEYS = [*[JobKey(f"ordered {number}", 1, is_ordered=True) for number in range(4)], JobKey("two", 2), None]
NUMBERS = (1, 3, FOLLOWS_LOAD, 2, 0, 1, 4, 1)


@pytest.fixture
def addresses(request, tmp_path):
    """The addresses of two servers that share a store."""
    settings = SHARED_STORES[request.param](tmp_path, shards=SHARDS)
    servers = [ServerProcess(tmp_path / name, **settings) for name in "ab"]
    yield [server.address for server in servers]
    for server in servers:
        server.kill()


@pytest.fixture
def clients(addresses):
    clients = [Client(address, timeout=60) for address in addresses]
    clients[0].create_queue(QUEUE)
    yield clients
    for client in clients:
        client.close()


def shards_of(names):
    return {JobDescriptor.parse(name).shard for name in names}


def put_singly(client, count=12):
    return [client.enqueue_jobs(QUEUE, [NewJob(b"x")])[0] for _ in range(count)]


@pytest.mark.parametrize("addresses", SHARED_STORES, indirect=True)
def test_all_servers_use_the_same_shards_within_a_moment(clients):
    here, there = clients
    here.change_queue(QUEUE, shards=2)
    for client in clients:
        settings = client.queue_settings()[QUEUE]
        assert (settings.shards, settings.shards_by_load) == (2, None)
        wait_for(lambda client=client: len(client.queue_settings()[QUEUE].active_shards) == 2)
    [active, same] = [set(client.queue_settings()[QUEUE].active_shards) for client in clients]
    assert active == same
    assert shards_of(put_singly(here) + put_singly(there)) == active
    here.change_queue(QUEUE, paused=True)
    assert there.queue_settings()[QUEUE].shards == 2
    there.change_queue(QUEUE, shards=0)
    assert there.queue_settings()[QUEUE].shards is None
    wait_for(lambda: here.queue_settings()[QUEUE].active_shards == ())
    assert len(shards_of(put_singly(here, 60))) == SHARDS


@pytest.mark.parametrize("addresses", SHARED_STORES, indirect=True)
def test_an_idle_queue_that_follows_its_load_comes_to_use_one_shard(clients):
    clients[0].change_queue(QUEUE, shards=FOLLOWS_LOAD)
    for client in clients:
        wait_for(lambda client=client: len(client.queue_settings()[QUEUE].active_shards) == 1, seconds=60)
        settings = client.queue_settings()[QUEUE]
        assert (settings.shards, settings.shards_by_load) == (FOLLOWS_LOAD, 1)
        assert shards_of(put_singly(client)) == set(settings.active_shards)


@pytest.mark.parametrize("addresses", SHARED_STORES, indirect=True)
def test_the_number_changes_under_load_and_nothing_is_lost_or_out_of_order(addresses, clients):
    load = KeyedLoad(addresses, KEYS, JOBS_OF_A_KEY, lease_seconds=30)
    with load.at_work(seconds=240):
        for number in NUMBERS:
            clients[number % 2].change_queue(QUEUE, shards=number)
            threading.Event().wait(0.3)
    assert load.faults() == []
    assert load.unfinished() == []
    assert clients[0].count(QUEUE, JobState.PENDING) == 0
    wait_for(lambda: len(clients[0].queue_settings()[QUEUE].active_shards) == 1)
    active = clients[0].queue_settings()[QUEUE].active_shards
    assert shards_of(put_singly(clients[0])) == set(active)


def test_the_next_shard_takes_new_jobs_while_the_only_one_of_the_queue_is_dead(tmp_path, two_shards):
    settings = {"PINLATER_BACKEND": "redis", "BACKEND_CONFIG": str(shard_file(tmp_path, two_shards))}
    server = ServerProcess(tmp_path / "server", **settings)
    try:
        with Client(server.address, timeout=60) as client:
            client.create_queue(QUEUE)
            client.change_queue(QUEUE, shards=1)
            [own] = client.queue_settings()[QUEUE].active_shards
            assert shards_of(put_singly(client)) == {own}
            two_shards[int(own) - 1].kill()
            [other] = {"1", "2"} - {own}
            names = put_singly(client)
            assert shards_of(names) == {other}
            taken = []
            while len(taken) < len(names):
                taken += client.dequeue_jobs(QUEUE, 5, wait=10)
            assert sorted(job.descriptor for job in taken) == sorted(names)
    finally:
        server.kill()
