"""Accepts the connections of a listener that several processes share."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable

from pinlater.server.peer_processes.connection_balancer import Turns

log = logging.getLogger(__name__)

LOOK_SECONDS = 0.002
PATIENCE_LOOKS = 5
"""One whose turn it is may be busy or dead; after so many looks a connection is taken by whoever is there."""

_FAILURE_SECONDS = 1.0


class Acceptor:
    """Takes connections when it is this process's turn.

    The event loop's own way is to accept all that wait as soon as it is awake; so one process would have nearly all
    connections, and the others nothing to do.

    Args:
        listener: not blocking.
        connected: makes the protocol of a connection.
        turns: of the processes.
    """

    def __init__(self, listener: socket.socket, connected: Callable[[], asyncio.Protocol], turns: Turns) -> None:
        self._loop = asyncio.get_running_loop()
        self._listener = listener
        self._connected = connected
        self._turns = turns
        self._looks = 0
        self._looked_at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._making: set[asyncio.Task[object]] = set()
        self._loop.add_reader(listener, self._look)

    @property
    def making(self) -> int:
        """How many connections were accepted, and have no protocol yet."""
        return len(self._making)

    def close(self) -> None:
        """Accept no more."""
        self._loop.remove_reader(self._listener)
        if self._timer is not None:
            self._timer.cancel()
        self._listener.close()

    def _look(self) -> None:
        if self._gives_way():
            self._pause(LOOK_SECONDS)
            return
        self._looks = 0
        try:
            peer, _ = self._listener.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return  # another process was quicker, or the peer has gone
        except OSError as error:
            log.error("no connection can be accepted now: %s", error)  # noqa: TRY400 - no descriptors left, say
            self._pause(_FAILURE_SECONDS)
            return
        peer.setblocking(False)
        task: asyncio.Task[object] = self._loop.create_task(self._made(peer))
        self._making.add(task)
        task.add_done_callback(self._making.discard)
        self._turns.show()

    def _gives_way(self) -> bool:
        now = self._loop.time()
        if now - self._looked_at > LOOK_SECONDS * PATIENCE_LOOKS:
            self._looks = 0  # somebody took the one that this process gave way for
        self._looked_at = now
        self._looks += 1
        return self._looks <= PATIENCE_LOOKS and not self._turns.is_ours()

    async def _made(self, peer: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self._connected, peer)
        except OSError as error:
            log.debug("a connection was lost before it was served: %s", error)
            peer.close()

    def _pause(self, seconds: float) -> None:
        self._loop.remove_reader(self._listener)
        self._timer = self._loop.call_later(seconds, self._go_on)

    def _go_on(self) -> None:
        self._loop.add_reader(self._listener, self._look)
