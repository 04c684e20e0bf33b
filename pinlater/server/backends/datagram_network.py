"""A network of datagrams, for stores that cannot pass messages on: servers find each other by a list in the store.

A message is signed with a secret of its receiver that only users of the database can read, so nobody else can wake
dequeues.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Collection
from hashlib import blake2b
from hmac import compare_digest
from typing import cast

from pinlater.errors import ServiceError
from pinlater.server.backends.listeners import Listener, StoreListeners
from pinlater.server.backends.server_network import new_process_id, server_of
from pinlater.server.log_rate_limit import LogRateLimit

log = logging.getLogger(__name__)
log.addFilter(LogRateLimit())

MEET_SECONDS = 10.0
"""How often each server reads the list and renews its place in it."""

KEEP_MS = 30_000
"""A server that has not renewed its place in the list for this long is forgotten."""

_GREETING_GAP_SECONDS = 0.5
"""After a greeting the list is read again, but no more often than this."""

_SIGNATURE_BYTES = 16


class DatagramNetwork(asyncio.DatagramProtocol):
    """Sends datagrams to the servers of a list; see ``ServerNetwork``.

    Args:
        listeners: the list of the store's servers.
        server: name of this server, whose own processes get no messages.
    """

    def __init__(self, listeners: StoreListeners, server: str) -> None:
        self.own_id = new_process_id(server)
        self._listeners = listeners
        self._secret = os.urandom(16)
        self._others: dict[bytes, Listener] = {}
        self._greeted = asyncio.Event()
        self._transport: asyncio.DatagramTransport | None = None
        self._receive: Callable[[bytes], None] = lambda _: None
        self._on_met: Callable[[], None] = lambda: None

    @property
    def ids(self) -> Collection[bytes]:
        return self._others

    async def run(self, receive: Callable[[bytes], None], on_met: Callable[[], None]) -> None:
        self._receive, self._on_met = receive, on_met
        loop = asyncio.get_running_loop()
        host = await loop.run_in_executor(None, local_address, *self._listeners.database)
        if host is None:
            log.warning("no address at which other servers could reach this one; waiting dequeues poll for their jobs")
            return
        transport, _ = await loop.create_datagram_endpoint(lambda: self, (host, 0))
        self._transport = transport
        try:
            address = transport.get_extra_info("sockname")
            me = Listener(self.own_id, address[0], address[1], self._secret)
            while True:
                await self._meet(me)
                await self._sleep()
        finally:
            transport.close()

    async def _meet(self, me: Listener) -> None:
        try:
            found = await self._listeners.meet(me, KEEP_MS)
        except ServiceError as error:
            log.debug("the list of servers cannot be read: %s", error)
            return
        own_server = server_of(self.own_id)
        others = {listener.id: listener for listener in found if server_of(listener.id) != own_server}
        new = [listener for listener_id, listener in others.items() if listener_id not in self._others]
        self._others = others
        for listener in new:
            self._send(b"", listener)
        if new:
            self._on_met()

    async def _sleep(self) -> None:
        """Sleep until the list is to be read again, or another server greets."""
        self._greeted.clear()
        try:
            async with asyncio.timeout(MEET_SECONDS):
                await self._greeted.wait()
        except TimeoutError:
            return
        await asyncio.sleep(_GREETING_GAP_SECONDS)

    def send(self, message: bytes, to: bytes) -> None:
        listener = self._others.get(to)
        if listener is not None:
            self._send(message, listener)

    def send_to_all(self, message: bytes) -> None:
        for listener in self._others.values():
            self._send(message, listener)

    def _send(self, message: bytes, to: Listener) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        try:
            self._transport.sendto(_signature(message, to.secret) + message, (to.host, to.port))
        except ValueError as error:  # from uvloop, for an address of the other IP version: that server has to poll
            self.error_received(error)

    # Called by the loop

    def datagram_received(self, data: bytes, _: tuple[str | int, ...]) -> None:
        signature, message = data[:_SIGNATURE_BYTES], data[_SIGNATURE_BYTES:]
        if not compare_digest(signature, _signature(message, self._secret)):
            log.debug("a message that no server of this store has signed was dropped")
        elif message:
            self._receive(message)
        else:
            self._greeted.set()

    def error_received(self, error: Exception) -> None:
        log.debug("a server was not notified: %s", error)


def local_address(host: str, port: int) -> str | None:
    """Return the address from which this machine reaches another one; None: it cannot reach it."""
    try:
        [(family, *_, address), *_] = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect(address)  # sends nothing
            return cast("str", probe.getsockname()[0])
    except OSError:
        return None


def _signature(message: bytes, secret: bytes) -> bytes:
    return blake2b(message, digest_size=_SIGNATURE_BYTES, key=secret).digest()
