"""What only the asyncio client does: side by side, bounded, cancellation, loops. Else see ``test_client.py``."""

import asyncio
import os
import threading
from functools import partial

import pytest

from pinlater import AsyncClient, JobState
from pinlater.client.async_connection import AsyncConnection
from pinlater.errors import (
    CallTimeout,
    NoHealthyShards,
    ProtocolError,
)
from pinlater.protocol.messages import (
    PinLaterJobInfo,
    PinLaterScanJobsResponse,
)
from tests.support.waiting import until
from tests.unit.client import fake_server
from tests.unit.client.daemons import check_connection_ends
from tests.unit.client.fake_server import Ping, stored

client_of = partial(fake_server.client_of, kind=AsyncClient)


def run(client, use):
    """Run ``use(client)`` in a loop of its own."""

    async def main():
        async with client:
            return await use(client)

    return asyncio.run(main())


def test_a_call_that_goes_on_while_the_client_is_closed_leaves_no_connection_open(serve):
    async def use(client):
        lent = await client._pool.borrow(20)
        connecting = asyncio.create_task(client._pool.borrow(20))
        await asyncio.sleep(0)
        assert not connecting.done()
        await client.close()
        for connection in (lent, await connecting):
            client._pool.give_back(connection)
            assert not connection.is_open
        again = await client._pool.borrow(20)
        client._pool.give_back(again)
        assert again.is_open, "a closed client stays usable"

    run(client_of(serve(lambda _: {"q"})), use)


def test_calls_side_by_side_get_their_own_answers_on_bounded_connections(serve):
    server = serve(lambda call: len(call.arguments.request.queueName))

    async def use(client):
        return await asyncio.gather(*(client.count("q" * size, JobState.PENDING) for size in range(1, 201)))

    assert run(client_of(server, connections=8, timeout=30), use) == list(range(1, 201))
    assert len(server.connections) <= 8


def test_waiting_for_a_connection_counts(serve):
    async def use(client):
        busy = asyncio.create_task(client.dequeue_jobs("q", 1, wait=30))
        await asyncio.sleep(0.05)
        with pytest.raises(CallTimeout, match="connections="):
            await client.queue_names()
        busy.cancel()
        await asyncio.gather(busy, return_exceptions=True)

    run(client_of(serve(lambda _: "silence"), connections=1, timeout=0.2), use)


def test_a_cancelled_call_leaves_no_answer_behind(serve):
    server = serve(lambda call: "silence" if call.method == "dequeueJobs" else {"q"})

    async def use(client):
        task = asyncio.create_task(client.dequeue_jobs("q", 1, wait=30))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return await client.queue_names()

    assert run(client_of(server, connections=1), use) == {"q"}
    assert len(server.connections) == 2


@pytest.mark.parametrize("junk", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\0\0\0\4junk", "unknown"])
def test_a_reply_that_is_none_is_a_protocol_error(serve, junk):
    with pytest.raises(ProtocolError):
        run(client_of(serve(lambda _: junk)), lambda client: client.queue_names())


def test_one_client_in_two_loops(serve):
    server = serve(lambda _: {"q"})
    client = client_of(server)
    for _ in range(2):
        assert run(client, lambda client: client.queue_names()) == {"q"}


def test_one_client_in_event_loops_of_two_threads(serve):
    server, answers = serve(lambda _: {"q"}), []
    client, both = client_of(server, timeout=60, connect_timeout=60), threading.Barrier(2, timeout=60)

    async def use():
        for _ in range(5):
            both.wait()  # both loops have a connection that nobody uses now
            answers.append(await client.queue_names())
        both.wait()
        await client.close()

    threads = [threading.Thread(target=lambda: asyncio.run(use())) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert answers == [{"q"}] * 10
    assert len(server.connections) == 2, "each loop has kept its own"


def test_scan_all_pages(serve):
    def answer(call):
        page = {"0": ("a", "t1"), "t1": ("b", "-1")}[call.arguments.request.continuation]
        return PinLaterScanJobsResponse([PinLaterJobInfo(page[0], 0, 1, 1, "", 1)], page[1])

    async def use(client):
        return [info.descriptor async for info in client.scan_all("q", JobState.PENDING)]

    assert run(client_of(serve(answer)), use) == ["a", "b"]


def test_a_handle_waits_for_the_end(serve):
    states = [0, 3]

    def answer(call):
        if call.method == "enqueueJobs":
            return stored(call)
        return {"pings:s1:p1:0": PinLaterJobInfo("pings:s1:p1:0", states.pop(0), 1, 1, "", 1)}

    async def use(client):
        return await (await client.enqueue(Ping())).wait(10)

    assert run(client_of(serve(answer)), use).state is JobState.FAILED


def bodies(server):
    return [job.body for call in server.calls for job in call.arguments.request.jobs]


EXPECTED = [b'{"job":"Ping","number":%d}' % number for number in range(105)]


async def asynchronous_jobs():
    for number in range(105):
        yield Ping(number=number)


@pytest.mark.parametrize("jobs", [lambda: (Ping(number=number) for number in range(105)), asynchronous_jobs])
def test_many_jobs_are_stored_in_order(serve, jobs):
    server = serve(stored)
    seen = []
    use = lambda client: client.enqueue_many(jobs(), batch_size=10, progress=seen.append)
    assert run(client_of(server), use) == 105
    assert bodies(server) == EXPECTED
    assert seen[-1] == 105
    assert len(server.connections) == 1


@pytest.mark.parametrize("failure", ["hang up", "stopping", NoHealthyShards("none")])
@pytest.mark.parametrize("connections", [1, 3])
def test_a_failure_while_all_connections_enqueue_many_jobs_loses_nothing(serve, failure, connections):
    failing = set(range(3 * connections, 4 * connections))
    seen = []

    def answer(call):
        seen.append(call)
        return failure if len(seen) in failing else stored(call)

    async def use(client):
        return await asyncio.gather(
            *(client.enqueue_many(asynchronous_jobs(), batch_size=10) for _ in range(connections))
        )

    server = serve(answer)
    assert run(client_of(server, connections=connections, timeout=30), use) == [105] * connections
    assert set(bodies(server)) == set(EXPECTED)


def test_a_batch_that_may_be_stored_is_sent_again_as_a_repeat_although_no_server_was_there_in_between(
    serve, monkeypatch
):
    first = serve(lambda call: "silence")
    lost = asyncio.Event()
    connection_lost = AsyncConnection.connection_lost

    def note_loss(connection, error):
        connection_lost(connection, error)
        lost.set()

    monkeypatch.setattr(AsyncConnection, "connection_lost", note_loss)

    async def jobs():
        yield Ping(number=0)
        await until(lambda: first.calls)
        first.close()
        await lost.wait()
        yield Ping(number=1)  # finds no server
        servers.append(serve(stored, address=(first.address.host, first.address.port)))

    servers = []
    assert run(client_of(first, timeout=60), lambda client: client.enqueue_many(jobs(), batch_size=1)) == 2
    again = [call.arguments.context for call in servers[0].calls]
    assert [context.isRepeat for context in again] == [True, None]
    assert again[0].idempotencyKey == first.calls[0].arguments.context.idempotencyKey


DAEMON = """
import asyncio, importlib
from pinlater.client.address import Address
from pinlater.client.async_connection import AsyncConnection

async def connect(address):
    connection = await AsyncConnection.open(Address.parse(address), 60)
    fork_and_die()

with asyncio.Runner(loop_factory=importlib.import_module(sys.argv[2]).new_event_loop) as runner:
    runner.run(connect(sys.argv[1]))
"""


@pytest.mark.parametrize("loops", ["asyncio", "uvloop"])
def test_a_daemon_that_a_client_has_forked_does_not_keep_its_connection(loops):
    pytest.importorskip(loops)
    check_connection_ends(DAEMON, loops)


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_fork_leaves_the_connections_of_its_parent_alone(serve):
    server = serve(lambda _: {"q"})

    async def fork_between(client):
        await client.queue_names()
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert await client.queue_names() == {"q"}

    run(client_of(server), fork_between)
    assert len(server.connections) == 1
