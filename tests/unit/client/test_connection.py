"""One connection: order, refusals, deadlines, loss."""

import os
import socket
import time

import pytest

from pinlater.client.address import Address
from pinlater.client.connection import Connection
from pinlater.client.sockets import round_trip_seconds
from pinlater.errors import CallTimeout, CallUnsupported, ProtocolError, QueueNotFound, ServerUnavailable
from pinlater.protocol.messages import PinLaterJobAckRequest, RequestContext, arguments_of
from tests.unit.client.daemons import check_connection_ends
from tests.unit.client.fake_server import free_address

CONTEXT = RequestContext(source="test")


def names_call():
    return arguments_of("getQueueNames")(context=CONTEXT)


def create_call(name):
    return arguments_of("createQueue")(context=CONTEXT, name=name)


DAEMON = """
from pinlater.client.address import Address
from pinlater.client.connection import Connection

connection = Connection(Address.parse(sys.argv[1]))
fork_and_die()
"""


def test_a_daemon_that_a_client_has_forked_does_not_keep_its_connection():
    check_connection_ends(DAEMON)


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forks_copy_of_a_connection_sends_nothing(serve):
    server = serve(lambda _: {"q"})
    with Connection(server.address) as connection:
        pid = os.fork()
        if pid == 0:
            try:
                connection.call("getQueueNames", names_call())
            except ServerUnavailable as error:
                os._exit(0 if not connection.is_open and "parent process" in str(error) else 1)
            finally:
                os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert connection.is_open
        assert connection.call("getQueueNames", names_call()) == ["q"]


def test_a_connection_that_is_closed_ends_for_all_who_have_a_copy():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        connection = Connection(Address.parse(f"127.0.0.1:{listener.getsockname()[1]}"))
        copy = os.dup(connection.fileno())
        server_side, _ = listener.accept()
        with server_side:
            server_side.settimeout(60)
            connection.close()
            assert server_side.recv(1) == b""
        os.close(copy)


def test_a_call_returns_the_reply(serve):
    server = serve(lambda _: {"a", "b"})
    with Connection(server.address) as connection:
        assert sorted(connection.call("getQueueNames", names_call())) == ["a", "b"]
        assert connection.in_flight == 0
    assert server.calls[0].arguments.context.source == "test"


def test_a_void_method_returns_none(serve):
    with Connection(serve(lambda _: None).address) as connection:
        assert connection.call("createQueue", create_call("q")) is None


def test_replies_come_in_the_order_of_the_calls(serve):
    server = serve(lambda call: {str(call.sequence_id)})
    with Connection(server.address) as connection:
        numbers = [connection.send("getQueueNames", names_call()) for _ in range(20)]
        assert connection.in_flight == 20
        assert [connection.receive(5) for _ in numbers] == [[str(number)] for number in numbers]


def test_a_reply_that_came_with_another_is_buffered(serve):
    codec_replies = []

    def answer(call):
        codec_replies.append(call)
        return "silence" if len(codec_replies) == 1 else _both(codec_replies)

    with Connection(serve(answer).address) as connection:
        connection.send("getQueueNames", names_call())
        connection.send("getQueueNames", names_call())
        connection.receive(5)
        assert connection.has_buffered_reply
        connection.receive(0)
        assert not connection.has_buffered_reply


def _both(calls):
    from pinlater.protocol.codec import Codec

    codec = Codec()
    return b"".join(codec.encode_reply(call.method, call.sequence_id, {"q"}) for call in calls)


def test_a_refusal_leaves_the_connection_usable(serve):
    server = serve(lambda call: QueueNotFound("no queue q") if call.method == "createQueue" else {"a"})
    with Connection(server.address) as connection:
        with pytest.raises(QueueNotFound, match="no queue q"):
            connection.call("createQueue", create_call("q"))
        assert connection.call("getQueueNames", names_call()) == ["a"]


def test_a_call_that_the_server_does_not_know_leaves_the_connection_usable(serve):
    server = serve(lambda call: "unknown" if call.method == "createQueue" else {"a"})
    with Connection(server.address) as connection:
        with pytest.raises(CallUnsupported, match="createQueue"):
            connection.call("createQueue", create_call("q"))
        assert connection.call("getQueueNames", names_call()) == ["a"]


def test_a_timeout_closes_the_connection(serve):
    with Connection(serve(lambda _: "silence").address) as connection:
        with pytest.raises(CallTimeout, match="getQueueNames"):
            connection.call("getQueueNames", names_call(), timeout=0.05)
        assert not connection.is_open
        with pytest.raises(ServerUnavailable, match="closed"):
            connection.send("getQueueNames", names_call())


def test_a_lost_connection_is_unavailable(serve):
    with Connection(serve(lambda _: "hang up").address) as connection:
        with pytest.raises(ServerUnavailable, match="closed"):
            connection.call("getQueueNames", names_call())
        assert not connection.is_open


@pytest.mark.parametrize("junk", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\0\0\0\4junk"])
def test_a_reply_that_is_none_closes_the_connection(serve, junk):
    with Connection(serve(lambda _: junk).address) as connection:
        with pytest.raises(ProtocolError):
            connection.call("getQueueNames", names_call())
        assert not connection.is_open


def test_a_call_that_cannot_be_encoded_leaves_the_connection_usable(serve):
    with Connection(serve(lambda _: {"a"}).address) as connection:
        with pytest.raises(ProtocolError, match="cannot be sent"):
            connection.call("createQueue", create_call(12))
        assert connection.call("getQueueNames", names_call()) == ["a"]


def test_nobody_listening_is_unavailable_at_once():
    started = time.monotonic()
    address = free_address()
    with pytest.raises(ServerUnavailable, match=f"{address}: connection refused"):
        Connection(address)
    assert time.monotonic() - started < 20


def test_a_server_that_hung_up_while_idle_is_noticed(serve):
    server = serve(lambda _: {"a"})
    with Connection(server.address) as connection:
        connection.call("getQueueNames", names_call())
        assert not connection.is_stale()
        server.hang_up()
        deadline = time.monotonic() + 60
        while not connection.is_stale() and time.monotonic() < deadline:
            time.sleep(0.01)
        assert connection.is_stale()


def test_large_calls_and_replies_in_flight_do_not_block_each_other(serve):
    server = serve(lambda _: {"x" * 3_000_000})
    request = arguments_of("ackDequeuedJobs")(
        context=RequestContext(source="s" * 3_000_000), request=PinLaterJobAckRequest(queueName="q")
    )
    server.answer = lambda call: {"x" * 3_000_000} if call.method == "getQueueNames" else None
    with Connection(server.address) as connection:
        for _ in range(6):
            connection.send("getQueueNames", names_call())
            connection.send("ackDequeuedJobs", request)
        replies = [connection.receive(10) for _ in range(12)]
    assert [len(next(iter(reply))) if reply else reply for reply in replies] == [3_000_000, None] * 6


def test_a_call_larger_than_a_frame_is_refused_here(serve):
    with Connection(serve(lambda _: None).address) as connection:
        with pytest.raises(ProtocolError, match="send less at once"):
            connection.call("createQueue", create_call("x" * 17_000_000))
        assert connection.is_open


def test_how_far_away_a_server_is(serve):
    with Connection(serve(lambda _: None).address) as connection:
        assert 0 < connection.round_trip_seconds < 60


def test_how_far_away_a_server_is_that_is_reached_by_a_file():
    with socket.socket(socket.AF_UNIX) as sock:
        assert round_trip_seconds(sock) == 0.0
