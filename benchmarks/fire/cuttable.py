"""Proxies between a server and a database that can cut connections: reset them, or let nothing through."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Self

from pinlater.testing.loop_thread import LoopThread


class CuttableWays:
    """Cuttable proxies, on an event loop in a separate thread. Use as a context manager."""

    def __init__(self) -> None:
        self._thread = LoopThread("proxies")
        self._listeners: list[asyncio.Server] = []

    def __enter__(self) -> Self:
        self._thread.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.run(self._end())
        self._thread.__exit__()

    async def _end(self) -> None:
        for listener in self._listeners:
            listener.close()
        await asyncio.sleep(0)

    def add(self, port: int) -> CuttableWay:
        """Return a new proxy to a port of this machine."""
        way = CuttableWay(port, self._do)
        listener = self._thread.run(_listen(way))
        self._listeners.append(listener)
        way.port = listener.sockets[0].getsockname()[1]
        return way

    def _do(self, action: Callable[[], None]) -> None:
        async def in_loop() -> None:
            action()

        self._thread.run(in_loop())


class CuttableWay:
    """A proxy to one port.

    Args:
        target: port of the database.
        do: runs a function in the loop.

    Attributes:
        port: port to connect to.
    """

    def __init__(self, target: int, do: Callable[[Callable[[], None]], None]) -> None:
        self.target = target
        self.port = 0
        self.is_silent = False
        self.is_refusing = False
        self.ends: set[_End] = set()
        self._do = do

    def reset(self) -> None:
        """Reset all connections, and every new one."""

        def cut() -> None:
            self.is_refusing = True
            for end in list(self.ends):
                end.abort()

        self._do(cut)

    def silence(self) -> None:
        """Pass on nothing in either direction; all connections stay open."""

        def cut() -> None:
            self.is_silent = True
            for end in self.ends:
                end.listen(is_on=False)

        self._do(cut)

    def heal(self) -> None:
        """Pass everything on again, including what was sent meanwhile."""

        def heal() -> None:
            self.is_silent = self.is_refusing = False
            for end in list(self.ends):
                end.listen(is_on=True)

        self._do(heal)


async def _listen(way: CuttableWay) -> asyncio.Server:
    return await asyncio.get_running_loop().create_server(lambda: _NearEnd(way), "127.0.0.1", 0)


class _End(asyncio.Protocol):
    """One end of a connection through a proxy; passes data on to the other end."""

    def __init__(self, way: CuttableWay) -> None:
        self._way = way
        self._transport: asyncio.Transport | None = None
        self._early: list[bytes] = []
        self.other: _End | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._way.ends.add(self)
        if self._way.is_silent:
            self.listen(is_on=False)
        for data in self._early:
            transport.write(data)

    def data_received(self, data: bytes) -> None:
        if self.other is not None:
            self.other.send(data)

    def send(self, data: bytes) -> None:
        if self._transport is None:
            self._early.append(data)
        else:
            self._transport.write(data)

    def listen(self, *, is_on: bool) -> None:
        if self._transport is not None and not self._transport.is_closing():
            with contextlib.suppress(RuntimeError):
                (self._transport.resume_reading if is_on else self._transport.pause_reading)()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def connection_lost(self, _exception: Exception | None) -> None:
        self._way.ends.discard(self)
        if self.other is not None and self.other._transport is not None:  # noqa: SLF001
            self.other._transport.close()  # noqa: SLF001


class _NearEnd(_End):
    """The end towards the server, which is made first and makes the other one."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if self._way.is_refusing:
            self.abort()
            return
        self.other = _End(self._way)
        self.other.other = self
        self._connecting = asyncio.get_running_loop().create_task(self._connect(self.other))

    async def _connect(self, far: _End) -> None:
        try:
            await asyncio.get_running_loop().create_connection(lambda: far, "127.0.0.1", self._way.target)
        except OSError:
            self.abort()
