"""Jobs with keys while servers are killed: no limit and no rate is passed, no order broken, nothing lost."""

import random
import threading

import pytest

from pinlater import Client
from pinlater.model.keys import JobKey
from tests.support.key_checker import QUEUE, KeyedLoad
from tests.support.server import ServerProcess
from tests.support.stores import KEYED_SETTINGS

pytestmark = pytest.mark.timeout(300)

JOBS_OF_A_KEY = {"mysql": 80}
"""Of the stores that need fewer than 150 to be at work until the last kill."""
KILLS = 4
LEASE_SECONDS = 5.0
KEYS = [
    *[JobKey(f"ordered {number}", 1, is_ordered=True) for number in range(3)],
    JobKey("one", 1),
    JobKey("three", 3),
    JobKey("any"),
    None,
]

RATED_JOBS = 40
RATED_KEYS = [
    JobKey("steady", rate="10/s"),
    JobKey("fast", rate="60/s"),
    JobKey("in order", 1, is_ordered=True, rate="20/s"),
    JobKey("two", 2, rate="15/s"),
    JobKey("any"),
    None,
]


@pytest.fixture(params=KEYED_SETTINGS)
def store(request):
    return request.param


@pytest.fixture
def servers(store, tmp_path):
    make, is_shared = KEYED_SETTINGS[store], store != "sqlite"
    settings, count = make(tmp_path, shards=2) if is_shared else make(tmp_path), 1 + is_shared
    servers = [ServerProcess(tmp_path / f"server{number}", **settings) for number in range(count)]
    yield servers
    for server in servers:
        server.kill()


def kill_by_chance(servers, chance, kills, pause_seconds):
    """Kill one server after the other, and start it again at once."""
    for _ in range(kills):
        threading.Event().wait(chance.uniform(*pause_seconds))
        server = chance.choice(servers)
        server.kill()
        server.start()


def test_limits_and_order_hold_while_servers_are_killed(store, servers):
    jobs = JOBS_OF_A_KEY.get(store, 150)
    with Client(servers[0].address) as client:
        client.create_queue(QUEUE)
    load = KeyedLoad([server.address for server in servers], KEYS, jobs, LEASE_SECONDS)
    with load.at_work(seconds=240):
        kill_by_chance(servers, random.Random(1), KILLS, (0.1, 0.4))
    assert load.faults() == []
    assert load.unfinished() == []
    assert load.succeeded == len(KEYS) * jobs


@pytest.mark.parametrize("kills", [0, KILLS])
def test_rates_hold_over_several_servers_and_while_they_are_killed(servers, kills):
    with Client(servers[0].address) as client:
        client.create_queue(QUEUE)
    load = KeyedLoad([server.address for server in servers], RATED_KEYS, RATED_JOBS, LEASE_SECONDS)
    with load.at_work(seconds=240):
        kill_by_chance(servers, random.Random(2), kills, (0.2, 0.8))
    assert load.faults() == []
    assert load.unfinished() == []
    assert load.succeeded == len(RATED_KEYS) * RATED_JOBS
    for server in servers:
        assert "deadlock" not in server.log.lower()
