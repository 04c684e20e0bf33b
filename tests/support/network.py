"""A network between this machine and a store: with long ways, or one that falls silent and closes nothing."""

import asyncio
import contextlib
import ctypes
import socket
import struct
import threading

import pytest

from pinlater.testing.loop_thread import LoopThread


class Network:
    """Forwards connections to a port of this machine. Use as a context manager.

    Args:
        port: where to.

    Attributes:
        port: where it listens.
        there: seconds that bytes take to the store.
        back: seconds that bytes take from the store.
        is_end: given what a connection has sent last, says whether it was the last that passes: from then on this
            connection is silent, both ways, and stays open.
    """

    def __init__(self, port, *, there=0.0, back=0.0):
        self._target = port
        self.there = there
        self.back = back
        self.is_end = lambda _sent: False
        self.is_silent = threading.Event()
        self._thread = LoopThread("network")
        self._tasks = set()

    def __enter__(self):
        self._thread.__enter__()
        self._server = self._thread.run(asyncio.start_server(self._forward, "127.0.0.1", 0))
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    def __exit__(self, *_):
        self._thread.run(self._end())
        self._thread.__exit__()

    async def _end(self):
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _forward(self, near_reader, near_writer):
        self._tasks.add(asyncio.current_task())
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target)
        silence = asyncio.Event()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pass_on(near_reader, far_writer, silence, is_there=True))
                group.create_task(self._pass_on(far_reader, near_writer, silence, is_there=False))
        except* OSError:
            pass
        finally:
            near_writer.close()
            far_writer.close()

    async def _pass_on(self, reader, writer, silence, *, is_there):
        """Read ahead while bytes are on their way, so that a long way is no narrow one."""
        on_the_way = asyncio.Queue()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._arrive(on_the_way, writer))
            with contextlib.suppress(OSError):
                while data := await reader.read(1 << 16):
                    if silence.is_set():
                        continue
                    delay = self.there if is_there else self.back
                    on_the_way.put_nowait((asyncio.get_running_loop().time() + delay, data))
                    if is_there and self.is_end(data):
                        silence.set()
                        self.is_silent.set()
            if silence.is_set():
                await asyncio.Event().wait()
            on_the_way.put_nowait((0.0, b""))

    async def _arrive(self, on_the_way, writer):
        while True:
            at, data = await on_the_way.get()
            await asyncio.sleep(at - asyncio.get_running_loop().time())
            if not data:
                with contextlib.suppress(OSError):
                    writer.write_eof()
                return
            writer.write(data)
            await writer.drain()


_SO_ATTACH_FILTER = 26
_RETURN = 0x06


def cut_off(sock):
    """Drop all packets that come to a connected socket from now on: the other side hears nothing, not even an end."""
    drop_all = ctypes.create_string_buffer(struct.pack("HBBI", _RETURN, 0, 0, 0))
    try:
        sock.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("HP", 1, ctypes.addressof(drop_all)))
    except PermissionError:
        pytest.skip("this user must not drop packets here")
