"""A ``PeerReceiver`` that remembers what it hears, and takes no job on offer; and servers that are such receivers."""

import asyncio
from contextlib import suppress

from pinlater.server.backends.datagram_network import DatagramNetwork
from pinlater.server.backends.listeners import StoreListeners
from pinlater.server.peer_processes.server_notifier import ServerNotifier


class Receiver:
    """What a process has heard from others.

    Attributes:
        heard: queues that have new jobs, and when they fall due.
        locations: where those are.
        gaps: how often notifications may have been missed.
        cancelled: running jobs that are asked to stop.
        polls: what others have found.
    """

    def __init__(self):
        self.heard = []
        self.locations = set()
        self.gaps = 0
        self.cancelled = []
        self.polls = []

    def on_remote_jobs(self, queue, due_ms, locations):
        self.heard.append((queue, due_ms))
        self.locations.update(locations)

    def on_gap(self):
        self.gaps += 1

    def on_cancelled(self, descriptors):
        self.cancelled += descriptors

    def on_poll(self, news):
        self.polls.append(news)

    def take_jobs(self, queue, _count, locations):
        self.on_remote_jobs(queue, None, locations)
        return 0

    def sees_to(self, _queue, _due_ms):
        return False


class ServerList:
    """The list in the store."""

    def __init__(self):
        self.listeners = {}
        self.meetings = 0
        self.error = None

    async def meet(self, me, keep_ms):
        self.meetings += 1
        if self.error is not None:
            raise self.error
        self.listeners[me.id] = me
        return [listener for listener in self.listeners.values() if listener.id != me.id]


class Server(Receiver):
    """A server's process, and what it heard."""

    def __init__(self, store, name):
        super().__init__()
        self.network = DatagramNetwork(StoreListeners(("127.0.0.1", 3306), store.meet), name)
        self.notifier = ServerNotifier(self.network, self)
        self.task = asyncio.ensure_future(self.notifier.run())

    @property
    def others(self):
        return len(self.network.ids)

    async def leave(self):
        self.task.cancel()
        with suppress(asyncio.CancelledError):
            await self.task
