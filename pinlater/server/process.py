"""The server process: everything is put together here, and taken apart again when it drains."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import sys
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

from pinlater_supervisor import Child

from pinlater import __version__
from pinlater.errors import EXIT_CONFIG, ConfigError
from pinlater.server.broker import Broker
from pinlater.server.certificates import Certificates
from pinlater.server.claims import ClaimNames
from pinlater.server.limits_files import LimitsFiles
from pinlater.server.listeners import address_of
from pinlater.server.metrics import Metrics
from pinlater.server.monitor import Monitor
from pinlater.server.overload import Overload
from pinlater.server.queue_watch import QueueWatch, follow_completions
from pinlater.server.rate_limits import RateLimits
from pinlater.server.reporter import Reporter
from pinlater.server.service import Service
from pinlater.server.settings import Settings
from pinlater.server.siblings.bell import Bell
from pinlater.server.siblings.duty import when_on_duty
from pinlater.server.siblings.shared_bucket import SharedBucket
from pinlater.server.stored_limits import StoredLimits
from pinlater.server.stores import Store, open_store
from pinlater.server.transport import Transport

log = logging.getLogger("pinlater.server")

SWITCH_INTERVAL_SECONDS = 0.0005
"""The writer thread and the event loop pass the interpreter lock to and fro; the default of 5 ms would stall both."""


def run(
    child: Child,
    settings: Settings,
    listeners: Sequence[socket.socket],
    certificates: Certificates | None,
    folder: Path,
) -> int:
    """Serve until the supervisor asks to stop; return the exit code.

    Args:
        child: this process.
        settings: of the server.
        listeners: clients connect to them, the first is the TCP port; all server processes share them.
        certificates: for TLS on the port; None: it is plain.
        folder: shared with the other processes of this server, and with nobody else.
    """
    sys.setswitchinterval(SWITCH_INTERVAL_SECONDS)
    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            runner.run(_serve(child, settings, listeners, certificates, folder))
    except ConfigError as error:
        sys.stderr.write(f"pinlater-server: {error}\n")
        return EXIT_CONFIG
    return 0


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:  # no wheel for this platform: the standard loop does the same, a fifth slower
        return None
    return uvloop.new_event_loop


async def _serve(
    child: Child,
    settings: Settings,
    listeners: Sequence[socket.socket],
    certificates: Certificates | None,
    folder: Path,
) -> None:
    async with AsyncExitStack() as stack:
        metrics, is_one_of_several = Metrics(), settings.server_processes > 1
        store = await open_store(settings, metrics)
        backend, now_ms = store.backend, store.now_ms
        stack.push_async_callback(backend.close)
        limits = RateLimits(new_bucket=partial(SharedBucket, folder)) if is_one_of_several else RateLimits()
        broker = Broker(backend, limits, now_ms, metrics.store_seconds.observe)
        store.arrivals.on_arrival, store.arrivals.on_gap = broker.heard, broker.look_again
        host, port = os.uname().nodename, listeners[0].getsockname()[1]
        files = LimitsFiles(settings, limits, broker.look_again)
        stored = StoredLimits(backend, files)
        service = Service(
            backend,
            broker,
            stored,
            overload=Overload(lambda: backend.waiting, settings.max_store_waiting, metrics),
            settings=settings,
            claims=ClaimNames(host, port, now_ms(), child.slot),
            metrics=metrics,
            now_ms=now_ms,
        )
        if certificates is not None:
            certificates.look()
        transport = Transport(service, settings, metrics, certificates)
        _show(metrics, transport, broker, store)
        await stored.learn()  # or a paused queue might hand out jobs for a moment
        if is_one_of_several and not store.tells_servers:
            stack.callback(_wake_siblings(folder, broker).close)
        reporter = Reporter(
            folder,
            metrics,
            lambda: "the server is stopping" if transport.is_draining else None,
            backend.shard_states,
        )
        await reporter.start()
        stack.push_async_callback(reporter.close)
        monitoring = when_on_duty(folder / "monitor.lock", Monitor(backend, broker, settings, metrics).run)
        watches = certificates.watches() if certificates is not None else ()
        watching = _watching(store, metrics, settings, certificates, folder)
        for task in (*watching, monitoring, stored.watch(), *files.watches(), *store.tasks, *watches):
            await stack.enter_async_context(_running(task))
        if is_one_of_several:
            transport.share(listeners, folder / "turns", child.slot)
        else:
            await transport.listen(*listeners)
        child.ready()
        scheme = "tls://" if certificates is not None else ""
        log.info(
            "pinlater-server %s ready on %s%s (store %s)",
            __version__,
            scheme,
            address_of(listeners[0]),
            store.description,
        )
        await until_stopped(child)
        log.info("stopping: answering what is in flight")
        broker.end_waits()
        await transport.drain(asyncio.get_running_loop().time() + settings.drain_seconds)
    log.info("stopped")


def _show(metrics: Metrics, transport: Transport, broker: Broker, store: Store) -> None:
    """Let the gauges ask those who know."""
    metrics.connections.source = lambda: transport.connections
    metrics.parked_dequeues.source = lambda: broker.parked_dequeues
    metrics.store_waiting.source = lambda: store.backend.waiting
    metrics.ill_shards.source = lambda: store.backend.ill_shards


def _watching(
    store: Store, metrics: Metrics, settings: Settings, certificates: Certificates | None, folder: Path
) -> tuple[Coroutine[Any, Any, None], ...]:
    """Return what keeps the metrics right that are not counted on the way."""
    seconds = settings.queue_metrics_seconds
    watch = QueueWatch(store.backend, metrics, store.now_ms, seconds)

    async def show() -> None:
        """Show what holds for the server as a whole, from one process: the pages add up what all of them say."""
        if certificates is not None:
            metrics.certificate_expiry.source = lambda: certificates.expires_at
        await watch.run()

    return when_on_duty(folder / "watch.lock", show), follow_completions(metrics, seconds)


def _wake_siblings(folder: Path, broker: Broker) -> Bell:
    bell = Bell(folder, broker.heard)
    broker.tell_others = bell.tell
    bell.start()
    return bell


@contextlib.asynccontextmanager
async def _running(work: Any) -> Any:
    task = asyncio.create_task(work)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait([task])


async def until_stopped(child: Child) -> None:
    """Show life from the loop that does the work, so that the supervisor notices when it hangs."""
    stop = _stop_event(child)
    while not stop.is_set():
        child.beat()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1.0):
                await stop.wait()


def _stop_event(child: Child) -> asyncio.Event:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def heard() -> None:
        loop.remove_reader(child.wakeup_fd)
        stop.set()

    loop.add_reader(child.wakeup_fd, heard)
    return stop
