"""A server that stops: which calls are still answered, and what clients are told of the others."""

import pytest

from pinlater.protocol.stopping import STOPPING_FRAME
from pinlater.server.net.connection import ClientConnection
from tests.support.waiting import until
from tests.unit.server.net.connection_bench import Network, enqueue_call, settled


@pytest.fixture
def leave(run):
    """Run a coroutine function with a service, a connection, its network, and a function that lets the server stop."""

    def leave(act):
        async def both(calls, connect):
            connection, network = connect(), Network()
            connection.connection_made(network)

            def stop():
                connection._owner.is_draining = True
                connection.close_when_answered()

            await act(calls, connection, network, stop)

        run(both)

    return leave


def test_a_client_that_wants_to_know_is_told_which_calls_are_not_carried_out(leave):
    async def act(calls, connection, network, stop):
        connection.data_received(enqueue_call(1, hearsStopping=True))
        await settled(calls, 1)
        stop()
        assert network.sent[-1] == STOPPING_FRAME
        connection.data_received(enqueue_call(1, hearsStopping=True))
        await until(lambda: network.is_closed)
        assert calls.begun == 1
        assert len(network.sent) == 2

    leave(act)


def test_calls_that_have_come_are_answered_first(leave):
    async def act(calls, connection, network, stop):
        calls.go_on.clear()
        connection.data_received(enqueue_call(1, hearsStopping=True) * 3)
        await settled(calls, 1)
        stop()
        assert network.sent == []
        calls.go_on.set()
        await settled(calls, 3)
        assert [sent == STOPPING_FRAME for sent in network.sent] == [False, False, False, True]

    leave(act)


def test_any_other_client_is_sent_nothing_that_it_does_not_know(leave):
    async def act(calls, connection, network, stop):
        connection.data_received(enqueue_call(1))
        await settled(calls, 1)
        stop()
        assert network.is_closed
        assert len(network.sent) == 1

    leave(act)


def test_the_first_call_of_one_that_has_just_connected_is_answered(leave):
    async def act(calls, connection, network, stop):
        stop()
        assert not network.is_closed
        connection.data_received(enqueue_call(1, hearsStopping=True))
        await settled(calls, 1)
        assert network.sent[1:] == [STOPPING_FRAME]

    leave(act)


def test_one_that_has_just_connected_and_does_not_call_is_let_go(leave):
    async def act(calls, connection, network, stop):
        stop()
        await until(lambda: network.is_closed)
        assert (calls.begun, network.sent) == (0, [])

    leave(act)


def test_what_is_accepted_last_does_not_stay(run):
    async def act(_, connect):
        owner = connect()._owner
        owner.is_draining = True
        late, network = ClientConnection(owner), Network()
        late.connection_made(network)
        await until(lambda: network.is_closed)

    run(act)


@pytest.mark.parametrize("how", ["eof", "reset", "closed by the server", "while the server stops", "no report"])
def test_a_connection_of_a_worker_ends(run, how):
    async def act(_, connect):
        lost, connection = [], connect()
        connection._owner.on_worker_lost = lost.append
        connection._caller.report = None if how == "no report" else "its report"
        connection._owner.is_draining = how == "while the server stops"
        if how != "closed by the server":
            connection.eof_received()
        connection.connection_lost(OSError() if how == "reset" else None)
        assert lost == (["its report"] if how in {"eof", "reset"} else [])

    run(act)
