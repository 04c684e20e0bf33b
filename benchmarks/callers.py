"""Many connections in one process, each with at most one call in flight: clients that do next to nothing.

As many Python processes would mostly measure themselves. These leave most of the machine to the server.
"""

from __future__ import annotations

import select
import selectors
import socket
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple, Self

from benchmarks.jobs import Nothing
from benchmarks.programs import ProgramFailed, Server
from pinlater.jobs.body_codec import encode_body
from pinlater.protocol.codec import Codec
from pinlater.protocol.framing import FrameSplitter
from pinlater.protocol.messages import PinLaterEnqueueRequest, PinLaterJob, RequestContext, arguments_of

PATIENCE_SECONDS = 30.0


class Caller:
    """A connection."""

    def __init__(self, server: Server) -> None:
        self.socket = socket.create_connection(server.address[:2])
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._splitter = FrameSplitter()

    def send(self, frame: bytes) -> None:
        """Send a call."""
        self.socket.sendall(frame)

    def receive(self) -> list[bytes]:
        """Receive once; return the payloads of the answers that are now complete.

        Raises:
            ProgramFailed: the server has closed the connection.
        """
        data = self.socket.recv(65536)
        if not data:
            raise ProgramFailed("the server closed a connection with a call under way")
        return self._splitter.feed(data)


class TimedCall(NamedTuple):
    """How long a call took that was due at a fixed moment.

    Attributes:
        ms: milliseconds from that moment to the answer.
        late_ms: milliseconds of it until the call was sent.
    """

    ms: float
    late_ms: float


class Callers:
    """A number of connections to a server."""

    def __init__(self, server: Server, count: int) -> None:
        self._selector = selectors.DefaultSelector()
        self._callers = [Caller(server) for _ in range(count)]
        for caller in self._callers:
            self._selector.register(caller.socket, selectors.EVENT_READ, caller)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for caller in self._callers:
            caller.socket.close()
        self._selector.close()

    def __iter__(self) -> Iterator[Caller]:
        return iter(self._callers)

    def answers(self) -> Iterator[tuple[Caller, bytes]]:
        """Wait for answers; yield each caller that got one, with the payload.

        Raises:
            ProgramFailed: none comes, or a connection was closed.
        """
        ready = self._selector.select(PATIENCE_SECONDS)
        if not ready:
            raise ProgramFailed(f"the server gave no answer in {PATIENCE_SECONDS:g} s")
        for key, _ in ready:
            for payload in key.data.receive():
                yield key.data, payload

    def has_answers(self, seconds: float) -> bool:
        """Wait for answers up to a time in seconds, precise to the microsecond; a selector counts in milliseconds."""
        ready, _, _ = select.select([self._selector], [], [], seconds)  # type: ignore[list-item] # it has a descriptor
        return bool(ready)

    def repeat(self, frame: bytes, calls: int) -> None:
        """Make the same call ``calls`` times in total, on all connections at once."""
        to_send = calls
        for caller in self._callers:
            caller.send(frame)
            to_send -= 1
        answered = 0
        while answered < calls:
            for caller, _ in self.answers():
                answered += 1
                if to_send > 0:
                    caller.send(frame)
                    to_send -= 1

    def make_in_time(
        self,
        calls: int,
        interval: float,
        next_call: Callable[[Caller], bytes],
        note: Callable[[Caller, bytes], object] = lambda *_: None,
    ) -> list[TimedCall]:
        """Make calls at fixed moments, each as soon as a connection is free; return how long they took.

        Args:
            calls: number of calls.
            interval: seconds between two of them.
            next_call: returns the next call of a connection.
            note: called with each answer.
        """
        free = list(self._callers)
        under_way: dict[Caller, tuple[float, float]] = {}  # when the call was due, and when it was sent
        sent, found = 0, list[TimedCall]()
        first = time.perf_counter() + interval
        while len(found) < calls:
            now = time.perf_counter()
            while free and sent < calls and (moment := first + sent * interval) <= now:
                caller = free.pop()
                under_way[caller] = moment, now
                caller.send(next_call(caller))
                sent += 1
                now = time.perf_counter()
            if free and sent < calls:
                left = max(first + sent * interval - now, 0.0)
                if not self.has_answers(left):
                    continue
            for caller, answer in self.answers():
                due, sent_at = under_way[caller]
                found.append(TimedCall((time.perf_counter() - due) * 1000, (sent_at - due) * 1000))
                note(caller, answer)
                free.append(caller)
        return found


def enqueue_frame(queue: str) -> bytes:
    """Return the call that enqueues one job."""
    request = PinLaterEnqueueRequest(queueName=queue, jobs=[PinLaterJob(encode_body(Nothing(number=1)))])
    return Codec().encode_call("enqueueJobs", 1, arguments_of("enqueueJobs")(RequestContext(source="bench"), request))
