"""What a statement, a call and a job cost: from measured figures on MariaDB, each named with its benchmark.

All were measured by ``python -m benchmarks.peers`` on a machine of two cores; the table stands in
``docs/performance.md``. Processor time is that of all processes of the server, those of the database among them. What
of it is the database's is estimated: it is what MariaDB takes more than SQLite, which runs inside the server.
"""

from __future__ import annotations

from typing import NamedTuple

CORES = 2
CALLS_A_SECOND_OF_32 = 10_130
"""Enqueues of one job, over 32 connections: column "calls/s of 32" of MariaDB. Producer and all are on these cores."""

CALL_SERVER_US = {"SQLite": 264, "MariaDB": 651}
"""Processor time of an enqueue by one producer: column "server µs" beside "calls/s"."""

JOB_SERVER_US = {"SQLite": 13.1, "MariaDB": 43.3}
"""Processor time of a job that is claimed and acknowledged in batches: column "server µs" beside "jobs/s"."""

JOB_WORKER_US = 10.9
"""Of the worker, for a job that does nothing: column "workers µs"."""

CALL_CLIENT_US = 81.9
"""Of the client, for a call: column "producer µs"; a worker's dequeue is taken to cost as much."""

CALL_STATEMENTS = 4
"""Of an enqueue: ``python -m benchmarks one_call --store mysql``; a test holds the number."""

CALLS_A_SECOND = 1_260
"""Of one producer, each after the answer to the one before: column "calls/s"."""

ROUND_TRIP_SECONDS = 1 / CALLS_A_SECOND
"""How long a change on an idle shard takes until it is answered: call, statements and sync."""

HOP_SECONDS = 281e-6
"""From one server to another: all of a call but the store, by ``python -m benchmarks one_call`` on SQLite."""

_CALL_US = CORES * 1e6 / CALLS_A_SECOND_OF_32
_DATABASE_SHARE = 1 - CALL_SERVER_US["SQLite"] / CALL_SERVER_US["MariaDB"]

STATEMENT_DATABASE_US = _CALL_US * _DATABASE_SHARE / CALL_STATEMENTS
STATEMENT_SERVER_US = _CALL_US * (1 - _DATABASE_SHARE) / CALL_STATEMENTS
JOB_DATABASE_US = JOB_SERVER_US["MariaDB"] - JOB_SERVER_US["SQLite"]
HOP_SERVER_US = _CALL_US * (1 - _DATABASE_SHARE)
"""Of a server, to pass a call on: as much as a call of its own."""


class Cores(NamedTuple):
    """Processors that a fleet keeps busy, without room to spare, and without what jobs themselves do."""

    shards: float
    servers: float
    workers: float


def cores_of(*, statements: float, jobs: float, calls: float, passed_on: float) -> Cores:
    """Return the processors for what happens each second.

    Args:
        statements: of all kinds, on all shards.
        jobs: that are claimed and acknowledged.
        calls: of workers.
        passed_on: calls that a server passes on to another one.
    """
    shards = statements * STATEMENT_DATABASE_US + jobs * JOB_DATABASE_US
    servers = statements * STATEMENT_SERVER_US + jobs * JOB_SERVER_US["SQLite"] + passed_on * HOP_SERVER_US
    workers = calls * CALL_CLIENT_US + jobs * JOB_WORKER_US
    return Cores(shards / 1e6, servers / 1e6, workers / 1e6)
