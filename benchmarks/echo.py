"""A server that sends back what it receives: the floor of a call, with the event loop of PinLater and nothing else."""

from __future__ import annotations

import asyncio
import sys

import uvloop


class Echo(asyncio.Protocol):
    """One connection."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._transport.write(data)  # type: ignore[attr-defined] # it is a transport of a socket


async def _serve(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(Echo, "127.0.0.1", port)
    await server.serve_forever()


def main() -> None:
    """Serve at the port of the first argument, until killed."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(int(sys.argv[1])))
