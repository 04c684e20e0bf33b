"""The server process: from its start, over its drain, to its end."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack

from pinlater_supervisor import Child

from pinlater import __version__
from pinlater.errors import EXIT_CONFIG, ConfigError
from pinlater.logs import say_why_it_ends
from pinlater.server.child_loop import until_stopped
from pinlater.server.metrics import Metrics
from pinlater.server.net.listeners import address_of
from pinlater.server.net.transport import Transport
from pinlater.server.parts import Given, Parts, assemble, bell_of, chores, reporter_of
from pinlater.server.stores import open_store

log = logging.getLogger("pinlater.server")

SWITCH_INTERVAL_SECONDS = 0.0005
"""The writer thread and the event loop pass the interpreter lock to and fro; the default of 5 ms would stall both."""


def run(child: Child, given: Given) -> int:
    """Serve until the supervisor asks to stop; return the exit code.

    Args:
        child: this process.
        given: what it serves with.
    """
    sys.setswitchinterval(SWITCH_INTERVAL_SECONDS)
    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            runner.run(_serve(child, given))
    except ConfigError as error:
        say_why_it_ends("pinlater-server", str(error))
        return EXIT_CONFIG
    return 0


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:  # no wheel for this platform: the standard loop does the same, a fifth slower
        return None
    return uvloop.new_event_loop


async def _serve(child: Child, given: Given) -> None:
    async with AsyncExitStack() as stack:
        metrics = Metrics()
        store = await open_store(given.settings, metrics)
        stack.push_async_callback(store.backend.close)
        parts = assemble(given, store, metrics)
        await parts.stored.learn()  # or a paused queue might hand out jobs for a moment
        if given.is_one_of_several and not store.tells_servers:
            bell = bell_of(given, parts)
            stack.callback(bell.close)
            bell.start()
        reporter = reporter_of(given, parts)
        await reporter.start()
        stack.push_async_callback(reporter.close)
        # A chore that fails ends the process, loudly, and the supervisor starts another: without, say, its monitor
        # this one would seem well.
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(chore) for chore in chores(given, parts)]
            await _listen(given, parts.transport)
            child.ready()
            scheme = "tls://" if given.certificates is not None else ""
            address = address_of(given.listeners[0])
            log.info("pinlater-server %s ready on %s%s (store %s)", __version__, scheme, address, store.description)
            try:
                await until_stopped(child)
            finally:
                await _drain(parts, given.settings.drain_seconds)
            for task in tasks:
                task.cancel()
    log.info("stopped")


async def _drain(parts: Parts, seconds: float) -> None:
    log.info("stopping: answering what is in flight")
    parts.broker.end_waits()
    await parts.transport.drain(asyncio.get_running_loop().time() + seconds)


async def _listen(given: Given, transport: Transport) -> None:
    if given.is_one_of_several:
        transport.share(given.listeners, given.folder / "turns", given.slot)
    else:
        await transport.listen(*given.listeners)
