"""Assemble the components of a server process, and list its background tasks."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Coroutine, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from pinlater.server.admin.reporter import ReportServer
from pinlater.server.api.overload import LoadShedder
from pinlater.server.api.service import Service
from pinlater.server.backends.claim_names import ClaimNames
from pinlater.server.backends.statistics_buffer import StatisticsBuffer
from pinlater.server.background.lost_workers import LostWorkers
from pinlater.server.background.monitor import Monitor
from pinlater.server.background.queue_sampler import QueueSampler, follow_completions, forget_missing_queues
from pinlater.server.background.report_sampler import ReportSampler
from pinlater.server.background.sampling import sample_repeatedly, sample_reports
from pinlater.server.background.statistics_writer import StatisticsWriter
from pinlater.server.background.store_sampler import StoreSampler
from pinlater.server.background.workers_needed import WorkersNeededSampler
from pinlater.server.broker import Broker
from pinlater.server.config.kept_contents import NOTHING_KEPT, KeptContents
from pinlater.server.config.settings import Settings, warning_thresholds
from pinlater.server.limits.files import RateLimitFiles
from pinlater.server.limits.leased_bucket import LeasedBucket
from pinlater.server.limits.rate_limits import RateLimits
from pinlater.server.limits.stored_limits import StoredLimits
from pinlater.server.metrics import Metrics
from pinlater.server.net.certificates import Certificates
from pinlater.server.net.thrift_server import ThriftServer
from pinlater.server.peer_processes.leader_lock import run_as_leader
from pinlater.server.peer_processes.process_notifier import ProcessNotifier
from pinlater.server.peer_processes.server_notifier import ServerNotifier
from pinlater.server.peer_processes.server_rank import ServerRank
from pinlater.server.stores import OpenedStore


class ProcessConfig(NamedTuple):
    """What a server process is started with.

    Attributes:
        settings: the settings of the server.
        listeners: sockets that all server processes share; the first is the TCP port.
        certificates: for TLS on the port; None: no TLS.
        folder: the private folder of the server's processes.
        slot: number of this process among them.
        kept: contents of files that the server's processes have used.
    """

    settings: Settings
    listeners: Sequence[socket.socket]
    certificates: Certificates | None
    folder: Path
    slot: int
    kept: KeptContents = NOTHING_KEPT

    @property
    def is_one_of_several(self) -> bool:
        """Whether several processes serve the same port."""
        return self.settings.server_processes > 1


class Components(NamedTuple):
    """The components of a server process.

    Attributes:
        metrics: the metrics of this process.
        store: holds the jobs.
        broker: hands them out.
        stored: queue settings of the store.
        files: rate limits from files, which override those of the store.
        server: accepts connections and their calls.
        statistics: statistics that came with acks, to be written to the store.
        lost_workers: marks workers whose connections ended without notice.
    """

    metrics: Metrics
    store: OpenedStore
    broker: Broker
    stored: StoredLimits
    files: RateLimitFiles
    server: ThriftServer
    statistics: StatisticsBuffer
    lost_workers: LostWorkers


def assemble(config: ProcessConfig, store: OpenedStore, metrics: Metrics) -> Components:
    """Assemble the components around an open store.

    Raises:
        ConfigError: a file of limits or a certificate cannot be used.
    """
    settings, backend = config.settings, store.backend
    limits = (
        RateLimits()
        if store.acquire_tokens is None
        else RateLimits(new_bucket=partial(LeasedBucket, store.acquire_tokens))
    )
    broker = Broker(backend, limits, metrics.store_seconds.observe, store.poll_all)
    store.notifications.on_claimable = broker.on_claimable
    files = RateLimitFiles(settings, limits, broker.wake_all, is_divided=store.acquire_tokens is None, kept=config.kept)
    stored = StoredLimits(backend, files, broker.on_deleted)
    statistics = StatisticsBuffer()
    service = Service(
        broker,
        stored,
        load_shedder=LoadShedder(lambda: backend.waiting, settings.max_store_waiting, metrics),
        settings=settings,
        claims=ClaimNames(os.uname().nodename, config.listeners[0].getsockname()[1], backend.now_ms(), config.slot),
        metrics=metrics,
        statistics=statistics,
    )
    if config.certificates is not None:
        config.certificates.reload_if_changed()
    lost_workers = LostWorkers(backend)
    server = ThriftServer(service, settings, metrics, config.certificates, lost_workers.connection_ended)
    components = Components(metrics, store, broker, stored, files, server, statistics, lost_workers)
    _connect_gauges(components)
    return components


def _connect_gauges(components: Components) -> None:
    """Set where the gauges read their values."""
    metrics, backend = components.metrics, components.store.backend
    metrics.connections.source = lambda: components.server.connections
    metrics.parked_dequeues.source = lambda: components.broker.parked_dequeues
    metrics.store_waiting.source = lambda: backend.waiting
    metrics.unhealthy_shards.source = lambda: backend.unhealthy_shards


def reporter_of(config: ProcessConfig, components: Components) -> ReportServer:
    """Create the server that reports metrics and health of this process to the admin process."""
    return ReportServer(
        config.folder,
        components.metrics,
        lambda: "the server is stopping" if components.server.is_draining else components.store.backend.fault,
        components.store.backend.shard_states,
    )


def server_notifier_of(config: ProcessConfig, components: Components) -> ServerNotifier | None:
    """Create the notifier of the other servers; None: they are not notified."""
    network, broker = components.store.network, components.broker
    if network is None:
        return None
    notifier = ServerNotifier(network(f"{os.uname().nodename}:{config.folder}"), broker)
    broker.notifiers.append(notifier)
    broker.offers = notifier.offers
    return notifier


def process_notifier_of(config: ProcessConfig, components: Components) -> ProcessNotifier:
    """Create the notifier of the other processes of this server."""
    broker = components.broker
    notifier = ProcessNotifier(config.folder, broker)
    broker.notifiers.append(notifier)
    return notifier


def background_tasks(config: ProcessConfig, components: Components) -> Iterator[Coroutine[Any, Any, None]]:
    """Yield the background tasks; what one process does for all of them runs in the leader only."""
    settings, metrics, backend = config.settings, components.metrics, components.store.backend
    seconds = settings.queue_metrics_seconds
    queues = QueueSampler(backend, metrics, components.broker.is_paused)
    store = StoreSampler(backend, metrics)
    of_reports = WorkersNeededSampler(metrics).sample, ReportSampler(metrics, backend.now_ms).sample
    samples = queues.sample, store.sample, partial(sample_reports, backend, of_reports)

    async def sample() -> None:
        """Sample what concerns the whole server in one process, since pages sum the values of all processes."""
        if config.certificates is not None:
            metrics.certificate_expiry.source = lambda: config.certificates.expires_at
        for key, value in warning_thresholds(settings).items():
            metrics.warning_threshold.set(key, value)
        await asyncio.gather(*(sample_repeatedly(take, seconds) for take in samples))

    yield run_as_leader(config.folder / "sampler.lock", sample)
    notifier = server_notifier_of(config, components)
    monitor = Monitor(
        backend,
        components.broker,
        settings,
        metrics,
        components.statistics,
        rank=ServerRank if notifier is None else lambda: notifier.rank,
    )
    yield run_as_leader(config.folder / "monitor.lock", monitor.run)
    yield follow_completions(metrics, seconds)
    yield StatisticsWriter(backend, metrics, components.statistics).run()
    yield forget_missing_queues(components.stored.queue_names, metrics, seconds)
    yield components.lost_workers.run()
    yield components.stored.watch()
    yield from components.files.watchers()
    yield from components.store.tasks
    if notifier is not None:
        yield notifier.run()
    if config.certificates is not None:
        yield from config.certificates.watchers()
