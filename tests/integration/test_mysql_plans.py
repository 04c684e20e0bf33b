"""The hot statements of the MySQL store on a large table: through an index, in its order, a few rows at a time."""

import asyncio
import json
import re
from contextlib import contextmanager

import pytest

from pinlater.model.keys import WAITS_FOR_KEY_MS
from pinlater.server.backends.mysql.connection import MysqlConnection
from pinlater.server.backends.mysql.database import Database
from pinlater.server.backends.mysql.pool import MysqlPool
from pinlater.server.backends.mysql.queries import MOST_LISTED, Queries
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


@pytest.fixture(scope="module")
def filled():
    """With a long history and a long future."""
    filled = Filled(ROWS)
    yield filled
    filled.end()


@pytest.fixture(scope="module")
def young():
    """With few jobs, so that to walk along all of them looks cheap."""
    young = Filled(dict.fromkeys(ROWS, 5))
    yield young
    young.end()


IDS = [2, 4, 6, 8, 10]
COMMON = {
    "queue": 1, "now": NOW, "ids": IDS, "id": 4, "claim": b"h:1:1:worker:1", "limit": 10, "priority": 1,
    "is_any": False, "has_keys": False, "has_parents": False, "place": 0, "is_cancelled": False, "has_result": False,
    "results": [b"1", b"2", b"3", b"4", b"5"], "waits_for": b'[["event 0",1]]', "is_deletion": False, "job": 4,
    "counted": '[[4, "6576656e742030"], [6, "00"]]', "wanted": '[[4, "6576656e742030", "6d31"], [4, "00", "00"]]',
    "after": 0, "parents": [1, 2], "parent": 4, "positions": [0, 1],
    "status": "s", "run_after": NOW, "retry_at": NOW, "is_final": False, "lease": 1000, "expires": NOW, "attempts": 2,
    "is_back": False, "has_body": False, "body": b"", "body_bytes": 0, "state": 2, "before": NOW - 50_000,
    "start": 0, "skipped": 0, "first": 0, "kept": 0,
    "after_run_after": -ALL, "after_id": -ALL, "ahead": 0,
    "last": ALL, "cap": 100, "failure_group": 7, "group": 7, "look_at": NOW, "end": -ALL, "age": 10**6, "quiet": 1000,
    "count": 10, "name": "emails", "queues": [1, 2], "keys": [b"key 10", b"key 20"], "is_paused": False,
    "jobs_per_second": None, "max_running": None, "shards": 2, "shards_by_load": 1,
    "worker": b"w10", "workers": [b"w10", b"w20"],
    "expires_at": NOW, "bytes": 1, "spent_until": NOW, "was": 1, "report": b"x",
    "key": b"%16d" % 10, "number": 0, "is_put_off": False, "kind": 0, "resolution": 60, "since": 0, "rows": 10,
    "until": NOW, "now_us": NOW, "times": [1, 2, 3, 4, 5], "small": 2000, "levels": [1, 2, 3],
    "names": [b"emails", b"thumbnails"], "shard": b"2", "origin": 5,
}  # fmt: skip
LATEST = {"run_after": ALL, "id": ALL, "end": -ALL}
WANTED = json.dumps([(1, (b"%16d" % 10).hex()), (1, (b"key 10").hex()), (2, (b"none").hex())])
ABSENT = json.dumps([(1, (b"key 10").hex()), (2, (b"none").hex())])
OF_LISTED_KEYS = {"states_of_keys": {"wanted": WANTED}, "lines_of_keys": {"wanted": WANTED}}
OF_ONE_KEY = {"states_of_keys_alone", "lines_of_keys_alone"}
OLDEST = {"run_after": -ALL, "id": -ALL, "end": ALL}
DROPPED = CLAIMED | {"name": b"event 0"}


def begin_of(name):
    """Return where a scan begins and ends, and what messages are dropped."""
    if name == "drop_messages":
        return DROPPED
    if name in OF_LISTED_KEYS:
        return OF_LISTED_KEYS[name]
    return OLDEST if name.endswith("_oldest") else LATEST if name.startswith("scan_") else {}


WITHOUT_PLAN = {
    "begin", "clock", "commit", "create_queue", "lock_result", "insert_jobs", "insert_results", "lock_claims",
    "insert_periods", "replace_ended_periods", "insert_linked_jobs", "lock_keys", "change_key_locks", "insert_messages",
    "insert_jobs_with_parents",
    "insert_children", "insert_deleted_inboxes", "insert_failure_groups", "note_failures",
    "keep_message",  # which numbers its row by the others of the table, so it has one temporary row
    "set_rate_of_key", "store_clock_record", "create_bucket", "create_queue_lock", "count_probe", "rollback", "size",
}  # fmt: skip
STATEMENTS = sorted(set(Queries("x").names) - WITHOUT_PLAN)

IN_ORDER = {
    "pending_behind", "first_due", "next_due", "claimable_jobs", "peek_jobs", "count_jobs", "scan_jobs", "failed_jobs",
    "claims_of_queue", "running_jobs", "jobs_of_queue", "scan_jobs_oldest",
}  # fmt: skip
BY_MOMENT = {
    "queues_of_expired_claims", "expired_claims", "finished_jobs", "first_claim_expiring", "first_succeeded",
    "first_failed",
}  # fmt: skip
BY_KEY = {"unique_jobs"}
OF_PERIODS = {
    "unique_periods": "PRIMARY", "period_jobs": "PRIMARY", "end_periods": "PRIMARY",
    "delete_expired_periods": "PRIMARY", "expired_periods": "unique_periods_ending",
}  # fmt: skip
OF_KEYS = {"running_of_key", "pending_of_key", "waiting_for_key", "through_of_key"}  # fmt: skip
COPIES_BY_ID = {"delete_keyed_job", "delete_keyed_jobs", "set_run_after_of_keyed", "set_run_after_of_failing"}
OF_RATES = {
    "idle_rates": "key_rates_in_order", "forget_rate_of_key": "PRIMARY",
    "touch_rate_of_key": "PRIMARY",
}  # fmt: skip
"""With the index that each walks along."""
OF_MESSAGES = {
    "message_counts": "PRIMARY", "message_sizes": "PRIMARY", "read_messages": "PRIMARY", "delete_messages": "PRIMARY",
    "delete_some_messages": "PRIMARY", "known_messages": "messages_by_id", "known_ends": "messages_by_id",
    "message_ids": "PRIMARY",
}  # fmt: skip
OF_OUTGOING = {
    "outgoing_shards": "outgoing_by_shard", "outgoing_sizes": "outgoing_by_origin",
    "outgoing_left": "outgoing_by_shard", "outgoing": "PRIMARY", "delete_outgoing": "PRIMARY",
}  # fmt: skip
OF_FAILURES = {
    "count_retrying": "failing_in_order", "scan_retrying": "failing_in_order",
    "scan_retrying_oldest": "failing_in_order",
    "count_failing": "failing_by_group", "scan_failing": "failing_by_group", "scan_failing_oldest": "failing_by_group",
    "count_failed_so": "failing_by_group", "delete_failing_jobs": "PRIMARY",
    "outdated_failing_jobs": "failing_by_group",
    "kept_failure_groups": "PRIMARY", "count_failure_groups": "PRIMARY", "failure_groups": "PRIMARY",
    "failure_groups_to_look_at": "failure_groups_to_look_at", "delete_failure_groups": "PRIMARY",
    "look_at_failure_groups": "PRIMARY", "delete_failure_groups_of_queue": "PRIMARY",
}  # fmt: skip
"""Of failing jobs and their groups, with the index that each walks along."""
OF_BOTH_KEYS = {"scan_keyed", "scan_keyed_oldest"}
"""Of jobs that share a key, and of the one whose unique key it is: sorted together, once there is a page of each."""
OF_CHILDREN = {"delete_children"}
OF_STATISTICS = {name for name in STATEMENTS if "statistics" in name}
OF_INBOXES = {"first_deleted_inbox", "deleted_inbox", "forget_inbox"}
FIRST_ONLY = {
    "first_result_expiring": "call_results_expiring", "first_period_ending": "unique_periods_ending",
    "first_failure_group": "failure_groups_to_look_at", "first_key_rate": "key_rates_in_order",
    "first_outgoing": "PRIMARY",
}  # fmt: skip
"""With the index whose first entry each reads."""
OF_QUEUES = {
    "queues", "queues_version", "deleted_queues", "share_queues", "present_queue", "queue_exists", "delete_queue",
    "queue_settings", "settings_of_queue", "locked_settings_of_queue", "change_queue_settings", "schema_version",
    "reserve_ids", "lock_queues", "purge_queue",
    "bucket", "update_bucket", "queue_lock", "update_queue_lock", "delete_queue_lock", "delete_queue_settings",
    "lock_version", "try_to_write", "first_deleted_queue", "store_listener", "listeners", "delete_listeners",
    "clock_ahead", "clock_seen",
}  # fmt: skip
"""Of tables with a row for each queue, for each server, or one for everything."""
OF_REPORTS = {
    "store_report": None, "delete_report": "PRIMARY", "reports": "PRIMARY", "delete_expired_reports": "PRIMARY",
    "expired_reports": "reports_expiring", "report_sizes": "reports_expiring",
}  # fmt: skip
OF_RESULTS = {
    "call_results": "PRIMARY", "update_result": "PRIMARY", "delete_expired_results": "PRIMARY",
    "expired_results": "call_results_expiring",
}  # fmt: skip
"""With the index that each walks along."""
BY_PRIMARY_KEY = {("PRIMARY", "range"), ("PRIMARY", "const"), ("PRIMARY", "eq_ref")}
BY_ID = (
    set(STATEMENTS)
    - IN_ORDER
    - BY_MOMENT
    - BY_KEY
    - OF_QUEUES
    - {*OF_REPORTS}
    - {*OF_RESULTS}
    - {*OF_PERIODS}
    - OF_KEYS
    - COPIES_BY_ID
    - {*OF_LISTED_KEYS}
    - OF_ONE_KEY
    - {*OF_RATES}
    - OF_BOTH_KEYS
    - {*FIRST_ONLY}
    - {*OF_MESSAGES}
    - {*OF_OUTGOING}
    - {*OF_FAILURES}
    - OF_CHILDREN
    - OF_INBOXES
    - OF_STATISTICS
    - {"states_in_use", "due_queues", "drop_messages"}
)


def of_jobs(plan):
    """Return its only step that reads jobs."""
    if "after reading const tables" in (plan[0]["Extra"] or ""):  # MySQL: it has looked the job up, which did not match
        return {"key": "PRIMARY", "type": "const", "rows": 1}
    [step] = [step for step in plan if step["table"] == "jobs"]
    return step


@pytest.mark.parametrize(
    "name", sorted(set(STATEMENTS) - OF_QUEUES - OF_STATISTICS - OF_BOTH_KEYS - {"failure_groups"})
)
def test_no_statement_scans_or_sorts_the_jobs(filled, name):
    for step in filled.plan(name, **COMMON | begin_of(name)):
        if step["table"] in {"jobs", f"{filled.queries.database}.jobs"}:
            assert step["type"] not in {"ALL", "index"}, step
        extra = (step["Extra"] or "").replace("Table function: json_table; Using temporary", "")  # MySQL's, of a list
        assert not re.search("filesort|temporary", extra), step


@pytest.mark.parametrize(
    ("names", "key"), [(IN_ORDER, "jobs_in_order"), (BY_MOMENT, "jobs_by_moment"), (BY_KEY, "jobs_by_key")]
)
def test_each_walk_goes_along_its_index(filled, names, key):
    for name in sorted(names):
        step = of_jobs(filled.plan(name, **COMMON | begin_of(name)))
        assert step["key"] == key, (name, step)


@pytest.mark.parametrize("name", OF_REPORTS)
def test_reports_are_found_by_worker_or_by_their_expiry(filled, name):
    [step] = filled.plan(name, **COMMON)
    assert step["key"] == OF_REPORTS[name], step
    assert step["type"] in {"range", "const", "ALL" if name == "store_report" else "range"}, step
    if name in {"expired_reports", "report_sizes"}:
        assert "Using index" in step["Extra"], "it must not read the reports themselves"


@pytest.mark.parametrize("name", OF_RESULTS)
def test_results_of_calls_are_found_by_key_or_by_their_expiry(filled, name):
    [step] = filled.plan(name, **COMMON | {"keys": [b"%16d" % number for number in (10, 20)]})
    assert step["key"] == OF_RESULTS[name], step
    assert step["type"] in {"range", "const"}, step


@pytest.mark.parametrize("name", FIRST_ONLY)
def test_the_first_entry_of_an_index_is_found_without_the_others(filled, name):
    [step] = filled.plan(name, **COMMON)
    assert (step["key"], int(step["rows"])) == (FIRST_ONLY[name], 1), step


def test_what_states_a_queue_has_jobs_in_is_seen_in_the_index_of_the_claims(filled):
    _, *steps = filled.plan("states_in_use", **COMMON)
    assert [(step["key"], step["type"]) for step in steps] == [("jobs_in_order", "ref")] * 4
    assert all("Using index" in step["Extra"] for step in steps)


def test_which_queues_have_due_jobs_is_seen_in_the_index_of_the_claims(filled):
    steps = [step for step in filled.plan("due_queues", **COMMON) if step["table"] == "jobs"]
    assert [(step["key"], step["type"]) for step in steps] == [("jobs_in_order", "ref")] * 2
    assert all("Using index" in step["Extra"] for step in steps)
    assert {int(step["key_len"]) for step in steps} == {4 + 1, 4 + 1 + 1}  # queue and state; with the priority


@pytest.mark.parametrize("name", OF_PERIODS)
def test_periods_of_keys_are_found_by_key_or_by_their_end(filled, name):
    [step] = filled.plan(name, **COMMON)
    assert step["key"] == OF_PERIODS[name], step
    assert step["type"] == "range", step


@pytest.mark.parametrize("name", sorted(COPIES_BY_ID))
@pytest.mark.parametrize("rows", [0, 1, 6, None])
def test_copies_of_jobs_are_found_by_id_however_few_there_are(young, name, rows):
    """Whoever looked for one among the others would wait for those who change these."""
    with young.only_copies(rows):
        *_, step = young.plan(name, **COMMON)
    is_not_there = step["table"] is None  # which the plan knows, since it has looked for it by id
    assert is_not_there or (step["key"], step["type"]) in BY_PRIMARY_KEY, step


@pytest.mark.parametrize("name", sorted(OF_KEYS))
def test_jobs_of_a_key_are_found_in_line(filled, name):
    step, *joined = filled.plan(name, **COMMON)
    assert step["key"] == "keyed_jobs_in_line", step
    assert "filesort" not in (step["Extra"] or ""), step
    assert all(other["key"] == "PRIMARY" for other in joined)


@pytest.mark.parametrize("name", [*OF_LISTED_KEYS, *sorted(OF_ONE_KEY)])
def test_keys_are_looked_up(filled, name):
    listed, *steps = filled.plan(name, **COMMON | OF_LISTED_KEYS.get(name, {}))
    assert "json" in listed["Extra"].lower() or name in OF_ONE_KEY
    steps = [step for step in steps if step["table"] is not None]  # None: none is there
    found = {(step["table"], step["key"]) for step in steps}
    assert found <= {("keyed_jobs", "keyed_jobs_in_line"), ("jobs", "PRIMARY"), ("key_rates", "PRIMARY")}
    assert len(found) > 1
    assert {step["type"] for step in steps} <= {"ref", "eq_ref", "range", "const"}


@pytest.mark.parametrize("name", OF_RATES)
def test_rates_of_keys_are_found_by_key_or_by_their_time(filled, name):
    first, *_ = filled.plan(name, **COMMON | {"key": b"%16d" % 20, "before": NOW})  # without jobs
    assert first["key"] == OF_RATES[name], first
    assert first["type"] in {"range", "const"}, first


@pytest.mark.parametrize("name", sorted(OF_BOTH_KEYS))
def test_jobs_of_a_key_are_scanned_in_line_beside_the_one_that_is_unique_by_it(filled, name):
    shared, joined, unique, both = filled.plan(name, **COMMON | begin_of(name))
    assert (shared["key"], joined["key"], joined["type"]) == ("keyed_jobs_in_line", "PRIMARY", "eq_ref"), name
    assert unique["type"] == "const" or "const table" in unique["Extra"], unique
    assert not any(re.search("filesort|temporary", step["Extra"] or "") for step in (shared, joined, unique))
    assert both["select_type"] == "UNION RESULT"


@pytest.mark.parametrize("name", OF_MESSAGES)
def test_messages_are_found_by_job_and_name(filled, young, name):
    for tables in (filled, young):
        step = tables.plan(name, **COMMON)[-1]
        assert (step["key"], step["type"]) in {
            (OF_MESSAGES[name], kind) for kind in ("ref", "eq_ref", "range", "const")
        }, step


@pytest.mark.parametrize("name", OF_OUTGOING)
def test_messages_for_other_shards_are_found_by_shard_and_number(filled, name):
    step = filled.plan(name, **COMMON)[-1]
    assert step["key"] == OF_OUTGOING[name], step


def test_children_are_found_by_parent(filled, young):
    for tables in (filled, young):
        assert tables.plan("delete_children", **COMMON)[-1]["key"] == "PRIMARY"
        assert tables.plan("children_to_cancel", **COMMON)[0]["key"] == "PRIMARY"


@pytest.mark.parametrize("name", OF_FAILURES)
def test_failing_jobs_and_their_groups_are_found_by_an_index(filled, name):
    step = filled.plan(name, **COMMON | begin_of(name) | {"ids": [2, 4], "state": 0})
    [first] = [one for one in step if one["table"] in {"failing_jobs", "failure_groups", "looked_at"}][:1]
    assert first["key"] == OF_FAILURES[name], step


@pytest.mark.parametrize("name", sorted(BY_ID))
def test_jobs_addressed_by_id_are_found_by_id(filled, name):
    step = of_jobs(filled.plan(name, **COMMON))
    assert (step["key"], step["type"]) in BY_PRIMARY_KEY, step
    assert int(step["rows"]) <= len(IDS)


@pytest.mark.parametrize("name", sorted(BY_ID - {"stored_ids"}))  # which locks nothing
@pytest.mark.parametrize("ids", [IDS, list(range(MOST_LISTED))], ids=["few", "many"])
def test_nor_are_they_looked_for_among_the_others_where_these_are_few(young, name, ids):
    """Others may hold those, so that two who look for different jobs would wait for each other."""
    step = of_jobs(young.plan(name, **COMMON | {"ids": ids}))
    assert (step["key"], step["type"]) in BY_PRIMARY_KEY, step


@pytest.mark.parametrize(
    ("names", "key", "name"),
    [
        (["share_queues", "present_queue", "lock_queues", "queue_exists", "purge_queue"], "PRIMARY", None),
        (["locked_settings_of_queue", "change_queue_settings", "delete_queue"], "queues_by_name", "emails"),
        (
            ["update_bucket", "update_queue_lock", "delete_queue_lock", "delete_queue_settings", "reserve_ids"],
            "PRIMARY",
            None,
        ),
    ],
)
def test_whoever_locks_a_queue_or_its_tokens_walks_past_no_other(young, names, key, name):
    for statement in names:
        [step] = young.plan(statement, **COMMON | {"name": name})
        assert (step["key"], step["type"]) in {(key, "range"), (key, "const")}, (statement, step)


@pytest.mark.parametrize(
    "name", ["claimable_jobs", "peek_jobs", "count_jobs", "scan_jobs", "scan_jobs_oldest", "failed_jobs", "next_due"]
)
def test_the_index_narrows_by_all_that_it_can(filled, name):
    step = of_jobs(filled.plan(name, **COMMON | begin_of(name)))
    by_id = 8 if name.startswith(("scan_jobs", "failed_jobs")) else 0  # among jobs of one run_after
    assert int(step["key_len"]) == 4 + 1 + 1 + 8 + by_id, step


@pytest.mark.parametrize(
    ("name", "values", "most"),
    [
        ("claimable_jobs", {}, 25),
        ("claimable_jobs", {"now": 0}, 3),
        ("claimable_jobs", {"limit": 1}, 4),
        ("pending_behind", {}, 3),
        ("first_due", {}, 25),
        ("first_claim_expiring", {}, 3),
        ("first_succeeded", {}, 3),
        ("first_failed", {}, 3),
        ("states_in_use", {}, 100),
        ("due_queues", {"before": ALL}, 100),
        ("due_queues", {"before": 0}, 100),
        ("next_due", {}, 3),
        ("next_due", {"now": ALL - 1}, 3),
        ("claim_jobs", {}, 12),
        ("job_bodies", {}, 12),
        ("succeed_jobs", {}, 12),
        ("fail_attempts", {}, 12),
        ("fail_jobs", {}, 12),
        ("renew_jobs", {}, 12),
        ("checkpoint_job", {}, 3),
        ("lookup_jobs", {}, 12),
        ("expired_claims", {"now": NOW + 2000}, 25),
        ("expired_claims", {"now": 0}, 3),
        ("lock_jobs", {}, 12),
        ("unlocked_jobs", {}, 12),
        ("delete_ids", {}, 25),
        ("doomed_jobs", {}, 12),
        ("finished_jobs", {}, 25),
        ("finished_jobs", {"state": 3, "before": 0}, 3),
        ("failed_jobs", {}, 25),
        ("scan_jobs", LATEST | {"state": 0}, 25),
        ("scan_jobs", LATEST | {"run_after": NOW - 80_000, "id": 5}, 25),
        ("scan_jobs", LATEST | {"queue": 3, "state": 3, "run_after": NOW, "id": ALIKE + 1000}, 25),
        ("scan_jobs", LATEST | {"queue": 3, "state": 0, "run_after": NOW, "id": ALIKE + 1000}, 25),
        ("scan_jobs_oldest", {"queue": 3, "state": 0, "run_after": NOW, "id": ALIKE + 1000, "end": ALL}, 25),
        ("scan_retrying", LATEST, 35),
        ("scan_failing", LATEST | {"state": 0}, 35),
        ("scan_failing_oldest", OLDEST | {"state": 3}, 35),
        ("count_retrying", {"cap": 10}, 25),
        ("count_failing", {"state": 0, "cap": 10}, 25),
        ("count_failed_so", {"state": 3, "cap": 10}, 25),
        ("outdated_failing_jobs", {"state": 3}, 60),
        ("insert_failing_jobs", {}, 40),
        ("delete_failing_jobs", {}, 25),
        ("delete_revived_jobs", {}, 35),
        ("kept_failure_groups", {}, 12),
        ("failed_jobs", {"queue": 3, "after_run_after": NOW, "after_id": ALIKE + 4000}, 25),
        ("count_jobs", {"state": 0, "first": NOW + 1, "last": NOW + 60}, 25),
        ("jobs_of_queue", {}, 25),
        ("unique_jobs", {}, 6),
        ("states_of_keys", {"wanted": WANTED}, 20),
        ("states_of_keys", {"wanted": ABSENT}, 20),
        ("lines_of_keys", {"wanted": ABSENT}, 20),
        ("waiting_for_key", {}, 12),
        ("through_of_key", {}, 25),
        ("forget_rate_of_key", {}, 4),
        ("delete_keyed_job", {}, 3),
        ("delete_keyed_jobs", {}, 25),
        ("copy_keyed_jobs", {}, 24),
        ("keys_of_jobs", {}, 12),
        ("set_run_after", {}, 12),
        ("set_run_after_of_keyed", {}, 12),
        ("set_run_after_of_failing", {}, 12),
        ("succeed_with_results", {}, 12),
        ("told_children", {}, 12),
        ("inboxes", {}, 12),
        ("message_counts", {"counted": '[[4, "6576656e742030"]]'}, 6),
        ("known_messages", {}, 10),
        ("known_ends", {}, 10),
        ("message_sizes", {"name": b"event 0"}, 12),
        ("read_messages", {"name": b"event 0", "last": 5}, 12),
        ("wake_if_arrived", {"name": b"event 0", "number": 1}, 4),
        ("delete_messages", {"ids": [2000]}, 12),
        ("delete_some_messages", {}, 25),
        ("drop_messages", DROPPED, 25),
        ("delete_children", {}, 25),
        ("children_to_cancel", {}, 60),
        ("outgoing_left", {}, 2),  # none is that old
        ("outgoing_left", {"before": NOW + 5000}, 12),
        ("store_report", {}, 3),
        ("expired_reports", {}, 25),
        ("delete_expired_reports", {}, 12),
        ("report_sizes", {}, 12),
        ("reports", {}, 4),
    ],
)
def test_work_does_not_grow_with_the_table(filled, name, values, most):
    assert filled.rows_read(name, **{**COMMON, **values}) <= most
