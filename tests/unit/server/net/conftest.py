"""A server without a network."""

import asyncio

import pytest

from pinlater.server.config.settings import Settings
from pinlater.server.metrics import Metrics
from pinlater.server.net.connection import ClientConnection
from pinlater.server.net.thrift_server import ThriftServer
from tests.unit.server.net.connection_bench import Calls, Network


@pytest.fixture
def run():
    """Run a coroutine function with a service and a maker of connections to it."""

    def run(act, **settings):
        async def main():
            calls = Calls()
            owner = ThriftServer(calls, Settings(**settings), Metrics())

            def connect():
                connection = ClientConnection(owner)
                connection.connection_made(Network())
                return connection

            async with asyncio.timeout(60):
                await act(calls, connect)

        asyncio.run(main())

    return run
