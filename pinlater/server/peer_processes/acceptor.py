"""Accept connections of a listener that several processes share."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable

from pinlater.server.peer_processes.connection_balancer import ConnectionBalancer

log = logging.getLogger(__name__)

RETRY_SECONDS = 0.002
MAX_DEFERRALS = 5
"""The process with the fewest connections may be busy or dead: after this many deferrals, any process accepts."""

_FAILURE_SECONDS = 1.0


class Acceptor:
    """Accepts a connection when this process has the fewest.

    An event loop by itself accepts every pending connection as soon as it wakes, so one process would get nearly all
    connections and leave the others idle.

    Args:
        listener: a non-blocking socket.
        connected: creates the protocol of a connection.
        balancer: decides which process accepts.
    """

    def __init__(
        self, listener: socket.socket, connected: Callable[[], asyncio.Protocol], balancer: ConnectionBalancer
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._listener = listener
        self._connected = connected
        self._balancer = balancer
        self._deferrals = 0
        self._resumed_at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._pending: set[asyncio.Task[object]] = set()
        self._loop.add_reader(listener, self._accept)

    @property
    def pending(self) -> int:
        """The number of accepted connections that have no protocol yet."""
        return len(self._pending)

    def close(self) -> None:
        """Stop accepting connections."""
        self._loop.remove_reader(self._listener)
        if self._timer is not None:
            self._timer.cancel()
        self._listener.close()

    def _accept(self) -> None:
        if self._defers():
            self._pause(RETRY_SECONDS)
            return
        self._deferrals = 0
        try:
            peer, _ = self._listener.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return  # another process accepted it first, or the peer has gone
        except OSError as error:
            log.error("cannot accept connections now, retrying: %s", error)  # noqa: TRY400 - such as no descriptors left
            self._pause(_FAILURE_SECONDS)
            return
        peer.setblocking(False)
        task: asyncio.Task[object] = self._loop.create_task(self._hand_over(peer))
        self._pending.add(task)
        task.add_done_callback(self._pending.discard)
        self._balancer.publish()

    def _defers(self) -> bool:
        if self._loop.time() - self._resumed_at > RETRY_SECONDS * MAX_DEFERRALS:
            self._deferrals = 0  # another process accepted the connection that this one deferred
        self._deferrals += 1
        return self._deferrals <= MAX_DEFERRALS and not self._balancer.should_accept()

    async def _hand_over(self, peer: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self._connected, peer)
        except OSError as error:
            log.debug("a connection closed before it was served: %s", error)
            peer.close()

    def _pause(self, seconds: float) -> None:
        self._loop.remove_reader(self._listener)
        self._timer = self._loop.call_later(seconds, self._resume)

    def _resume(self) -> None:
        self._resumed_at = self._loop.time()  # now: on a busy machine, the pause may have been any time
        self._loop.add_reader(self._listener, self._accept)
