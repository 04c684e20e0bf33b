"""The parts of a server process, put together: what asks whom, and what runs beside the calls."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Coroutine, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from pinlater.server.admin.reporter import Reporter
from pinlater.server.api.overload import Overload
from pinlater.server.api.service import Service
from pinlater.server.backends.claim_names import ClaimNames
from pinlater.server.background.monitor import Monitor
from pinlater.server.background.queue_sampler import QueueWatch, follow_completions, forget_missing_queues
from pinlater.server.background.store_sampler import StoreWatch
from pinlater.server.broker import Broker
from pinlater.server.config.settings import Settings
from pinlater.server.limits.files import LimitsFiles
from pinlater.server.limits.leased_bucket import LeasedBucket
from pinlater.server.limits.rate_limits import RateLimits
from pinlater.server.limits.stored_limits import StoredLimits
from pinlater.server.metrics import Metrics
from pinlater.server.net.certificates import Certificates
from pinlater.server.net.transport import Transport
from pinlater.server.peer_processes.job_notifier import Bell
from pinlater.server.peer_processes.leader_lock import when_on_duty
from pinlater.server.stores import OpenedStore


class Given(NamedTuple):
    """What a server process is started with.

    Attributes:
        settings: of the server.
        listeners: clients connect to them, the first is the TCP port; all server processes share them.
        certificates: for TLS on the port; None: it is plain.
        folder: shared with the other processes of this server, and with nobody else.
        slot: number of this process among them.
    """

    settings: Settings
    listeners: Sequence[socket.socket]
    certificates: Certificates | None
    folder: Path
    slot: int

    @property
    def is_one_of_several(self) -> bool:
        """Whether other processes serve the same port."""
        return self.settings.server_processes > 1


class Parts(NamedTuple):
    """A server process, ready to serve.

    Attributes:
        metrics: what it counts.
        store: where the jobs are.
        broker: hands them out.
        stored: limits of queues that are kept in the store.
        files: limits of queues that are kept in files, which win.
        transport: takes the calls.
    """

    metrics: Metrics
    store: OpenedStore
    broker: Broker
    stored: StoredLimits
    files: LimitsFiles
    transport: Transport


def assemble(given: Given, store: OpenedStore, metrics: Metrics) -> Parts:
    """Put the parts around an open store.

    Raises:
        ConfigError: a file of limits or a certificate is not usable.
    """
    settings, backend, now_ms = given.settings, store.backend, store.now_ms
    limits = (
        RateLimits()
        if store.acquire_tokens is None
        else RateLimits(new_bucket=partial(LeasedBucket, store.acquire_tokens))
    )
    broker = Broker(backend, limits, now_ms, metrics.store_seconds.observe)
    store.notifications.on_job, store.notifications.on_gap = broker.heard, broker.look_again
    files = LimitsFiles(settings, limits, broker.look_again, is_divided=store.acquire_tokens is None)
    stored = StoredLimits(backend, files)
    service = Service(
        backend,
        broker,
        stored,
        overload=Overload(lambda: backend.waiting, settings.max_store_waiting, metrics),
        settings=settings,
        claims=ClaimNames(os.uname().nodename, given.listeners[0].getsockname()[1], now_ms(), given.slot),
        metrics=metrics,
        now_ms=now_ms,
    )
    if given.certificates is not None:
        given.certificates.look()
    transport = Transport(service, settings, metrics, given.certificates)
    parts = Parts(metrics, store, broker, stored, files, transport)
    _show(parts)
    return parts


def _show(parts: Parts) -> None:
    """Let the gauges ask those who know."""
    metrics, backend = parts.metrics, parts.store.backend
    metrics.connections.source = lambda: parts.transport.connections
    metrics.parked_dequeues.source = lambda: parts.broker.parked_dequeues
    metrics.store_waiting.source = lambda: backend.waiting
    metrics.ill_shards.source = lambda: backend.unhealthy_shards


def reporter_of(given: Given, parts: Parts) -> Reporter:
    """Return what tells the admin process how this one is."""
    return Reporter(
        given.folder,
        parts.metrics,
        lambda: "the server is stopping" if parts.transport.is_draining else parts.store.backend.fault,
        parts.store.backend.shard_states,
    )


def bell_of(given: Given, parts: Parts) -> Bell:
    """Return what tells the other processes of this server of new jobs, where their store does not."""
    bell = Bell(given.folder, parts.broker.heard)
    parts.broker.tell_others = bell.tell
    return bell


def chores(given: Given, parts: Parts) -> Iterator[Coroutine[Any, Any, None]]:
    """Yield what has to run beside the calls; what one process does for all of them, only where it is on duty."""
    settings, metrics, backend = given.settings, parts.metrics, parts.store.backend
    seconds = settings.queue_metrics_seconds
    queues = QueueWatch(backend, metrics, parts.store.now_ms, seconds, parts.broker.is_paused)
    store = StoreWatch(backend, metrics, seconds)

    async def show() -> None:
        """Show what holds for the server as a whole, from one process: the pages add up what all of them say."""
        if given.certificates is not None:
            metrics.certificate_expiry.source = lambda: given.certificates.expires_at
        await asyncio.gather(queues.run(), store.run())

    yield when_on_duty(given.folder / "watch.lock", show)
    yield when_on_duty(given.folder / "monitor.lock", Monitor(backend, parts.broker, settings, metrics).run)
    yield follow_completions(metrics, seconds)
    yield forget_missing_queues(backend, metrics, seconds)
    yield parts.stored.watch()
    yield from parts.files.watches()
    yield from parts.store.tasks
    if given.certificates is not None:
        yield from given.certificates.watches()
