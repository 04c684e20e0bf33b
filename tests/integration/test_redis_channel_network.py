"""Servers of a Redis store reach each other by its channels."""

import asyncio
import threading
from contextlib import suppress

import pytest
from thrift.transport.TTransport import TTransportException

from pinlater.server.backends.redis import RedisEndpoint, RedisShard, ServerChannels, channel_network
from pinlater.server.backends.store_options import StoreOptions
from tests.support.bench import QUEUE
from tests.support.redis_service import RedisService, shard_file
from tests.support.server import ServerProcess, wait_for
from tests.support.waiting import until


class Server:
    """A process of a server, and the messages that it has received."""

    def __init__(self, services, name):
        self.heard = []
        self.meetings = 0
        self.network = ServerChannels().of(name)
        self.shards = [self.shard_at(number, service) for number, service in enumerate(services, 1)]
        self.task = asyncio.ensure_future(self.network.run(self.heard.append, self._note_meeting))

    def shard_at(self, number, service):
        endpoint = RedisEndpoint(("127.0.0.1", service.port))
        return RedisShard(str(number), endpoint, StoreOptions(3), channels=self.network)

    def _note_meeting(self):
        self.meetings += 1

    def knows(self, *others):
        return {other.network.own_id for other in others} <= set(self.network.ids)

    async def leave(self):
        self.task.cancel()
        with suppress(asyncio.CancelledError):
            await self.task
        for shard in self.shards:
            await shard.close()


async def heard(server, message, resend=lambda: None):
    """Wait until a server has heard a message, which may have to be sent again."""
    while message not in server.heard:
        resend()
        await asyncio.sleep(0.01)


@pytest.fixture
def services(tmp_path):
    with RedisService(tmp_path / "one") as one, RedisService(tmp_path / "two") as two:
        yield one, two


@pytest.fixture
def run(services):
    """Run a test with servers of these names, which have met."""

    def run(test, *names):
        async def main():
            servers = [Server(services, name) for name in names]
            try:
                async with asyncio.timeout(60):
                    await until(lambda: all(len(server.network.ids) >= len(set(names)) - 1 for server in servers))
                    await test(*servers)
            finally:
                for server in servers:
                    await server.leave()

        asyncio.run(main())

    return run


def test_a_message_reaches_its_receiver_and_nobody_else(run):
    async def test(one, two, three):
        one.network.send(b"for two", two.network.own_id)
        one.network.send_to_all(b"for all")
        await heard(two, b"for all")
        await heard(three, b"for all")
        assert (one.heard, two.heard, three.heard) == ([], [b"for two", b"for all"], [b"for all"])

    run(test, "a", "b", "c")


def test_processes_of_one_server_leave_each_other_alone(run):
    async def test(one, sibling, other):
        await until(lambda: other.knows(one, sibling))
        one.network.send_to_all(b"jobs")
        await heard(other, b"jobs")
        assert sibling.heard == []
        assert one.knows(other)
        assert not one.knows(sibling)

    run(test, "a", "a", "b")


def test_a_server_that_comes_later_is_met_and_one_that_has_left_is_forgotten(run, services):
    async def test(one):
        assert (one.meetings, one.network.ids) == (0, frozenset())
        two = Server(services, "b")
        await until(lambda: one.knows(two) and two.knows(one))
        assert one.meetings
        assert two.meetings
        await two.leave()
        while one.network.ids:
            one.network.send(b"anybody there?", two.network.own_id)
            await asyncio.sleep(0.01)

    run(test, "a")


def test_a_server_that_says_nothing_for_long_is_forgotten(run, monkeypatch):
    monkeypatch.setattr(channel_network, "GREET_SECONDS", 0.05)

    async def test(one, two):
        two.task.cancel()  # from now on, it does not say that it is there
        monkeypatch.setattr(channel_network, "KEEP_SECONDS", 0.3)
        await until(lambda: not one.network.ids)

    run(test, "a", "b")


def test_after_a_broken_connection_servers_meet_again(run, services):
    async def test(one, two):
        one.meetings = two.meetings = 0
        for service in services:
            with service.client() as client:
                assert client.client_kill_filter(_type="pubsub") == 2
        await until(lambda: one.meetings and two.meetings)
        await heard(two, b"jobs", lambda: one.network.send(b"jobs", two.network.own_id))

    run(test, "a", "b")


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("fault", [RedisService.kill, RedisService.stop])
def test_messages_go_by_another_shard_while_one_is_away_or_hangs(run, services, fault, first):
    async def test(one, two):
        fault(services[first])
        await heard(two, b"jobs", lambda: one.network.send(b"jobs", two.network.own_id))
        await heard(one, b"more", lambda: two.network.send_to_all(b"more"))
        if fault is RedisService.stop:
            services[first].go_on()

    run(test, "a", "b")


def test_what_is_sent_while_the_only_shard_hangs_arrives_later(run, services):
    async def test(one, two):
        for server in (one, two):
            await server.shards.pop().close()
        channel = one.network._channels["1"]
        await until(lambda: channel.peers)
        services[0].stop()
        one.network.send(b"first", two.network.own_id)
        await until(lambda: channel.is_slow)
        one.network.send(b"for two", two.network.own_id)
        one.network.send_to_all(b"for all")
        services[0].go_on()
        await heard(two, b"for all")
        assert two.heard == [b"first", b"for two", b"for all"]

    run(test, "a", "b")


def refuse_messages(service):
    """Let a shard refuse what servers publish from now on, but not that they listen."""
    with service.client() as client:
        client.execute_command("ACL", "SETUSER", "default", "-publish")


def test_messages_go_by_another_shard_once_one_refuses_them(run, services):
    async def test(one, two):
        await until(lambda: one.network._channels["1"].peers)
        refuse_messages(services[0])
        await heard(two, b"jobs", lambda: one.network.send(b"jobs", two.network.own_id))

    run(test, "a", "b")


def test_a_shard_that_refuses_messages_from_the_start_is_logged(run, services, caplog):
    refuse_messages(services[0])

    async def test(*_):
        await until(lambda: "shard 1: job notifications of other servers are not received" in caplog.text)
        assert "permission" in caplog.text

    run(test, "a", "b")


def test_each_time_a_shard_is_away_is_logged_once(run, services, caplog):
    async def test(*servers):
        for _ in range(2):
            caplog.clear()
            services[0].kill()
            await until(lambda: caplog.text.count("shard 1: job notifications of other servers") == len(servers))
            await asyncio.sleep(0.5)  # for some tries
            services[0].start()
            for server in servers:
                channel = server.network._channels["1"]
                await until(lambda channel=channel: channel.peers)
            assert caplog.text.count("shard 1: job notifications of other servers") == len(servers)

    run(test, "a", "b")


def test_the_channel_of_a_new_shard_is_used_and_that_of_a_removed_one_is_not(run, services, tmp_path):
    async def test(one, two):
        with RedisService(tmp_path / "three") as third:
            for server in (one, two):
                server.shards.append(server.shard_at(3, third))
            for server in (one, two):
                channel = server.network._channels["3"]
                await until(lambda channel=channel: channel.peers)
                for shard in server.shards[:2]:
                    await shard.close()
            one.network.send(b"jobs", two.network.own_id)
            await heard(two, b"jobs")
            for server in (one, two):
                await server.shards.pop().close()
            assert one.network.ids == two.network.ids == frozenset()

    run(test, "a", "b")


def test_nonsense_on_the_channels_disturbs_nobody(run, services):
    async def test(one, two):
        channels = ["pinlater:{1}:servers", f"pinlater:{{1}}:servers:{two.network.own_id.hex()}"]
        with services[0].client() as client:
            for channel in channels:
                for nonsense in (b"", b"a b c", b"ab hello", b"\xff hello", b"00 hello"):
                    assert client.publish(channel, nonsense) == 2 - channels.index(channel)
        one.network.send(b"jobs", two.network.own_id)
        await heard(two, b"jobs")
        assert two.heard == [b"jobs"]
        assert set(two.network.ids) == {one.network.own_id}

    run(test, "a", "b")


@pytest.fixture
def fleet(tmp_path, services):
    """Three servers on two shards, which hear of each other's jobs from each other alone."""
    settings = {"PINLATER_BACKEND": "redis", "BACKEND_CONFIG": str(shard_file(tmp_path, services))}
    servers = [
        ServerProcess(tmp_path / name, "tests.support.unpolled_server", **settings) for name in ("one", "two", "three")
    ]
    yield servers
    for server in servers:
        server.kill()


def test_a_job_that_nobody_waits_for_where_it_is_stored_makes_one_dequeue_ask(fleet):
    storing, *others = fleet
    got = []

    def consume(server):
        with suppress(TTransportException), server.client() as client:  # until the server is killed
            while True:
                answer = client.dequeueJobs(queueName=QUEUE, limit=1, waitMillis=120_000)
                got.extend(answer["jobs"])

    with storing.client() as client:
        client.createQueue(name=QUEUE)
        threads = [threading.Thread(target=consume, args=(server,), daemon=True) for server in others for _ in range(3)]
        for thread in threads:
            thread.start()
        wait_for(lambda: all("\npinlater_parked_dequeues 3" in server.page("/metrics")[1] for server in others))
        before, stored = sum(claims(server) for server in fleet), []
        for number in range(1, 21):
            stored += client.enqueueJobs(queueName=QUEUE, jobs=[{"body": b"%d" % number}])["jobDescriptors"]
            wait_for(lambda number=number: len(got) == number)
    assert sorted(got) == sorted(stored)
    asked = sum(claims(server) for server in fleet) - before
    assert asked <= 30, "one for each job, and a few for late answers, where each server would make 40 of them"


def claims(server):
    """Return how often a server has asked its store for jobs."""
    lines = server.page("/metrics")[1].splitlines()
    counts = (line for line in lines if line.startswith("pinlater_store_seconds_count") and '"dequeue"' in line)
    return sum(float(line.rpartition(" ")[2]) for line in counts)


def test_a_server_hears_that_a_job_is_to_stop(fleet):
    storing, running, _ = fleet
    with storing.client() as client, running.client() as waiting:
        client.createQueue(name=QUEUE)
        (name,) = client.enqueueJobs(queueName=QUEUE, jobs=[{"body": b"hello"}])["jobDescriptors"]
        assert waiting.dequeueJobs(queueName=QUEUE, limit=1, waitMillis=60_000)["jobs"] == {name: b"hello"}
        got = []

        def wait():
            got.append(waiting.getCancelledJobs(sinceTimestampMillis=0, waitMillis=60_000))

        thread = threading.Thread(target=wait)
        thread.start()
        assert client.cancelJobs(queueName=QUEUE, jobDescriptors=[name]) == 1
        thread.join(60)
    assert got[0]["jobDescriptors"] == [name]
