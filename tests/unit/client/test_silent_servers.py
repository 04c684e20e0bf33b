"""Servers that stand still: they take connections, as their machines do that for them, and answer nothing."""

import asyncio
import contextlib
import random
import time

import pytest
import tenacity

from pinlater import AsyncClient, Client, Job
from pinlater.client import NewJob, ServerSet
from pinlater.client.retrying import CallRetries
from pinlater.errors import (
    CallError,
    CallTimeout,
    NoHealthyShards,
    NotConnected,
    PinLaterError,
    ServerStopping,
    ServerUnavailable,
    ShardConnectionFailed,
    UnknownError,
)
from pinlater.protocol.messages import PinLaterEnqueueResponse
from pinlater.protocol.operations import Calls
from pinlater.worker.keeper.service_client import KeeperClient
from pinlater.worker.session.connector import FIRST_DELAY_SECONDS, Connector
from pinlater.worker.session.pipeline import Pipeline
from tests.support.network import cut_off
from tests.unit.client.fake_server import FakeServer, Ping, stored
from tests.unit.worker.fakes import FakeChild


class Pair:
    """Two servers, of which the first is taken at first, and stands still when told to."""

    def __init__(self):
        self.answers = [set(), {"other"}]
        self.fakes = [FakeServer(lambda _, at=at: self.answers[at]) for at in (0, 1)]
        self.servers = ServerSet([fake.address for fake in self.fakes], chance=lambda: 0.0)

    def stand_still(self):
        self.answers[0] = "silence"


@pytest.fixture
def pair():
    pair = Pair()
    yield pair
    for fake in pair.fakes:
        fake.close()


@contextlib.contextmanager
def timeout_of(client, seconds):
    """Let calls that nobody answers end soon; those that are answered have as long as a busy machine takes."""
    usual, client._timeout = client._timeout, seconds
    yield
    client._timeout = usual


def test_the_next_call_of_a_client_goes_to_another_server(pair):
    with Client(pair.servers) as client:
        connections = [client._pool.borrow(1.0) for _ in range(3)]
        for connection in connections:
            client._pool.give_back(connection)
        pair.stand_still()
        with timeout_of(client, 0.2), pytest.raises(CallTimeout):
            client.queue_names()
        assert [client.queue_names() for _ in range(3)] == [{"other"}] * 3


def test_the_next_call_of_an_asyncio_client_goes_to_another_server(pair):
    async def use():
        async with AsyncClient(pair.servers) as client:
            await asyncio.gather(*[client.queue_names() for _ in range(3)])
            pair.stand_still()
            with timeout_of(client, 0.2), pytest.raises(CallTimeout):
                await client.queue_names()
            return [await client.queue_names() for _ in range(3)]

    assert asyncio.run(use()) == [{"other"}] * 3


def test_a_call_goes_on_at_another_server_when_one_cannot_be_reached_any_more(pair, connect, monkeypatch):
    """Nobody says that a connection is dead when a machine loses its power, or a device forgets a connection."""
    monkeypatch.setattr("pinlater.client.sockets._UNCONFIRMED_SECONDS", 0.2)
    with connect(pair.servers, timeout=20) as client:
        assert client.queue_names() == set()
        cut_off(pair.fakes[0].connections[0])
        assert client.queue_names() == {"other"}
    assert len(pair.fakes[0].connections) == 1


class ReadingLate(FakeServer):
    """As a server does that has no memory yet for a large call."""

    def _serve(self, sock):
        time.sleep(1.0)
        super()._serve(sock)


class Page(Job, queue="pages"):
    text: str


def test_a_large_call_waits_while_its_server_does_not_read(connect, monkeypatch):
    monkeypatch.setattr("pinlater.client.sockets._UNCONFIRMED_SECONDS", 0.1)
    with ReadingLate(stored) as server, connect(server, timeout=60) as client:
        assert client.enqueue_many([Page(text="x" * 900_000) for _ in range(12)]) == 12
        assert len(server.connections) == 1


def test_a_call_goes_on_at_another_server_when_one_only_accepts_connections(pair, connect):
    """As a proxy does whose server is gone."""
    pair.answers[0] = "hang up"
    with connect(pair.servers) as client:
        assert client.queue_names() == {"other"}
    assert len(pair.fakes[0].calls) == 1


def test_a_server_that_has_answered_is_asked_again_when_a_connection_breaks(pair):
    with Client(pair.servers) as client:
        assert client.queue_names() == set()
        pair.fakes[0].hang_up()
        assert client.queue_names() == set()
    assert len(pair.fakes[0].calls) == 2


def test_a_bulk_enqueue_goes_on_at_another_server(pair, connect):
    pair.answers = ["silence", PinLaterEnqueueResponse(["pings:s1:p1:1"])]
    with connect(pair.servers, timeout=1) as client:
        assert client.enqueue_many([Ping(number=number) for number in range(6)], batch_size=1) == 6


def test_a_call_that_reaches_no_store_is_tried_at_another_server(pair, connect):
    pair.answers[0] = NoHealthyShards("cut off")
    with connect(pair.servers) as client:
        assert [client.queue_names() for _ in range(3)] == [{"other"}] * 3
    assert len(pair.fakes[0].methods) == 1


def test_while_the_only_server_reaches_no_store_few_connections_are_made(pair):
    pair.answers[0] = NoHealthyShards("all shards are down")
    with Client([str(pair.fakes[0].address)], patience=2) as client, pytest.raises(NoHealthyShards):
        client.queue_names()
    assert len(pair.fakes[0].methods) > 2
    assert 1 < len(pair.fakes[0].connections) <= 4


@pytest.fixture
def balanced(serve):
    """The one address of two servers, of which that of the first connection is cut off from the store."""
    fake = serve(lambda _: NoHealthyShards("cut off") if len(fake.connections) == 1 else fake.replies)
    fake.replies = {"other"}
    return fake


def test_a_client_goes_on_at_another_server_behind_the_same_address(balanced, connect):
    with connect(str(balanced.address)) as client:
        assert client.queue_names() == {"other"}


def test_a_keeper_renews_at_another_server_behind_the_same_address(balanced):
    balanced.replies = None
    keeper = KeeperClient(Connector(ServerSet([balanced.address])), "keeper")
    with pytest.raises(NoHealthyShards):
        keeper.renew([("mails:s1:p1:1", "claim")])
    assert keeper.renew([("mails:s1:p1:1", "claim")]) == (set(), set())
    keeper.close()


def final_error(*answers, patience=None):
    """Return what a call raises whose tries fail with these errors, the last one again and again."""
    answers = list(answers)
    call = Calls("me", is_plain=True).enqueue_jobs("q", [NewJob(b"a")])
    retries = CallRetries(call, retries=1, patience=patience, deadline=time.monotonic() + 60)

    def attempt():
        raise answers.pop(0) if len(answers) > 1 else answers[0]

    with pytest.raises(PinLaterError) as caught:
        tenacity.Retrying(**retries.policy(), sleep=lambda _: None)(attempt)
    return retries.final_error(caught.value)


def test_a_try_that_the_deadline_cuts_off_says_why_the_one_before_it_failed():
    error = final_error(NoHealthyShards("all shards are down"), CallTimeout("no reply"))
    assert type(error) is CallTimeout
    assert str(error) == "no reply; the try before it failed: all shards are down"


@pytest.mark.parametrize("lost", [CallTimeout("no reply"), ShardConnectionFailed("the shard is gone")])
@pytest.mark.parametrize(
    ("last", "kind"),
    [
        (NotConnected("refused"), ServerUnavailable),
        (ServerStopping("stopping"), ServerUnavailable),
        (NoHealthyShards("all are down"), ShardConnectionFailed),
    ],
)
def test_after_a_lost_answer_no_error_says_that_nothing_was_done(lost, last, kind):
    error = final_error(lost, last, patience=0)
    assert type(error) is kind
    assert str(error) == f"{lost}; it may have been carried out. Tried again, then: {last}"


@pytest.mark.parametrize("last", [NotConnected("refused"), ServerStopping("stopping"), NoHealthyShards("all are down")])
def test_if_no_answer_was_lost_the_last_error_is_raised_as_it_is(last):
    assert final_error(last, last, patience=0) is last


def test_a_job_process_leaves_a_server_that_reaches_no_store(pair):
    child = FakeChild()
    pipeline = Pipeline(Connector(pair.servers), child.wakeup_fd)
    call = Calls("me", is_plain=True).queue_names()
    pair.answers[0] = NoHealthyShards("cut off")
    pipeline.open()
    with pytest.raises(NoHealthyShards):
        pipeline.call(call)
    pipeline.open()
    assert pipeline.call(call) == {"other"}
    pipeline.close()
    child.close()


def test_a_job_process_goes_to_another_server(pair, monkeypatch):
    monkeypatch.setattr("pinlater.worker.session.pipeline.CALL_SECONDS", 0.05)
    call = Calls("me", is_plain=True).queue_names()
    child = FakeChild()
    pipeline = Pipeline(Connector(pair.servers, chance=random.Random(1).random), child.wakeup_fd)
    pipeline.open()
    assert pipeline.call(call) == set()
    pair.stand_still()
    with pytest.raises(CallError):
        pipeline.call(call)
    pipeline.open()
    assert pipeline.call(call) == {"other"}
    pipeline.close()
    child.close()


def test_a_job_process_leaves_a_server_that_only_accepts_connections(pair):
    pair.answers[0] = "hang up"
    child, call = FakeChild(), Calls("me", is_plain=True).queue_names()
    pipeline = Pipeline(Connector(pair.servers), child.wakeup_fd)
    pipeline.open()
    with pytest.raises(ServerUnavailable):
        pipeline.call(call)
    pipeline.open()
    assert pipeline.call(call) == {"other"}
    pipeline.close()
    child.close()


def test_while_the_only_server_just_accepts_connections_it_is_tried_less_and_less_often():
    with FakeServer(lambda _: "hang up") as server:
        child, call = FakeChild(), Calls("me", is_plain=True).queue_names()
        connector = Connector(ServerSet([server.address]), chance=lambda: 0.5)
        pipeline = Pipeline(connector, child.wakeup_fd)
        delays = []
        for answer in (*["hang up"] * 4, set()):
            server.answer = lambda _, answer=answer: answer
            pipeline.open()
            with contextlib.suppress(ServerUnavailable):
                pipeline.call(call)
            delays.append(connector.delay_seconds)
        assert delays == [FIRST_DELAY_SECONDS * factor for factor in (1, 2, 4, 8, 1)]
        server.hang_up()
        with pytest.raises(ServerUnavailable):
            pipeline.call(call)
        assert connector.delay_seconds == FIRST_DELAY_SECONDS
        child.close()


def test_a_keeper_leaves_a_server_that_only_accepts_connections(pair):
    pair.answers = ["hang up", None]
    keeper = KeeperClient(Connector(pair.servers), "keeper")
    with pytest.raises(ServerUnavailable):
        keeper.renew([("mails:s1:p1:1", "claim")])
    keeper.renew([("mails:s1:p1:1", "claim")])
    assert pair.fakes[1].methods == ["checkpointJobs"]
    keeper.close()


@pytest.mark.parametrize("error", [ShardConnectionFailed("cut off"), UnknownError("there is no shard 's1' here")])
def test_a_keeper_renews_at_a_server_that_reaches_the_shard(pair, error):
    pair.answers = [error, None]
    keeper = KeeperClient(Connector(pair.servers), "keeper")
    with pytest.raises(type(error)):
        keeper.renew([("mails:s1:p1:1", "claim")])
    keeper.renew([("mails:s1:p1:1", "claim")])
    assert pair.fakes[1].methods == ["checkpointJobs"]
    keeper.close()


def test_a_keeper_does_not_look_as_if_it_hung_however_many_slow_calls_it_makes(pair):
    pair.answers = [None, None]
    beats, calls = [], pair.fakes[0].calls
    keeper = KeeperClient(Connector(pair.servers), "keeper", beat=lambda: beats.append(len(calls)))
    keeper.release([(f"{queue}:s1:p1:1", "claim") for queue in ("mails", "web", "sms")])
    assert beats == [0, 0, 1, 2]
    keeper.close()


def test_a_keeper_renews_at_another_server_while_a_third_of_the_lease_is_left(pair):
    pair.answers = [None, None]
    keeper = KeeperClient(Connector(pair.servers), "keeper", lease_seconds=3.0)
    assert keeper.renew([("mails:s1:p1:1", "claim")]) == (set(), set())
    pair.stand_still()
    with pytest.raises(CallTimeout):
        keeper.renew([("mails:s1:p1:1", "claim")])
    assert keeper._call_seconds == 0.5
    keeper.renew([("mails:s1:p1:1", "claim")])
    assert pair.fakes[1].methods == ["checkpointJobs"]
    keeper.close()
