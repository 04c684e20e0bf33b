"""Stores jobs in a table of the user's database, in the user's transaction."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from typing import Any, NamedTuple, Unpack

from pinlater.client.batches import encoder_of_many, split_by_bytes
from pinlater.client.jobs import JobEncoder, encoder
from pinlater.client.tracing_hooks import enqueue_tracer
from pinlater.jobs.enqueue_options import EnqueueManyOptions, EnqueueOptions
from pinlater.jobs.job import Job
from pinlater.outbox import dialects
from pinlater.outbox.sessions import OpenTransaction, open_transaction
from pinlater.protocol.stored_jobs import stored_fields

DEFAULT_TABLE = "pinlater_outbox"

_MOST_ROWS = 100
_MOST_BYTES = 1 << 20


class _Row(NamedTuple):
    """The values of a new row, in the order of its columns."""

    queue: str
    body: bytes
    options: str
    enqueued_at_ms: int


class Outbox:
    """A table in your own database, in which jobs wait for a ``Relay`` that delivers them to a server.

    A job is stored by your transaction: if you commit, it will be enqueued, once; if you roll back, it never will.

    ::

        outbox = Outbox()
        with engine.begin() as connection:
            connection.execute(insert(orders).values(number=42))
            outbox.enqueue(connection, SendInvoice(order=42))

    Args:
        table: name of the table, with a schema if needed, as in ``schema.table``.
        notify: whether PostgreSQL notifies the relay (NOTIFY) when jobs are committed. Transactions that notify commit
            one after the other; without it, the relay polls every 10 ms. With MySQL: whether the relay lets the
            database poll, in statements that sleep between polls.
        tracing: create a span for each enqueue, and send its context with the jobs; see ``pinlater.tracing``.

    Attributes:
        table: name of the table.
        notify: whether the database notifies the relay.

    Raises:
        ConfigError: the table name is invalid.
        ImportError: ``tracing`` needs ``pinlater[otel]``.
    """

    def __init__(self, table: str = DEFAULT_TABLE, *, notify: bool = True, tracing: bool = False) -> None:
        self.table = dialects.check_table(table)
        self.notify = notify
        self._trace_enqueue = enqueue_tracer(is_on=tracing)

    def enqueue(self, connection: Any, job: Job, **options: Unpack[EnqueueOptions]) -> None:
        """Store a job in the transaction of ``connection``, which you commit; ``delay`` counts from this call.

        Args:
            connection: a driver's connection (sqlite3, psycopg, psycopg2, PyMySQL, mysqlclient ...); a ``Session`` or
                ``Connection`` of SQLAlchemy; ``connection`` or ``transaction`` of ``django.db``.
            job: the job.
            options: those of ``Client.enqueue``, such as ``delay=60``.

        Raises:
            ValueError, TypeError, BodyInvalid: as in ``Client.enqueue``; nothing was stored.
            TypeError: ``connection`` is none of these; the message says what to write.
        """
        self._store(open_transaction(connection), [self._row(job, options)])

    def enqueue_many(self, connection: Any, jobs: Iterable[Job], **options: Unpack[EnqueueManyOptions]) -> int:
        """Store many jobs in the transaction of ``connection``, up to a hundred per statement; return how many.

        Args:
            connection: as in ``enqueue``.
            jobs: the jobs, from any iterable.
            options: those of ``Client.enqueue_many``.

        Raises:
            Exception: as in ``enqueue``.
        """
        transaction, stored = open_transaction(connection), 0
        with self._trace_enqueue(options.get("queue")) as trace:
            encode = encoder_of_many(options, trace.trace)
            queues: set[str] = set()
            for rows in split_by_bytes((_row_of(encode, job) for job in jobs), _MOST_BYTES, _MOST_ROWS):
                self._store(transaction, rows)
                stored += len(rows)
                queues.update(row.queue for row in rows)
            trace.record_stored(queues, stored)
        return stored

    def insert(
        self, job: Job, *, database: str, paramstyle: str = "pyformat", **options: Unpack[EnqueueOptions]
    ) -> tuple[str, list[Any]]:
        """Return the statement that stores a job, and its parameters, for a driver that ``enqueue`` does not support.

        Args:
            job: the job.
            database: ``"postgresql"``, ``"mysql"`` or ``"sqlite"``.
            paramstyle: how the driver writes parameters: ``"pyformat"`` (``%s``), ``"qmark"`` (``?``), ``"numeric"``
                (``:1``) or ``"numeric_dollar"`` (``$1``, as asyncpg does).
            options: those of ``Client.enqueue``.

        Raises:
            ValueError, TypeError, BodyInvalid: as in ``Client.enqueue``.
            ConfigError: there is no such database or style.
        """
        dialect = dialects.dialect_of(database)
        sql = dialects.insert(dialect, self.table, 1, paramstyle, notify=self.notify)
        return sql, list(self._row(job, options))

    def create_table(self, database: str) -> str:
        """Return the SQL that creates the table, for your migrations; ``pinlater outbox-table`` prints it.

        It has several statements; see ``table_statements`` for what takes one at a time.

        Args:
            database: ``"postgresql"``, ``"mysql"`` (also for MariaDB) or ``"sqlite"``.

        Raises:
            ConfigError: there is no outbox for such a database.
        """
        return dialects.create_table(dialects.dialect_of(database), self.table)

    def table_statements(self, database: str) -> list[str]:
        """Return the statements that create the table one by one: SQLAlchemy and most drivers take one at a time.

        Args:
            database: as in ``create_table``.

        Raises:
            ConfigError: there is no outbox for such a database.
        """
        return dialects.table_statements(dialects.dialect_of(database), self.table)

    def _row(self, job: Job, options: EnqueueOptions) -> _Row:
        queue = options.get("queue") or getattr(getattr(job, "job_options", None), "queue", None)
        with self._trace_enqueue(queue) as trace:
            row = _row_of(encoder(options, trace.trace), job)
            trace.record_stored([row.queue], 1)
        return row

    def _store(self, transaction: OpenTransaction, rows: list[_Row]) -> None:
        sql = dialects.insert(transaction.dialect, self.table, len(rows), transaction.paramstyle, notify=self.notify)
        transaction.execute(sql, [value for row in rows for value in row])


def _row_of(encode: JobEncoder, job: Job) -> _Row:
    struct = encode.struct(job)
    options = json.dumps(stored_fields(struct), separators=(",", ":"))
    return _Row(encode.target_queue(job), struct.body or b"", options, int(time.time() * 1000))
