"""Notify the other servers of a store that jobs of a queue have become claimable, or running ones are to stop.

Used with stores that send no notifications themselves. Servers find each other by a list in the store, and send
datagrams to each other. No message has to arrive: waiting dequeues also poll, and workers hear of jobs that are to stop
when they renew their claims, only later. A message is signed with a secret of its receiver that only users of the
database can read, so nobody else can wake dequeues.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Collection, Iterable, Sequence
from hashlib import blake2b
from hmac import compare_digest
from typing import cast

from pinlater.errors import ServiceError
from pinlater.server.backends.job_notifications import JobLocation
from pinlater.server.backends.listeners import Listener, StoreListeners
from pinlater.server.backends.poll_of_all import PollOfAll
from pinlater.server.log_rate_limit import LogRateLimit
from pinlater.server.peer_processes.cancellation_message import cancellation_messages
from pinlater.server.peer_processes.job_offers import JobOffers
from pinlater.server.peer_processes.notification_batch import NotificationBatch, notification, receive
from pinlater.server.peer_processes.peer_receiver import PeerReceiver
from pinlater.server.peer_processes.poll_message import poll_messages
from pinlater.server.peer_processes.server_rank import ServerRank

log = logging.getLogger(__name__)
log.addFilter(LogRateLimit())

MEET_SECONDS = 10.0
"""How often each server reads the list and renews its place in it."""

KEEP_MS = 30_000
"""A server that has not renewed its place in the list for this long is forgotten."""

_GREETING_GAP_SECONDS = 0.5
"""After a greeting the list is read again, but no more often than this."""

_SIGNATURE_BYTES = 16
_MOST_BYTES = 1200
"""Largest message; it fits into one packet on any network."""


class ServerNotifier(asyncio.DatagramProtocol):
    """Sends and receives job notifications between servers.

    Args:
        listeners: the list of the store's servers.
        server: name of this server, whose own processes are not notified.
        receiver: receives what they send.

    Attributes:
        offers: offers jobs to the other servers.
    """

    def __init__(self, listeners: StoreListeners, server: str, receiver: PeerReceiver) -> None:
        self._listeners = listeners
        self._receiver = receiver
        self._server_id = blake2b(server.encode(), digest_size=8).digest()
        self.own_id = self._server_id + os.urandom(8)
        self._secret = os.urandom(16)
        self._others: dict[bytes, Listener] = {}
        self._batch = NotificationBatch(self._send_to_others, _MOST_BYTES)
        self.offers = JobOffers(self, receiver)
        self._greeted = asyncio.Event()
        self._transport: asyncio.DatagramTransport | None = None

    @property
    def rank(self) -> ServerRank:
        """The rank of this server among all that are in the list."""
        others = {listener_id[: len(self._server_id)] for listener_id in self._others}
        return ServerRank(sum(other < self._server_id for other in others), len(others) + 1)

    async def run(self) -> None:
        """Exchange notifications with the other servers until cancelled; to be run as a task."""
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
            self._batch.close()
            self.offers.close()
            transport.close()

    async def _meet(self, me: Listener) -> None:
        try:
            found = await self._listeners.meet(me, KEEP_MS)
        except ServiceError as error:
            log.debug("the list of servers cannot be read: %s", error)
            return
        others = {listener.id: listener for listener in found if not listener.id.startswith(self._server_id)}
        new = [listener for listener_id, listener in others.items() if listener_id not in self._others]
        self._others = others
        for listener in new:
            self._send(b"", listener)
        if new:
            self._receiver.on_gap()

    async def _sleep(self) -> None:
        """Sleep until the list is to be read again, or another server greets."""
        self._greeted.clear()
        try:
            async with asyncio.timeout(MEET_SECONDS):
                await self._greeted.wait()
        except TimeoutError:
            return
        await asyncio.sleep(_GREETING_GAP_SECONDS)

    def notify(
        self,
        queue: str,
        due_ms: int | None = None,
        locations: Callable[[], Collection[JobLocation]] = tuple,
        count: int = 1,
    ) -> None:
        """Offer due jobs to the other servers, or notify them of jobs that fall due later; see ``NotifyOfJobs``."""
        if not self._others:
            return
        if due_ms is None:
            self.offers.offer(queue, count, locations())
        else:
            self._batch.add(queue, due_ms, locations())

    def notify_cancelled(self, descriptors: Sequence[str]) -> None:
        """Notify the other servers of jobs that are asked to stop."""
        for message in cancellation_messages(descriptors, _MOST_BYTES):
            self._send_to_others(message)

    def notify_polled(self, poll: PollOfAll, now_ms: int) -> None:
        """Tell the other servers what a poll of all queues has found."""
        for message in poll_messages(poll, now_ms, _MOST_BYTES):
            self._send_to_others(message)

    @property
    def ids(self) -> Collection[bytes]:
        """The ids of the processes of other servers."""
        return self._others

    def send(self, message: bytes, to: bytes) -> None:
        """Send a message to one of them."""
        listener = self._others.get(to)
        if listener is not None:
            self._send(message, listener)

    def announce(self, queue: str, locations: Collection[JobLocation], to: Iterable[bytes]) -> None:
        """Notify some of them of due jobs."""
        message = notification(queue, None, locations)
        for peer in to:
            self.send(message, peer)

    def announce_to_all(self, queue: str, locations: Collection[JobLocation]) -> None:
        """Notify all of them of due jobs, together with all other notifications of the next few milliseconds."""
        self._batch.add(queue, None, locations)

    def _send_to_others(self, message: bytes) -> None:
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
            return
        if not message:
            self._greeted.set()
        try:
            if not self.offers.receive(message):
                receive(message, self._receiver)
        except ValueError:
            log.debug("a message of another version of the server was dropped")

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
