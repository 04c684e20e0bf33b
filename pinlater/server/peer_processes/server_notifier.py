"""Notify the other servers of a store that jobs of a queue have become claimable, or running ones are to stop.

No message has to arrive: waiting dequeues also poll, and workers hear of jobs that are to stop when they renew their
claims, only later.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Sequence

from pinlater.server.backends.job_notifications import JobLocation
from pinlater.server.backends.poll_of_all import PollOfAll
from pinlater.server.backends.server_network import ServerNetwork, server_of
from pinlater.server.peer_processes.cancellation_message import cancellation_messages
from pinlater.server.peer_processes.job_offers import JobOffers
from pinlater.server.peer_processes.notification_batch import NotificationBatch, notification, receive
from pinlater.server.peer_processes.peer_receiver import PeerReceiver
from pinlater.server.peer_processes.poll_message import poll_messages
from pinlater.server.peer_processes.server_rank import ServerRank

log = logging.getLogger(__name__)

_MOST_BYTES = 1200
"""Largest message; as a datagram, it fits into one packet on any network."""


class ServerNotifier:
    """Sends and receives job notifications between servers.

    Args:
        network: reaches the other servers.
        receiver: receives what they send.

    Attributes:
        offers: offers jobs to the other servers.
    """

    def __init__(self, network: ServerNetwork, receiver: PeerReceiver) -> None:
        self._network = network
        self._receiver = receiver
        self._batch = NotificationBatch(network.send_to_all, _MOST_BYTES)
        self.offers = JobOffers(self, receiver)

    @property
    def rank(self) -> ServerRank:
        """The rank of this server among all that are known."""
        own = server_of(self.own_id)
        others = {server_of(other) for other in self._network.ids}
        return ServerRank(sum(other < own for other in others), len(others) + 1)

    async def run(self) -> None:
        """Exchange notifications with the other servers until cancelled; to be run as a task."""
        try:
            await self._network.run(self._receive, self._receiver.on_gap)
        finally:
            self._batch.close()
            self.offers.close()

    def _receive(self, message: bytes) -> None:
        try:
            if not self.offers.receive(message):
                receive(message, self._receiver)
        except ValueError:
            log.debug("a message of another version of the server was dropped")

    def notify(
        self,
        queue: str,
        due_ms: int | None = None,
        locations: Callable[[], Collection[JobLocation]] = tuple,
        count: int | None = 1,
    ) -> None:
        """Offer due jobs to the other servers, or notify them of jobs that fall due later; see ``PeerNotifier``."""
        if not self._network.ids:
            return
        if due_ms is None:
            self.offers.offer(queue, count, locations())
        else:
            self._batch.add(queue, due_ms, locations())

    def notify_cancelled(self, descriptors: Sequence[str]) -> None:
        """Notify the other servers of jobs that are asked to stop."""
        for message in cancellation_messages(descriptors, _MOST_BYTES):
            self._network.send_to_all(message)

    def notify_polled(self, poll: PollOfAll, now_ms: int) -> None:
        """Tell the other servers what a poll of all queues has found."""
        for message in poll_messages(poll, now_ms, _MOST_BYTES):
            self._network.send_to_all(message)

    # What ``JobOffers`` needs

    @property
    def own_id(self) -> bytes:
        """The id of this process."""
        return self._network.own_id

    @property
    def ids(self) -> Collection[bytes]:
        """The ids of the processes of other servers."""
        return self._network.ids

    def send(self, message: bytes, to: bytes) -> None:
        """Send a message to one of them."""
        self._network.send(message, to)

    def announce(self, queue: str, locations: Collection[JobLocation], to: Iterable[bytes]) -> None:
        """Notify some of them of due jobs."""
        message = notification(queue, None, locations)
        for peer in to:
            self._network.send(message, peer)

    def announce_to_all(self, queue: str, locations: Collection[JobLocation]) -> None:
        """Notify all of them of due jobs, together with all other notifications of the next few milliseconds."""
        self._batch.add(queue, None, locations)
