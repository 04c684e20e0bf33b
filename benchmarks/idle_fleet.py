"""Workers that wait at several servers for many idle queues on many shards: how much that costs the database."""

from __future__ import annotations

import socket
import time
from contextlib import ExitStack

from benchmarks.figures import Figure
from benchmarks.programs import Server
from benchmarks.setting import Setting
from pinlater.protocol.codec import Codec
from pinlater.protocol.messages import PinLaterDequeueRequest, RequestContext, arguments_of

SERVERS = 3
SHARDS = 12
QUEUES = 500
WORKERS = 40
SECONDS = 60.0
SETTLE_SECONDS = 20.0
"""How long until each server has found all queues empty and polls rarely."""

_WAIT_MS = 300_000


def measure(setting: Setting) -> list[Figure]:
    """Measure statements per second for each shard and server, and the processor time of the servers."""
    if not setting.stores.is_shared:
        return []
    queues = [f"idle{number}" for number in range(max(setting.amount(QUEUES), WORKERS))]
    with ExitStack() as stack:
        servers = [stack.enter_context(server) for server in setting.servers(SERVERS, "fleet", shards=SHARDS)]
        for queue in queues:
            servers[0].create_queue(queue)
        for number in range(WORKERS):
            stack.enter_context(waiting(servers[number % SERVERS], queues[number::WORKERS]))
        time.sleep(max(SETTLE_SECONDS * setting.scale, 1.0))
        before, cpu, started = setting.statements("fleet"), _cpu(servers), time.perf_counter()
        time.sleep(max(SECONDS * setting.scale, 1.0))
        seconds = time.perf_counter() - started
        statements = (setting.statements("fleet") - before) / seconds / SHARDS / SERVERS
        share = (_cpu(servers) - cpu) / seconds / SERVERS * 100
    title = f"{len(queues)} idle queues, {WORKERS} waiting workers, {SHARDS} shards, {SERVERS} servers"
    return [
        Figure("idle_statements", f"{title}: statements for each shard and server", "1/s", [statements]),
        Figure("idle_cpu", "  a server's share of a core", "%", [share]),
    ]


def _cpu(servers: list[Server]) -> float:
    return sum(server.cpu_seconds() for server in servers)


def waiting(server: Server, queues: list[str]) -> socket.socket:
    """Return a connection with a dequeue that waits for some queues."""
    request = PinLaterDequeueRequest(queues[0], 1, waitMillis=_WAIT_MS, otherQueueNames=queues[1:])
    waiter = socket.create_connection(server.address[:2])
    waiter.sendall(Codec().encode_call("dequeueJobs", 1, arguments_of("dequeueJobs")(RequestContext("bench"), request)))
    return waiter
