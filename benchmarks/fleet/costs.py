"""Costs of a statement, a call and a job, from figures measured on MariaDB, each with the name of its benchmark.

Unless a line says otherwise, they were measured by ``python -m benchmarks.peers`` on a machine with two cores; the
table is in ``docs/performance.md``. Processor time is that of all processes of the server, including those of the
database. The database's part is estimated as what MariaDB takes more than SQLite, which runs inside the server.
"""

from __future__ import annotations

from typing import NamedTuple

CORES = 2
CALLS_A_SECOND_OF_32 = 10_130
"""Enqueues of one job, over 32 connections: column "calls/s of 32" of MariaDB. Everything runs on these cores."""

CALL_SERVER_US = {"SQLite": 264, "MariaDB": 651}
"""Processor time of an enqueue by one producer: column "server µs" beside "calls/s"."""

JOB_SERVER_US = {"SQLite": 13.1, "MariaDB": 43.3}
"""Processor time of a job that is claimed and acknowledged in batches: column "server µs" beside "jobs/s"."""

JOB_WORKER_US = 10.9
"""Processor time of the worker for a job that does nothing: column "workers µs"."""

CALL_CLIENT_US = 81.9
"""Processor time of the client for a call: column "producer µs"; a worker's dequeue is assumed to cost as much."""

CALL_STATEMENTS = 4
"""Statements of an enqueue: ``python -m benchmarks one_call --store mysql``; a test checks the number."""

CALLS_A_SECOND = 1_260
"""Calls of one producer, each after the answer to the previous one: column "calls/s"."""

ROUND_TRIP_SECONDS = 1 / CALLS_A_SECOND
"""Time until a change on an idle shard is answered: call, statements and sync."""

HOP_SECONDS = 281e-6
"""Time from one server to another: a call without the store, by ``python -m benchmarks one_call`` on SQLite."""

_CALL_US = CORES * 1e6 / CALLS_A_SECOND_OF_32
_DATABASE_SHARE = 1 - CALL_SERVER_US["SQLite"] / CALL_SERVER_US["MariaDB"]

STATEMENT_DATABASE_US = _CALL_US * _DATABASE_SHARE / CALL_STATEMENTS
STATEMENT_SERVER_US = _CALL_US * (1 - _DATABASE_SHARE) / CALL_STATEMENTS
JOB_DATABASE_US = JOB_SERVER_US["MariaDB"] - JOB_SERVER_US["SQLite"]
HOP_SERVER_US = _CALL_US * (1 - _DATABASE_SHARE)
"""Processor time of a server to pass a call on: as much as for its own call."""


class Cores(NamedTuple):
    """Processors that a fleet keeps busy, without reserve, and without the work of the jobs themselves."""

    shards: float
    servers: float
    workers: float


def cores_of(*, statements: float, jobs: float, calls: float, passed_on: float) -> Cores:
    """Return the processors needed for what happens each second.

    Args:
        statements: number of statements of all kinds, on all shards.
        jobs: number of jobs claimed and acknowledged.
        calls: number of calls of workers.
        passed_on: number of calls that a server passes on to another one.
    """
    shards = statements * STATEMENT_DATABASE_US + jobs * JOB_DATABASE_US
    servers = statements * STATEMENT_SERVER_US + jobs * JOB_SERVER_US["SQLite"] + passed_on * HOP_SERVER_US
    workers = calls * CALL_CLIENT_US + jobs * JOB_WORKER_US
    return Cores(shards / 1e6, servers / 1e6, workers / 1e6)
