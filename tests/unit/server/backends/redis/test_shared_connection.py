"""The connection to a shard: each caller gets its own answer or an error, whatever the server sends and when."""

import asyncio
import contextlib
from types import SimpleNamespace

import hiredis
import pytest
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoScriptError, ResponseError

from pinlater.errors import ShardConnectionFailed
from pinlater.server.backends.redis import connection as shared
from pinlater.server.backends.redis import resp
from pinlater.server.backends.redis.connection import SharedConnection
from pinlater.server.backends.redis.endpoint import RedisEndpoint
from pinlater.server.backends.sharded import ShardUnreachable
from tests.support.waiting import until

MEGABYTE = bytes(1_000_000)


class FakeRedis:
    """Answers as a test says.

    Attributes:
        commands: all that have arrived.
        connections: number of connections that were accepted.
        received_bytes: how much was read.
        endpoint: of this server.
        answer: is given each command and the writer of its connection.
        may_read: nothing is read before it is set.
    """

    def __init__(self, answer):
        self.commands = []
        self.connections = 0
        self.received_bytes = 0
        self.answer = answer
        self.may_read = asyncio.Event()
        self.may_read.set()
        self._serving = {}

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.endpoint = RedisEndpoint(("127.0.0.1", self._server.sockets[0].getsockname()[1]))
        return self

    async def __aexit__(self, *_):
        self._server.close()
        self.may_read.set()
        for writer in self._serving.values():
            writer.transport.abort()
        await asyncio.gather(*self._serving)

    def has_received(self, text):
        return any(command[1] == text for command in self.commands)

    async def _serve(self, reader, writer):
        self._serving[asyncio.current_task()] = writer
        self.connections += 1
        try:
            await self._answer_all(reader, writer)
        finally:
            writer.transport.abort()

    async def _answer_all(self, reader, writer):
        requests = hiredis.Reader()
        with contextlib.suppress(ConnectionError):
            while await self.may_read.wait() and (data := await reader.read(65536)):
                self.received_bytes += len(data)
                requests.feed(data)
                while command := requests.gets():
                    self.commands.append(command)
                    if command[0] != b"CLIENT":  # of the log-in
                        await self.answer(command, writer)
                    else:
                        writer.write(b"+OK\r\n")


def bulk(data):
    return b"$%d\r\n%b\r\n" % (len(data), data)


async def echo(command, writer):
    writer.write(bulk(command[1]))


def scenario(answer, test, *, on_commit=lambda _: None):
    """Run a test on a connection to a server that answers so."""

    async def nothing(connection):
        """Stand for the handshake."""

    async def run():
        async with FakeRedis(answer) as server:
            connection = SharedConnection("1", server.endpoint, nothing, on_commit)
            try:
                async with asyncio.timeout(60):
                    await test(connection, server)
            finally:
                await connection.close()

    asyncio.run(run())


class Clock:
    """The clock of a connection, which goes on when a test says so, and its timer, which strikes then."""

    def __init__(self, monkeypatch):
        self._now = 0.0

        def start_timer(connection, seconds):
            connection._timer = SimpleNamespace(ends_at=self._now + max(seconds, 0), cancel=lambda: None)

        monkeypatch.setattr(shared, "time", SimpleNamespace(monotonic=lambda: self._now))
        monkeypatch.setattr(SharedConnection, "_start_timer", start_timer)

    def advance(self, connection, seconds):
        until = self._now + seconds
        while connection._timer is not None and connection._timer.ends_at <= until:
            self._now = connection._timer.ends_at
            connection._check_timeouts()
        self._now = until


@pytest.fixture
def clock(monkeypatch):
    return Clock(monkeypatch)


async def outcomes(*calls):
    return await asyncio.gather(*calls, return_exceptions=True)


def is_unknown(outcome):
    """Return whether a call was sent and may have been executed."""
    return isinstance(outcome, ShardConnectionFailed) and not isinstance(outcome, ShardUnreachable)


def test_answers_come_in_the_order_of_the_commands_and_a_turn_is_one_batch():
    commits = []

    async def test(connection, server):
        texts = [b"%d" % number for number in range(300)]
        assert await asyncio.gather(*(connection.call("ECHO", text) for text in texts)) == texts
        assert [commit.requests for commit in commits] == [300]
        assert await connection.call("ECHO", "later") == b"later"
        assert server.connections == 1

    scenario(echo, test, on_commit=commits.append)


def test_what_is_queued_while_a_batch_is_in_flight_is_the_next_batch():
    commits, may_answer = [], asyncio.Event()

    async def slow(command, writer):
        await may_answer.wait()
        await echo(command, writer)

    async def test(connection, server):
        first = connection.call("ECHO", "first")
        await until(lambda: server.has_received(b"first"))
        later = []
        for number in range(5):
            later.append(connection.call("ECHO", b"%d" % number))
            await asyncio.sleep(0)
        may_answer.set()
        assert await asyncio.gather(first, *later) == [b"first", b"0", b"1", b"2", b"3", b"4"]
        assert [commit.requests for commit in commits] == [1, 5]

    scenario(slow, test, on_commit=commits.append)


def test_an_answer_may_come_byte_by_byte():
    async def bytewise(command, writer):
        for byte in b"*2\r\n:7\r\n" + bulk(command[1]):
            writer.write(bytes([byte]))
            await asyncio.sleep(0.001)

    async def test(connection, _):
        assert await outcomes(connection.call("ECHO", "a"), connection.call("ECHO", "b")) == [[7, b"a"], [7, b"b"]]

    scenario(bytewise, test)


def test_an_error_goes_to_its_caller_only():
    async def answer(command, writer):
        if command[1] == b"bad":
            writer.write(b"-ERR no\r\n")
        elif command[1] == b"unknown":
            writer.write(b"-NOSCRIPT none\r\n")
        else:
            await echo(command, writer)

    async def test(connection, server):
        names = ("one", "bad", "two", "unknown", "three")
        one, bad, two, unknown, three = await outcomes(*(connection.call("ECHO", name) for name in names))
        assert (one, two, three) == (b"one", b"two", b"three")
        assert isinstance(bad, ResponseError)
        assert isinstance(unknown, NoScriptError)
        assert server.connections == 1

    scenario(answer, test)


def test_a_connection_that_is_closed_in_the_midst_fails_what_was_sent_and_not_what_was_not():
    async def answer(command, writer):
        if command[1] == b"cut":
            await writer.drain()
            await asyncio.sleep(0.1)
            writer.close()
        else:
            await echo(command, writer)

    async def test(connection, server):
        sent = [connection.call("ECHO", name) for name in ("before", "cut", "after")]
        await asyncio.sleep(0.05)
        queued = connection.call("ECHO", "queued")
        before, cut, after = await outcomes(*sent)
        assert before == b"before"
        assert is_unknown(cut)
        assert is_unknown(after)
        assert await queued == b"queued"
        assert server.connections == 2
        assert connection.seconds_since_failure < 10

    scenario(answer, test)


def test_answers_after_a_timeout_are_given_to_nobody(clock):
    commits, may_answer, has_answered = [], asyncio.Event(), asyncio.Event()

    async def answer(command, writer):
        if command[1] == b"late":
            await may_answer.wait()
        await echo(command, writer)
        if command[1] == b"late":
            has_answered.set()

    async def test(connection, server):
        sent = [connection.call("ECHO", name) for name in ("before", "late", "after")]
        assert await sent[0] == b"before"
        queued = connection.call("ECHO", "queued")
        clock.advance(connection, shared.ANSWER_SECONDS)
        late, after, queued = await outcomes(*sent[1:], queued)
        assert is_unknown(late)
        assert is_unknown(after)
        assert isinstance(queued, ShardUnreachable), "it was not sent"
        assert await connection.call("ECHO", "now") == b"now"
        may_answer.set()
        await has_answered.wait()
        for _ in range(20):  # meanwhile the late answers come
            assert await connection.call("ECHO", "now") == b"now"
        assert server.connections == 2
        assert [commit.requests for commit in commits if commit.is_failed] == [3]

    scenario(answer, test, on_commit=commits.append)


def test_a_call_ends_although_each_batch_before_it_is_answered_in_time(clock):
    may_answer = asyncio.Semaphore(0)

    async def slow(command, writer):
        await may_answer.acquire()
        writer.write(bulk(command[1][:10]))

    async def test(connection, server):
        calls = [connection.call("ECHO", MEGABYTE * 3) for _ in range(4)]  # each is a batch
        for number in range(2):
            await until(lambda batches=number + 1: len(server.commands) == batches)
            clock.advance(connection, shared.ANSWER_SECONDS - 0.1)
            may_answer.release()
            assert await calls[number] == bytes(10)
        await until(lambda: len(server.commands) == 3)
        clock.advance(connection, shared.CALL_SECONDS - 2 * shared.ANSWER_SECONDS + 0.1)
        assert [call.done() for call in calls] == [True, True, False, False]
        clock.advance(connection, 0.2)
        assert all(map(is_unknown, await outcomes(*calls[2:])))
        for _ in range(3):
            may_answer.release()
        assert await connection.call("ECHO", "next") == b"next"
        assert server.connections == 1

    scenario(slow, test)


def test_the_answer_to_a_cancelled_call_is_given_to_nobody():
    async def test(connection, server):
        assert await connection.call("ECHO", "first") == b"first"
        calls = [connection.call("ECHO", b"%d" % number) for number in range(9)]
        calls[0].cancel()
        await asyncio.sleep(0)
        for call in calls[3::3]:
            call.cancel()
        done = await outcomes(*calls)
        assert [text for text in done if isinstance(text, bytes)] == [b"1", b"2", b"4", b"5", b"7", b"8"]
        assert await connection.call("ECHO", "last") == b"last"
        assert server.connections == 1

    scenario(echo, test)


@pytest.mark.parametrize(
    "hostile",
    [b"@what is this\r\n", b"$-7\r\n", b"*-9\r\n", b":1\r\n:2\r\n", b"-LOADING Redis is loading the dataset\r\n"],
    ids=["no RESP", "length", "array", "two answers", "loading"],
)
def test_a_connection_with_a_wrong_answer_is_closed(hostile):
    async def answer(command, writer):
        if command[1] == b"first":
            writer.write(hostile)
        else:
            await echo(command, writer)

    async def test(connection, server):
        [first] = await outcomes(connection.call("ECHO", "first"))
        assert first == 1 if hostile[:1] == b":" else is_unknown(first)
        await asyncio.sleep(0.05)
        assert await connection.call("ECHO", "next") == b"next"
        assert server.connections == 2

    scenario(answer, test)


def test_an_answer_that_is_too_large_ends_the_connection(monkeypatch):
    monkeypatch.setattr(resp, "MAX_ANSWER_BYTES", 3_000_000)

    async def answer(command, writer):
        writer.write(b"$999999999\r\n")
        for _ in range(1000):
            writer.write(MEGABYTE)
            await writer.drain()

    async def test(connection, _):
        [outcome] = await outcomes(connection.call("ECHO", "first"))
        assert is_unknown(outcome)
        assert "larger than 3000000 bytes" in str(outcome)

    scenario(answer, test)


def test_no_more_than_a_batch_is_written_to_a_server_that_does_not_read():
    async def test(connection, server):
        assert await connection.call("ECHO", "first") == b"first"
        server.may_read.clear()
        proceed = asyncio.Event()

        async def hold(command, writer):
            await proceed.wait()
            writer.write(b"+OK\r\n")

        server.answer = hold
        calls = [connection.call("SET", MEGABYTE) for _ in range(40)]
        await asyncio.sleep(0.1)
        server.may_read.set()
        await asyncio.sleep(0.3)
        proceed.set()
        assert {*await asyncio.gather(*calls)} == {b"OK"}

    commits = []
    scenario(echo, test, on_commit=commits.append)
    assert max(commit.requests for commit in commits) <= 4
    assert sum(commit.requests for commit in commits) == 41


def test_calls_to_a_server_that_neither_reads_nor_answers_end(clock):
    async def test(connection, server):
        assert await connection.call("ECHO", "first") == b"first"
        server.may_read.clear()
        calls = [connection.call("SET", MEGABYTE) for _ in range(40)]
        await asyncio.sleep(0)
        clock.advance(connection, shared.ANSWER_SECONDS)
        done = await outcomes(*calls)
        assert sum(map(is_unknown, done)) <= 4
        assert all(isinstance(outcome, ShardConnectionFailed) for outcome in done)
        server.may_read.set()
        assert await connection.call("ECHO", "next") == b"next"

    scenario(echo, test)


def test_a_shard_that_closes_waits_for_its_answers():
    async def slow(command, writer):
        await asyncio.sleep(0.2)
        await echo(command, writer)

    async def test(connection, _):
        call = connection.call("ECHO", "last")
        await asyncio.sleep(0.05)
        await connection.close()
        assert call.result() == b"last"

    scenario(slow, test)


def test_a_connection_logs_in_names_itself_and_selects_its_database():
    async def accept(command, writer):
        writer.write(b"-WRONGPASS no\r\n" if b"wrong" in command else b"+OK\r\n")

    async def run():
        async with FakeRedis(accept) as server:
            endpoint = server.endpoint._replace(username="pinlater", password="secret", db=3)
            (await endpoint.open(2.0)).close()
            assert server.commands == [
                [b"AUTH", b"pinlater", b"secret"],
                [b"CLIENT", b"SETNAME", b"pinlater-server"],
                [b"SELECT", b"3"],
            ]
            with pytest.raises(RedisConnectionError, match="no"):
                await server.endpoint._replace(password="wrong").open(2.0)
            assert [b"AUTH", b"wrong"] in server.commands

    asyncio.run(run())


def test_a_call_after_the_close_opens_no_connection():
    async def test(connection, server):
        assert await connection.call("ECHO", "a") == b"a"
        await connection.close()
        with pytest.raises(ShardUnreachable, match="was closed"):
            await connection.call("ECHO", "b")
        with pytest.raises(ShardUnreachable, match="was closed"):
            await connection.call("ECHO", "c")
        assert server.connections == 1

    scenario(echo, test)
