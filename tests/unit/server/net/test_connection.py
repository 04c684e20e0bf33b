"""A client connection of the server: fairness, back pressure, delivery, and the stopping notice."""

import asyncio
import threading

import pytest

from pinlater.protocol import messages as wire
from pinlater.protocol.codec import MANY_ELEMENTS, Codec
from pinlater.server.api.calls import CallReply
from pinlater.server.api.offload import offload
from pinlater.server.broker.parking import ParkedCall
from pinlater.server.config.settings import Settings
from pinlater.server.net.connection import LARGE_FRAME_BYTES
from pinlater.server.net.memory_budget import CallBudget
from tests.support.waiting import until
from tests.unit.server.net.connection_bench import Calls, Network, enqueue_call, settled


def call_of(method, request):
    return Codec().encode_call(method, 1, wire.arguments_of(method)(wire.RequestContext("me"), request))


def slow_reader(connect):
    """Return a connection that has a large answer to read, and its network."""
    connection, network = connect(), Network()
    connection.connection_made(network)
    network.unread = 16_000_000
    connection.pause_writing()
    return connection, network


def test_a_peer_that_reads_slowly_keeps_its_connection(run):
    async def act(_, connect):
        connection, network = slow_reader(connect)
        now = asyncio.get_running_loop().time()
        for second in range(600):
            network.unread -= 24_000
            connection.check_progress(now + second)
        assert not network.is_aborted

    run(act)


@pytest.mark.parametrize("bytes_a_second", [0, 100])
def test_a_peer_that_reads_next_to_nothing_loses_its_connection(run, bytes_a_second):
    async def act(_, connect):
        connection, network = slow_reader(connect)
        now = asyncio.get_running_loop().time()
        for second in range(int(Settings().partial_frame_timeout_seconds) + 2):
            network.unread -= bytes_a_second
            connection.check_progress(now + second)
        assert network.is_aborted

    run(act)


def test_what_a_peer_has_not_been_sent_whole_is_undone(run):
    async def act(calls, connect):
        undone = []

        async def undo():
            undone.append(1)

        class HalfSending(Network):
            def write(self, data):
                super().write(data)
                if len(data) > self.limit:
                    connection.pause_writing()

        calls.answer = CallReply(wire.PinLaterEnqueueResponse(["x" * 100]), undo)
        for is_all_sent in (True, False):
            connection = connect()
            connection.connection_made(HalfSending())
            begun = calls.begun + 1
            connection.data_received(enqueue_call(1))  # which it may begin at once
            await settled(calls, begun)
            assert connection._blocked is not None
            if is_all_sent:
                connection.resume_writing()
            connection.connection_lost(None)
            await asyncio.sleep(0.01)
            assert bool(undone) != is_all_sent

    run(act)


def test_others_have_their_turn_between_calls_that_are_long_but_wait_for_nothing(run):
    async def act(calls, connect):
        connect().data_received(enqueue_call(100, b"x" * 1000) * 8)
        await settled(calls, 8)
        assert len(set(calls.turns)) == 8

    run(act)


def test_short_calls_share_a_turn(run):
    async def act(calls, connect):
        connect().data_received(enqueue_call(1) * 64)
        await settled(calls, 64)
        assert 1 < len(set(calls.turns)) < 16

    run(act)


@pytest.mark.parametrize(
    "call",
    [enqueue_call(MANY_ELEMENTS + 1), enqueue_call(1, b"x" * LARGE_FRAME_BYTES)],
    ids=["many jobs", "many bytes"],
)
def test_two_large_calls_are_carried_out_at_a_time(run, call):
    async def act(calls, connect):
        calls.go_on.clear()
        for _ in range(5):
            connect().data_received(call)
        connect().data_received(enqueue_call(3))
        await settled(calls, 3)
        assert calls.begun == 3
        calls.go_on.set()
        await settled(calls, 6)

    run(act)


def test_a_large_call_whose_caller_has_left_is_forgotten_before_its_turn(run):
    async def act(calls, connect):
        calls.go_on.clear()
        connections = [connect() for _ in range(4)]
        for connection in connections:
            connection.data_received(enqueue_call(MANY_ELEMENTS + 1))
        await settled(calls, 2)
        connections[2].connection_lost(None)
        calls.go_on.set()
        await settled(calls, 3)
        assert calls.begun == 3

    run(act)


CALLS_THAT_MAY_WAIT = {
    "dequeueJobs": wire.PinLaterDequeueRequest("q", 1, waitMillis=1),
    "lookupJobs": wire.PinLaterLookupJobRequest(["q:s1:p1:1"], waitMillis=1),
}


@pytest.mark.parametrize("method", CALLS_THAT_MAY_WAIT)
@pytest.mark.parametrize("most", ["max_concurrent_requests", "max_requests_per_address"])
def test_calls_that_may_wait_count_as_others_do(run, method, most):
    async def act(calls, connect):
        calls.go_on.clear()
        for _ in range(5):
            connect().data_received(call_of(method, CALLS_THAT_MAY_WAIT[method]))
        await settled(calls, 2)
        assert calls.begun == 2
        calls.go_on.set()
        await settled(calls, 5)

    run(act, **{most: 2})


def test_while_they_are_parked_they_count_as_none(run):
    async def act(calls, connect):
        parked = []

        async def park(_method, _arguments, caller):
            parked.append(ParkedCall(caller, 900))
            await parked[-1].sleep()
            return await Calls.call(calls)

        calls.call, answer_at_once = park, calls.call
        for _ in range(5):
            connect().data_received(call_of("dequeueJobs", CALLS_THAT_MAY_WAIT["dequeueJobs"]))
        await until(lambda: len(parked) >= 5)
        calls.call = answer_at_once
        connect().data_received(enqueue_call(1))
        await settled(calls, 1)
        calls.go_on.clear()
        for wait in parked:
            wait.wake()
        await settled(calls, 2)
        assert calls.begun == 2, "they need the slot again to go on"
        calls.go_on.set()
        await settled(calls, 6)

    run(act, max_concurrent_requests=1)


def test_a_call_whose_caller_has_left_counts_until_it_has_ended(run):
    """Or clients that leave at once could have any number of large calls carried out at a time."""

    async def act(calls, connect):
        calls.go_on.clear()
        call, left = enqueue_call(1, b"x" * 100_000), connect()
        owner = left._owner
        owner.call_budget = CallBudget(150_000)
        left.data_received(call + call[:50_000])
        await settled(calls, 1)
        left.connection_lost(None)
        next_one = connect()
        next_one.data_received(call[:50_000])
        assert next_one._is_paused
        assert owner.connections == 2
        calls.go_on.set()
        await until(lambda: owner.connections <= 1)
        assert not next_one._is_paused

    run(act)


def test_a_server_that_stops_ends_the_calls_of_those_who_have_left(run):
    async def act(calls, connect):
        calls.go_on.clear()
        connection = connect()
        connection.data_received(enqueue_call(1))
        await settled(calls, 1)
        connection.connection_lost(None)
        draining = asyncio.create_task(connection._owner.drain(asyncio.get_running_loop().time() + 60))
        await asyncio.sleep(0.05)
        assert not draining.done()
        calls.go_on.set()
        await draining

    run(act)


def test_much_is_done_in_a_thread_and_little_at_once():
    async def where(count):
        return await offload(count, threading.get_ident)

    here = threading.get_ident()
    assert asyncio.run(where(MANY_ELEMENTS)) == here
    assert asyncio.run(where(MANY_ELEMENTS + 1)) != here
