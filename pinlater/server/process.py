"""Run a server process: start, serve, drain, end."""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack

from pinlater_supervisor import Child

from pinlater import __version__
from pinlater.errors import EXIT_CONFIG, EXIT_UNAVAILABLE, ConfigError
from pinlater.logs import report_startup_error
from pinlater.server.backends.unavailable import StoreUnavailable
from pinlater.server.child_loop import heartbeats, until_stopped
from pinlater.server.components import (
    Components,
    ProcessConfig,
    assemble,
    background_tasks,
    process_notifier_of,
    reporter_of,
)
from pinlater.server.memory_allocator import return_large_blocks
from pinlater.server.metrics import Metrics
from pinlater.server.net.listeners import address_of
from pinlater.server.net.thrift_server import ThriftServer
from pinlater.server.peer_processes.private_folder import restore_folder
from pinlater.server.stores import open_store

log = logging.getLogger("pinlater.server")

SWITCH_INTERVAL_SECONDS = 0.0005
"""The writer thread and the event loop alternate on the interpreter lock; the default of 5 ms would stall both."""

GARBAGE_THRESHOLD = 10_000
"""How many more objects are made than freed before the garbage collector looks at the young ones; by default 700 or
2,000. Under load, calls hold some thousand objects at a time and free them without it, so it would find nothing.
"""


def run(child: Child, config: ProcessConfig) -> int:
    """Serve until the supervisor asks to stop; return the exit status.

    Args:
        child: this process.
        config: what it is started with.
    """
    return_large_blocks()
    sys.setswitchinterval(SWITCH_INTERVAL_SECONDS)
    gc.set_threshold(GARBAGE_THRESHOLD)
    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            runner.run(_serve(child, config))
    except ConfigError as error:
        report_startup_error("pinlater-server", str(error))
        return EXIT_UNAVAILABLE if isinstance(error, StoreUnavailable) else EXIT_CONFIG
    return 0


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:  # no wheel for this platform: asyncio's own loop works too, a fifth slower
        return None
    return uvloop.new_event_loop


async def _serve(child: Child, config: ProcessConfig) -> None:
    restore_folder(config.folder)
    async with AsyncExitStack() as stack:
        metrics = Metrics()
        store = await open_store(config.settings, metrics, config.kept)
        stack.push_async_callback(store.backend.close)
        components = assemble(config, store, metrics)
        await components.stored.load_initial()  # before serving, or a paused queue might hand out jobs
        if config.is_one_of_several:
            notifier = process_notifier_of(config, components)
            stack.callback(notifier.close)
            notifier.start()
        reporter = reporter_of(config, components)
        await reporter.start()
        stack.push_async_callback(reporter.close)
        # A background task that fails ends the process with an error, and the supervisor replaces it: without its
        # monitor, for instance, it would only seem healthy.
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(task) for task in background_tasks(config, components)]
            await _listen(config, components.server)
            child.ready()
            scheme = "tls://" if config.certificates is not None else ""
            address = address_of(config.listeners[0])
            log.info("pinlater-server %s ready on %s%s (store %s)", __version__, scheme, address, store.description)
            try:
                await until_stopped(child)
            finally:
                async with heartbeats(child):
                    await _drain(components, config.settings.drain_seconds)
            for task in tasks:
                task.cancel()
    log.info("stopped")


async def _drain(components: Components, seconds: float) -> None:
    log.info("stopping; answering the calls in progress")
    components.broker.end_all_waits()
    await components.server.drain(asyncio.get_running_loop().time() + seconds)


async def _listen(config: ProcessConfig, server: ThriftServer) -> None:
    if config.is_one_of_several:
        server.listen_shared(config.listeners, config.folder / "connections", config.slot)
    else:
        await server.listen(*config.listeners)
