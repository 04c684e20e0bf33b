"""When a pool says that its server has failed, and for how long it has been answering again."""

import asyncio
import math

import pytest

from pinlater.server.backends.mysql import pool as module
from pinlater.server.backends.mysql.errors import ConnectFailed, ConnectionLost
from pinlater.server.backends.mysql.pool import MysqlPool


class FakeConnection:
    idle_seconds = 1000.0

    def __init__(self):
        self.is_open = True

    def close(self):
        self.is_open = False


class Server:
    is_reachable = True

    async def open(self, _endpoint):
        if not self.is_reachable:
            raise ConnectFailed("no answer")
        return FakeConnection()


@pytest.fixture
def server(monkeypatch):
    server = Server()
    monkeypatch.setattr(module.MysqlConnection, "open", server.open)
    return server


async def use(pool, error=None):
    """Use a connection; with an error it is closed, as by a statement that was cancelled or lost."""
    async with pool.connection() as connection:
        await asyncio.sleep(0)
        if error is not None:
            connection.close()
            raise error


@pytest.mark.usefixtures("server")
@pytest.mark.parametrize("error", [ConnectionLost("gone"), TimeoutError(), asyncio.CancelledError()])
def test_a_call_without_an_answer_is_a_failure_until_another_one_is_answered(error):
    async def scenario():
        pool = MysqlPool(None, 4)
        async with pool.connection():  # another one that is in use meanwhile, and is answered in the end
            await use(pool)
            assert pool.seconds_since_failure == math.inf
            with pytest.raises(type(error)):
                await use(pool, error)
            assert pool.seconds_since_failure == 0.0
        assert 0 <= pool.seconds_since_failure < 10
        assert pool.connections == 1

    asyncio.run(scenario())


@pytest.mark.usefixtures("server")
@pytest.mark.parametrize("error", [ValueError("rejected"), ConnectFailed("its database cannot be used")])
def test_an_error_that_leaves_the_connection_open_is_no_failure(error):
    async def scenario():
        pool = MysqlPool(None, 4)
        with pytest.raises(type(error)):
            async with pool.connection():
                raise error
        assert pool.seconds_since_failure == math.inf
        assert pool.connections == 1

    asyncio.run(scenario())


def test_a_server_that_cannot_be_reached_has_failed_until_it_is(server):
    async def scenario():
        pool = MysqlPool(None, 4)
        server.is_reachable = False
        with pytest.raises(ConnectFailed):
            await use(pool)
        assert pool.seconds_since_failure == 0.0
        server.is_reachable = True
        await use(pool)
        assert 0 <= pool.seconds_since_failure < 10

    asyncio.run(scenario())


def test_a_connection_that_was_opened_during_the_close_is_closed_when_it_is_given_back(server, monkeypatch):
    async def scenario():
        pool, opened, may_go_on = MysqlPool(None, 4), [], asyncio.Event()

        async def slow_open(_endpoint):
            await may_go_on.wait()
            opened.append(FakeConnection())
            return opened[0]

        monkeypatch.setattr(module.MysqlConnection, "open", slow_open)
        call = asyncio.create_task(use(pool))
        await asyncio.sleep(0)
        pool.close()
        may_go_on.set()
        await call
        assert [connection.is_open for connection in opened] == [False]
        assert pool.connections == 0
        with pytest.raises(ConnectFailed, match="the server stops"):
            await use(pool)
        assert len(opened) == 1

    asyncio.run(scenario())
