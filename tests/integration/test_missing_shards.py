"""What a shard that does not answer leaves out: everything that reads jobs says so."""

import asyncio
import json

import pytest

from pinlater import AsyncClient, Client, JobState
from pinlater.client import NewJob, missing_shards
from pinlater.client.migration import Migration, ShardMissing
from tests.support.apache import ApacheClient
from tests.support.redis_service import RedisService, shard_file
from tests.support.server import ServerProcess, wait_for
from tests.support.tool import run_tool
from tests.unit.dashboard.app import dashboard

QUEUE, OTHER = "pins", "others"
ALL = 40


@pytest.fixture(scope="module")
def services(tmp_path_factory):
    folder = tmp_path_factory.mktemp("services")
    with RedisService(folder / "one") as one, RedisService(folder / "two") as two:
        yield [one, two]


@pytest.fixture(scope="module")
def server(services, tmp_path_factory):
    """A server with two shards, of which the second has been killed; failed jobs are on both."""
    folder = tmp_path_factory.mktemp("server")
    settings = {"PINLATER_BACKEND": "redis", "BACKEND_CONFIG": str(shard_file(folder, services))}
    settings["QUEUE_METRICS_INTERVAL_SECONDS"] = "1"
    with ServerProcess(folder / "server", **settings) as server, Client(server.address, timeout=60) as client:
        client.create_queue(OTHER)
        for _ in range(ALL):  # each batch goes to one of them
            client.enqueue_jobs(QUEUE, [NewJob(b"{}")])
        found = client.count(QUEUE, JobState.PENDING)
        assert (type(found), found, missing_shards(found)) == (int, ALL, ())
        assert missing_shards(client.scan(QUEUE, JobState.PENDING)) == ()
        services[1].kill()
        wait_for(lambda: missing_shards(client.count(QUEUE, JobState.PENDING)))
        yield server
    assert "Traceback" not in server.log


@pytest.fixture
def client(server):
    with Client(server.address, timeout=60) as client:
        yield client


def test_a_count_and_a_scan_name_the_shard_whose_jobs_they_lack(client):
    counted = client.count(QUEUE, JobState.PENDING)
    page = client.scan(QUEUE, JobState.PENDING)
    assert 0 < counted == len(page.jobs) < ALL
    assert missing_shards(counted) == missing_shards(page) == ("2",)


def test_the_asyncio_client_names_it_as_well(server):
    async def count():
        async with AsyncClient(server.address, timeout=60) as client:
            return await client.count(QUEUE, JobState.PENDING)

    assert missing_shards(asyncio.run(count())) == ("2",)


def test_a_client_that_knows_nothing_of_this_gets_the_count_of_the_others(server, client):
    with ApacheClient(server.port, "apache") as apache:
        assert apache.getJobCount(queueName=QUEUE, jobState=0) == client.count(QUEUE, JobState.PENDING)


@pytest.mark.parametrize(
    "words",
    [
        ("count", QUEUE),
        ("count", QUEUE, "--state", "pending"),
        ("scan", QUEUE, "--state", "pending"),
        ("top", "--once"),
        ("top", "--json"),
    ],
)
def test_the_command_line_warns_and_ends_with_a_status_of_its_own(server, words):
    status, out, err = run_tool(*words, "--server", server.address)
    assert status == 69
    assert out
    assert err == "pinlater: shard 2 does not answer: its jobs are left out\n"


@pytest.mark.parametrize("queues", [(), (QUEUE,)])
def test_a_list_of_failures_says_that_those_of_a_shard_are_left_out(server, queues):
    status, _, err = run_tool("failing", *queues, "--server", server.address)
    assert (status, "pinlater: shard 2 does not answer: its jobs are left out\n" in err) == (69, True)


def test_counts_in_json_name_it(server):
    _, out, _ = run_tool("count", QUEUE, "--json", "--server", server.address)
    assert json.loads(out)["missing_shards"] == ["2"]


def test_the_doctor_finds_it_without_metrics(server):
    status, out, _ = run_tool("doctor", "--server", server.address)
    assert (status, "CRITICAL  Shard 2 of the store does not answer" in out) == (1, True)


def test_moving_jobs_says_what_it_leaves_behind(server):
    words = ("move-jobs", QUEUE, "--to", OTHER, "--state", "pending", "--dry-run", "--server", server.address)
    status, out, err = run_tool(*words)
    assert (status, "would be moved" in out, "shard 2 does not answer" in err) == (69, True, True)


def test_a_migration_is_refused_before_anything_is_moved(server, client, tmp_path):
    left = client.count(QUEUE, JobState.PENDING)
    with ServerProcess(tmp_path / "target") as target:
        status, _, err = run_tool("migrate-queue", QUEUE, "--to", target.address, "--server", server.address)
        assert (status, "shard 2 of the source does not answer" in err) == (1, True)
        with Client(target.address) as other:
            for act in ("copy", "running"):
                with pytest.raises(ShardMissing):
                    getattr(Migration(client, other, QUEUE, QUEUE), act)()
    assert client.count(QUEUE, JobState.PENDING) == left


def test_metrics_go_on_with_the_other_shards(server, client):
    left = client.count(QUEUE, JobState.PENDING)
    line = f'pinlater_queue_backlog_jobs{{queue="{QUEUE}"}} {left}.0'
    wait_for(lambda: line in server.page("/metrics")[1])


def test_the_dashboard_says_so_where_it_shows_counts(server):
    with dashboard(server.address) as browser:
        for path in (f"/queues/{QUEUE}", f"/jobs?queue={QUEUE}", "/", "/failing"):
            assert "Shard 2 does not answer." in browser.get(path).text
