"""Several servers on one store: how many jobs per second they accept and hand out together."""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial

from benchmarks.consumer import drain
from benchmarks.figures import Figure
from benchmarks.jobs import Nothing
from benchmarks.programs import ProgramFailed, Server
from benchmarks.setting import Setting

COUNTS = (1, 2, 4)
JOBS = 100_000
BATCH_SIZE = 250
CLIENTS = 4

_QUEUE = "nothing"


def measure(setting: Setting) -> list[Figure]:
    """Measure rates with four clients, each a separate process, at one, two and four servers."""
    jobs = setting.amount(JOBS, step=CLIENTS * BATCH_SIZE)
    counts = COUNTS if setting.stores.is_shared else COUNTS[:1]
    figures = []
    with ExitStack() as stack:
        rounds = [_with(setting, stack, count, jobs) for count in counts]
        for count, rates in zip(counts, setting.in_turns(*rounds), strict=True):
            title = f"{CLIENTS} clients at {count} server{'s' * (count > 1)}"
            enqueued, drained = zip(*rates, strict=True)
            figures += [
                Figure(f"servers_{count}_enqueue", f"enqueue in bulk, {title}", "jobs/s", enqueued),
                Figure(f"servers_{count}_drain", f"  dequeue and ack, {title}", "jobs/s", drained),
            ]
    return figures


def _with(setting: Setting, stack: ExitStack, count: int, jobs: int) -> Callable[[], tuple[float, float]]:
    """Start ``count`` servers on a store; return a function that measures one round with them."""
    name = f"of-{count}"
    servers = [stack.enter_context(server) for server in setting.servers(count, name)]
    servers[0].create_queue(_QUEUE)

    def measure_once() -> tuple[float, float]:
        started = time.perf_counter()
        at_once(_each(servers, lambda server: _enqueue(server, jobs // CLIENTS)))
        enqueued = jobs / (time.perf_counter() - started)
        since_ms = time.time_ns() // 1_000_000
        at_once(_each(servers, _drain))
        first_ms, last_ms, done = setting.finished(since_ms, name)
        if done != jobs:
            raise ProgramFailed(f"{jobs} jobs were enqueued, but {done} were done")
        return enqueued, jobs * 1000.0 / max(last_ms - first_ms, 1.0)

    return measure_once


def _enqueue(server: Server, jobs: int) -> None:
    with server.client() as client:
        client.enqueue_many(Nothing(number=number) for number in range(jobs))


def _drain(server: Server) -> None:
    """Consume until there is nothing left twice in a row: once may be because others have just claimed it."""
    with server.connection() as connection:
        empty = 0
        while empty < 2:
            empty = 0 if drain(connection, _QUEUE, BATCH_SIZE, most=20 * BATCH_SIZE) else empty + 1


def _each(servers: Sequence[Server], work: Callable[[Server], None]) -> list[Callable[[], None]]:
    """Return the work of each client, bound to its server."""
    return [partial(work, servers[number % len(servers)]) for number in range(CLIENTS)]


def at_once(works: Sequence[Callable[[], None]]) -> None:
    """Do all works at once, each in a separate process."""
    pids = [_forked(work) for work in works]
    statuses = [os.waitpid(pid, 0)[1] for pid in pids]
    if any(statuses):
        raise ProgramFailed("a client failed; what it said is above")


def _forked(work: Callable[[], None]) -> int:
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            work()
            status = 0
        except Exception:  # noqa: BLE001 - this process ends here; its parent reads its status
            traceback.print_exc()
        finally:
            os._exit(status)
    return pid
