"""A large database of the MySQL store, to see how statements find their rows."""

import asyncio
from contextlib import contextmanager

from pinlater.model.keys import WAITS_FOR_KEY_MS
from pinlater.server.backends.mysql.connection import MysqlConnection
from pinlater.server.backends.mysql.database import Database
from pinlater.server.backends.mysql.pool import MysqlPool
from pinlater.server.backends.mysql.queries import Queries
from tests.support.mariadb_service import is_mysql, shared_service
from tests.support.mysql_bench import endpoint_of, fresh_prefix

NOW = 1_700_000_000_000
ROWS = {"due": 30_000, "scheduled": 30_000, "claimed": 2_000, "finished": 30_000}
ALL = 2**63 - 1

FILL = """
INSERT INTO {db}.jobs (id, queue_id, state, priority, run_after, moment, created_at, updated_at, claim_lease,
                       attempts_allowed, attempts_remaining, body_bytes, unique_key, claim, custom_status, body)
SELECT {first} + seq, seq % 2 + 1, IF({state} = 2, 2 + (seq % 5 = 0), {state}), seq % 3 + 1, {run_after} + seq,
       IF({state} = 0, NULL, {run_after} + seq), 0, {run_after} + seq, 1000, 2, 2, 10,
       IF({state} = 0 AND seq % 10 = 0, CONCAT('key ', {first} + seq), NULL), 'h:1:1:worker:1', '', 'body'
FROM {numbers} WHERE seq BETWEEN 1 AND {rows}
"""

ALIKE = 10_000_000
FILL_ALIKE = f"""
INSERT INTO {{db}}.jobs (id, queue_id, state, priority, run_after, moment, created_at, updated_at, attempts_allowed,
                       attempts_remaining, body_bytes, custom_status, body)
SELECT {ALIKE} + seq, 3, 3 * (seq % 2), 1, {NOW}, IF(seq % 2, {NOW}, NULL), 0, 0, 2, 2, 4, '', 'body'
FROM {{numbers}} WHERE seq BETWEEN 1 AND 5000
"""
"""Jobs of one millisecond, from this id on."""

FILL_REPORTS = """
INSERT INTO {db}.reports (worker_id, reported_at, expires_at, report_bytes, report)
SELECT CONCAT('w', seq), {now}, {now} - 500 + seq, 5, 'hello' FROM {numbers} WHERE seq BETWEEN 1 AND 1000
"""

FILL_PERIODS = """
INSERT INTO {db}.unique_periods (queue_id, unique_key, priority, job_id, ends_at)
SELECT 1, CONCAT('key ', seq), 1, seq, {now} - 1000 + seq FROM {numbers} WHERE seq BETWEEN 1 AND 5000
"""

FILL_RESULTS = """
INSERT INTO {db}.call_results (call_key, number, expires_at)
SELECT LPAD(seq, 16, ' '), seq, {now} - 500 + seq FROM {numbers} WHERE seq BETWEEN 1 AND 1000
"""

FILL_KEYED_JOBS = """
INSERT INTO {db}.keyed_jobs (id, queue_id, job_key, state, run_after, key_limit)
SELECT seq, 1, IF(seq % 10, LPAD(10, 16, ' '), CONCAT('key ', seq)), seq % 100 = 9,
       {now} - 50 + seq + IF(seq % 100 < 20, 0, {waits}), 1
FROM {numbers} WHERE seq BETWEEN 1 AND 5000
"""

FILL_KEY_RATES = """
INSERT INTO {db}.key_rates (queue_id, job_key, rate, next_us)
SELECT 1, LPAD(seq, 16, ' '), '10/s', {now} - 500 + seq FROM {numbers} WHERE seq BETWEEN 1 AND 1000
"""

CLAIMED = {"id": ROWS["due"] + ROWS["scheduled"] + 6}
"""The first claimed job of the queue and priority that the statements are about."""

FILL_MESSAGES = f"""
INSERT INTO {{db}}.messages (job_id, name, number, message_id, kind, payload_bytes, payload)
SELECT IF(seq % 20 = 19, {CLAIMED["id"]}, 2 * (1 + seq % 20)), CONCAT('event ', seq DIV 20 % 2), seq DIV 40 + 1,
       CONCAT('m', seq), 0, 5, 'hello'
FROM {{numbers}} WHERE seq BETWEEN 1 AND 5000
"""

FILL_OUTGOING = """
INSERT INTO {db}.outgoing (shard, origin, stored_at, job, name, message_id, kind, payload_bytes, payload)
SELECT seq % 3, seq % 7, {now} + seq, CONCAT('emails:s2:p1:', seq), 'call', seq, 1, 5, 'hello'
FROM {numbers} WHERE seq BETWEEN 1 AND 5000
"""

FILL_CHILDREN = """
INSERT INTO {db}.children (parent_id, id) SELECT seq % 10, seq FROM {numbers} WHERE seq BETWEEN 1 AND 5000
"""

FILL_FAILING_JOBS = """
INSERT INTO {db}.failing_jobs (id, queue_id, failure_group, state, priority, run_after)
SELECT seq, seq % 2 + 1, 7 + (seq % 50 = 0), IF(seq % 3, 0, 3), seq % 3 + 1, {now} + seq
FROM {numbers} WHERE seq BETWEEN 1 AND 5000
"""

FILL_FAILURE_GROUPS = """
INSERT INTO {db}.failure_groups (queue_id, id, job, error, example, first_failed_at, last_failed_at, look_at)
SELECT seq % 20 + 1, seq, 'Job', 'error', 'error', 0, seq, {now} - 500 + seq FROM {numbers} WHERE seq BETWEEN 1 AND 1000
"""

DIGITS = "(" + " UNION ALL ".join(f"SELECT {digit} AS digit" for digit in range(10)) + ")"
PLACES = range(5)
NUMBERS = (
    f"(SELECT {' + '.join(f'd{place}.digit * {10**place}' for place in PLACES)} AS seq"
    f" FROM {' CROSS JOIN '.join(f'{DIGITS} AS d{place}' for place in PLACES)}) AS numbers"
)
"""Those below 100,000, in words that MariaDB and MySQL share."""

COLUMNS = ("id", "select_type", "table", "type", "possible_keys", "key", "key_len", "ref", "rows", "Extra")
MYSQL_COLUMNS = (*COLUMNS[:3], "partitions", *COLUMNS[3:9], "filtered", "Extra")
"""Of a plan."""


class Filled:
    """A database with a history and a future; two queues share it.

    Args:
        rows: how many jobs of each kind.
    """

    def __init__(self, rows):
        self._rows = rows
        service = shared_service()
        self.queries = Queries(fresh_prefix() + "plans")
        self._runner = asyncio.Runner()
        self._connection = self._runner.run(self._open(endpoint_of(service)))

    async def _open(self, endpoint):
        pool = MysqlPool(endpoint, 1)
        async with Database("1", pool, self.queries, lambda: NOW).connection():
            pass
        pool.close()
        connection = await MysqlConnection.open(endpoint)
        await connection.run(b"SET wait_timeout = 3600")  # the tests may be busy with another database meanwhile
        if not is_mysql():  # which limits only what reads
            await connection.run(b"SET max_statement_time = 0")
        for number, name in enumerate(("emails", "thumbnails"), 1):
            await connection.run(self.queries.bind("create_queue", id=number, name=name, now=NOW))
        first = 0
        for kind, state, run_after in (
            ("due", 0, NOW - 200_000),
            ("scheduled", 0, NOW + 1),
            ("claimed", 1, NOW),
            ("finished", 2, NOW - 100_000),
        ):
            values = {"first": first, "state": state, "run_after": run_after, "rows": self._rows[kind]}
            await connection.run(FILL.format(db=self.queries.database, numbers=NUMBERS, **values).encode())
            first += self._rows[kind]
        if first > 1000:
            await connection.run(FILL_ALIKE.format(db=self.queries.database, numbers=NUMBERS).encode())
        await connection.run(FILL_REPORTS.format(db=self.queries.database, numbers=NUMBERS, now=NOW).encode())
        await connection.run(FILL_RESULTS.format(db=self.queries.database, numbers=NUMBERS, now=NOW).encode())
        await connection.run(FILL_PERIODS.format(db=self.queries.database, numbers=NUMBERS, now=NOW).encode())
        keyed_jobs = FILL_KEYED_JOBS.format(db=self.queries.database, numbers=NUMBERS, now=NOW, waits=WAITS_FOR_KEY_MS)
        await connection.run(keyed_jobs.encode())
        for fill in (
            FILL_KEY_RATES,
            FILL_MESSAGES,
            FILL_OUTGOING,
            FILL_CHILDREN,
            FILL_FAILING_JOBS,
            FILL_FAILURE_GROUPS,
        ):
            await connection.run(fill.format(db=self.queries.database, numbers=NUMBERS, now=NOW).encode())
        names = ("jobs", "reports", "call_results", "unique_periods", "keyed_jobs", "messages", "children")
        names += ("failing_jobs", "failure_groups", "key_rates", "outgoing")
        tables = ", ".join(f"{self.queries.database}.{name}" for name in names)
        await connection.run(f"ANALYZE TABLE {tables}".encode())
        return connection

    def plan(self, statement_name, **values):
        """Return the steps of a statement's plan, as dictionaries."""
        statement = self.queries.bind(statement_name, **values)
        explain, columns = (b"EXPLAIN FORMAT=TRADITIONAL ", MYSQL_COLUMNS) if is_mysql() else (b"EXPLAIN ", COLUMNS)
        [(rows, _, _)] = self._runner.run(self._connection.run(explain + statement))
        return [dict(zip(columns, row, strict=True)) for row in rows]

    @contextmanager
    def only_copies(self, rows):
        """Leave only so many copies of jobs in their tables for a while; None: all."""
        tables = [f"{self.queries.database}.{name}" for name in ("keyed_jobs", "failing_jobs")]
        if rows is None:
            yield
            return
        changes = [f"RENAME TABLE {table} TO {table}_kept" for table in tables]
        for table in tables:
            changes += [f"CREATE TABLE {table} LIKE {table}_kept"]
            changes += [f"INSERT INTO {table} SELECT * FROM {table}_kept ORDER BY id LIMIT {rows}"]
            changes += [f"ANALYZE TABLE {table}"]
        self._runner.run(self._connection.run(*map(str.encode, changes)))
        yield
        back = [f"DROP TABLE {table}" for table in tables] + [
            f"RENAME TABLE {table}_kept TO {table}" for table in tables
        ]
        self._runner.run(self._connection.run(*map(str.encode, back)))

    def rows_read(self, statement_name, **values):
        """Execute a statement and undo it; return how many rows and index entries the engine read for it."""
        count = b"SHOW SESSION STATUS LIKE 'Handler_read%'"
        statement = self.queries.bind(statement_name, **values)
        _, before, *_, after, _ = self._runner.run(
            self._connection.run(b"START TRANSACTION", count, statement, count, b"ROLLBACK")
        )
        return sum(int(row[1]) for row in after.rows) - sum(int(row[1]) for row in before.rows)

    def end(self):
        async def close():
            await self._connection.run(f"DROP DATABASE {self.queries.database}".encode())
            self._connection.close()

        self._runner.run(close())
        self._runner.close()
