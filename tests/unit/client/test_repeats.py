"""Calls that are made again: only what was not done, what may be done twice, and what a server knows again."""

import asyncio
import time
from types import SimpleNamespace

import pytest

from pinlater import AsyncClient, Client
from pinlater.client import Ack, NewJob, async_base_client, base_client, retrying
from pinlater.client.async_pool import AsyncPool
from pinlater.client.pool import Pool
from pinlater.client.servers import ServerSet
from pinlater.errors import NoHealthyShards, ServerUnavailable, ShardConnectionFailed
from pinlater.protocol.messages import PinLaterDequeueResponse, PinLaterEnqueueResponse
from tests.unit.client.fake_server import FakeServer

LOST = ["hang up", ShardConnectionFailed("the shard did not answer")]
STORED = PinLaterEnqueueResponse(jobDescriptors=["q:s1:p1:1"])


class Blocking:
    def __init__(self, address):
        self._address = address

    def __getattr__(self, verb):
        def call(*arguments, **options):
            with Client(self._address) as client:
                return getattr(client, verb)(*arguments, **options)

        return call


class Awaiting(Blocking):
    def __getattr__(self, verb):
        async def call(*arguments, **options):
            async with AsyncClient(self._address) as client:
                return await getattr(client, verb)(*arguments, **options)

        return lambda *arguments, **options: asyncio.run(call(*arguments, **options))


class Server:
    """Answers calls of a method with one answer after the other; ``keeps``: whether it keeps results."""

    def __init__(self, *answers, keeps=True):
        self._answers = list(answers)
        self._keeps = keeps
        self.fake = FakeServer(self._answer)

    def _answer(self, call):
        if call.method == "keepsResults":
            return None if self._keeps else "unknown"
        return self._answers.pop(0)

    @property
    def contexts(self):
        """The contexts of all calls but those that ask what the server can do."""
        return [call.arguments.context for call in self.fake.calls if call.method != "keepsResults"]

    @property
    def methods(self):
        return self.fake.methods


@pytest.fixture
def serve():
    servers = []

    def serve(*answers, **options):
        servers.append(Server(*answers, **options))
        return servers[-1]

    yield serve
    for server in servers:
        server.fake.close()


@pytest.fixture(params=[Blocking, Awaiting])
def client_of(request):
    return lambda server: request.param(str(server.fake.address))


@pytest.mark.parametrize("lost", LOST, ids=str)
def test_an_enqueue_is_known_again_by_its_key(serve, client_of, lost):
    server = serve(lost, lost, STORED, STORED)
    assert client_of(server).enqueue_jobs("q", [NewJob(b"a")]) == ["q:s1:p1:1"]
    first, second, third = server.contexts
    assert first.idempotencyKey == second.idempotencyKey == third.idempotencyKey
    assert len(first.idempotencyKey) == 16
    assert [bool(context.isRepeat) for context in server.contexts] == [False, True, True]
    client_of(server).enqueue_jobs("q", [NewJob(b"a")])
    assert server.contexts[3].idempotencyKey != first.idempotencyKey
    assert server.methods == ["enqueueJobs"] * 4


def test_what_was_certainly_not_done_is_no_repeat(serve, client_of):
    server = serve(NoHealthyShards("none"), 7)
    assert client_of(server).retry_failed("q") == 7
    assert [bool(context.isRepeat) for context in server.contexts] == [False, False]
    assert server.methods == ["retryFailedJobs"] * 2


CHANGES = {
    "retry_failed": lambda client: client.retry_failed("q"),
    "retry_these": lambda client: client.retry_these("q", ["q:s1:p1:1"]),
    "run_now": lambda client: client.run_now("q", ["q:s1:p1:1"]),
    "schedule": lambda client: client.schedule("q", ["q:s1:p1:1"], 5),
    "delete_jobs": lambda client: client.delete_jobs("q", 3),
    "delete_these": lambda client: client.delete_these("q", ["q:s1:p1:1"], 3),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("lost", LOST, ids=str)
def test_a_change_is_made_again_where_results_are_kept(serve, client_of, change, lost):
    server = serve(lost, 7)
    assert change(client_of(server)) == 7
    assert server.methods[1] == "keepsResults"
    assert server.contexts[1].isRepeat is True


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize(
    ("lost", "error"), [("hang up", ServerUnavailable), (ShardConnectionFailed("gone"), ShardConnectionFailed)], ids=str
)
def test_a_change_is_not_made_again_where_none_are_kept(serve, client_of, change, lost, error):
    server = serve(lost, 7, keeps=False)
    with pytest.raises(error):
        change(client_of(server))
    assert len(server.contexts) == 1


def test_a_call_that_waits_is_repeated_with_what_is_left_of_its_wait(serve, client_of, monkeypatch):
    server, passed = serve("hang up", {}), 0.0
    answer = server.fake.answer

    def answer_late(call):
        nonlocal passed
        passed = 8.0
        return answer(call)

    server.fake.answer = answer_late
    clock = SimpleNamespace(time=time.time, monotonic=lambda: time.monotonic() + passed)
    for module in (base_client, async_base_client, retrying):
        monkeypatch.setattr(module, "time", clock)
    assert client_of(server).lookup(["q:s1:p1:1"], wait=20) == {}
    first, second = [call.arguments.request.waitMillis for call in server.fake.calls]
    assert first == 20_000
    assert 0 < second <= 12_000, "or it would be answered after the deadline"


def finding_none(pop):
    """Return what finds no idle connection, as when other threads have borrowed all that there were."""

    def closing(connections):
        while connection := pop(connections):
            connection.close()

    return closing


@pytest.mark.parametrize("blocking", [True, False])
def test_the_server_that_is_asked_whether_it_keeps_results_is_the_one_that_gets_the_call(serve, blocking, monkeypatch):
    for connections in (Pool, AsyncPool):
        monkeypatch.setattr(connections, "_pop", finding_none(connections._pop))
    new, old = serve("hang up", 7), serve(8, keeps=False)
    answer = new.fake.answer

    def answer_and_listen_no_more(call):
        if call.method == "keepsResults":
            new.fake.stop_listening()
        return answer(call)

    new.fake.answer = answer_and_listen_no_more
    servers = ServerSet([new.fake.address, old.fake.address], chance=lambda: 0.0)
    servers.leave(old.fake.address)  # for longer than the other, which hangs up
    client = (Blocking if blocking else Awaiting)(servers)
    assert client.retry_failed("q") == 7
    assert new.methods == ["retryFailedJobs", "keepsResults", "retryFailedJobs"]
    assert old.methods == []


@pytest.mark.parametrize(
    "call",
    [
        lambda client: client.dequeue_jobs("q", 1),
        lambda client: client.ack("q", failed=[Ack("q:s1:p1:1")]),
        lambda client: client.delete_queue("q", "password"),
    ],
)
def test_what_would_do_harm_twice_is_not_repeated_when_a_shard_did_not_answer(serve, client_of, call):
    server = serve(ShardConnectionFailed("the shard did not answer"), PinLaterDequeueResponse())
    with pytest.raises(ShardConnectionFailed):
        call(client_of(server))
    assert len(server.contexts) == 1


def test_what_does_no_harm_twice_has_no_key_and_is_repeated(serve, client_of):
    server = serve("hang up", {"q"})
    assert client_of(server).queue_names() == {"q"}
    assert [context.idempotencyKey for context in server.contexts] == [None, None]
