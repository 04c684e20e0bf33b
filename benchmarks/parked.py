"""What consumers cost that only wait for jobs."""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.figures import Figure
from benchmarks.programs import ProgramFailed, Server
from benchmarks.setting import Setting
from pinlater.protocol.codec import Codec
from pinlater.protocol.framing import FrameSplitter
from pinlater.protocol.messages import PinLaterDequeueRequest, RequestContext, arguments_of

CONNECTIONS = 2_000
SECONDS = 20.0
WAIT_MS = 10_000


def measure(setting: Setting) -> list[Figure]:
    """Measure the server's share of a core and its memory while all consumers wait, polling again when a wait ends."""
    count = setting.amount(CONNECTIONS)
    with setting.server(has_dashboard=True) as server:
        server.create_queue("nothing")
        before_mb = server.memory_mb()
        with _Waiters.connect(server, count) as waiters:
            waiters.serve(1.0)
            cpu, started, answers = server.cpu_seconds(), time.perf_counter(), waiters.answers
            waiters.serve(max(SECONDS * setting.scale, 1.0))
            seconds = time.perf_counter() - started
            cpu = server.cpu_seconds() - cpu
            after_mb = server.memory_mb()
            _check(waiters.answers - answers, count, seconds)
    title = f"{count:,} parked consumers"
    return [
        Figure("parked_cpu", f"{title}, server's share of a core", "%", [cpu / seconds * 100]),
        Figure("parked_memory", f"{title}, memory of the server", "MB", [after_mb]),
        Figure("parked_memory_each", "  for each of them", "kB", [max(after_mb - before_mb, 0.0) * 1000 / count]),
    ]


def _check(answers: int, count: int, seconds: float) -> None:
    """Check that the consumers really wait: there are no more answers than their waits allow."""
    most = count * (seconds * 1000 / WAIT_MS + 1)
    if answers > most:
        raise ProgramFailed(f"{answers} answers in {seconds:.0f} s; waits of {WAIT_MS} ms allow {most:.0f}")


class _Waiters:
    """Connections with a long poll each, which is sent again once it is answered."""

    def __init__(self, server: Server) -> None:
        request = PinLaterDequeueRequest("nothing", 1, waitMillis=WAIT_MS)
        arguments = arguments_of("dequeueJobs")(RequestContext(source="bench"), request)
        self._frame = Codec().encode_call("dequeueJobs", 1, arguments)
        self._server = server
        self._selector = selectors.DefaultSelector()
        self.answers = 0

    @classmethod
    @contextmanager
    def connect(cls, server: Server, count: int) -> Iterator[_Waiters]:
        waiters = cls(server)
        try:
            for _ in range(count):
                waiters._add()
            yield waiters
        finally:
            waiters._close()

    def _add(self) -> None:
        waiter = socket.create_connection(self._server.address[:2])
        self._selector.register(waiter, selectors.EVENT_READ, FrameSplitter())
        waiter.sendall(self._frame)

    def _close(self) -> None:
        for key in list(self._selector.get_map().values()):
            key.fileobj.close()  # type: ignore[union-attr] # all of them are sockets
        self._selector.close()

    def serve(self, seconds: float) -> None:
        """Wait for answers, and poll again."""
        until = time.perf_counter() + seconds
        while (left := until - time.perf_counter()) > 0:
            for key, _ in self._selector.select(left):
                self._take(key.fileobj, key.data)  # type: ignore[arg-type]

    def _take(self, waiter: socket.socket, splitter: FrameSplitter) -> None:
        data = waiter.recv(65536)
        if not data:
            raise ProgramFailed("the server closed a connection with a parked call")
        for _ in splitter.feed(data):
            self.answers += 1
            waiter.sendall(self._frame)
