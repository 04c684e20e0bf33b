"""The hot statements of the SQLite store on a large table: through an index, in its order, a few rows at a time."""

import re
import sqlite3

import pytest

from pinlater.protocol.messages import FAILED, IN_PROGRESS, PENDING, SUCCEEDED
from pinlater.server.backends.sqlite.database import SqliteDatabase
from pinlater.server.backends.sqlite.queries import QUERIES, by_ids

NOW = 1_700_000_000_000
ROWS = {"due": 100_000, "scheduled": 100_000, "claimed": 2_000, "finished": 60_000}
ALL = 2**63 - 1

FILL = """
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :rows)
INSERT INTO jobs (queue_id, state, priority, run_after, created_at, updated_at, attempts_allowed,
                  attempts_remaining, claim_expires, claim_lease, claim, body, unique_key)
SELECT i % 2 + 1, iif(:state = 2, 2 + i % 5 / 4, :state), i % 3 + 1, :run_after + i, 0, :run_after + i, 2, 2,
       iif(:state = 1, :run_after + i, NULL), 1000, iif(:state = 1, 'h:1:1:worker:1', NULL), 'body ' || i,
       iif(:state < 2 AND :run_after + i > :now AND i % 8 = 0, 'key ' || i || ' ' || :state, NULL)
FROM n
"""


FILL_ALIKE = """
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
INSERT INTO jobs (queue_id, state, priority, run_after, created_at, updated_at, attempts_allowed, attempts_remaining,
                  claim_expires, claim_lease, claim, body)
SELECT 3, i % 4, 1, :now, 0, :now, 2, 2, iif(i % 4 = 1, :now + 100000, NULL), 1000,
       iif(i % 4 = 1, 'h:1:1:worker:1', NULL), 'body'
FROM n
"""
"""Jobs of one millisecond."""

FILL_CHILDREN = """
INSERT INTO families (last_id, first_id, parent_id, parent, name, position)
SELECT id, id, 7, 'emails:s1:p1:7', 'join', 0 FROM jobs WHERE id % 2 = 0 AND id > 200000
"""

FILL_FAILURES = """
UPDATE jobs SET failure_group = 7 WHERE state IN (0, 3) AND id % 7 = 0;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200)
INSERT INTO failure_groups SELECT 1, i, 'Job', 'error', 'error', 0, 0, i FROM n
"""
"""A group with many jobs, and 199 without any."""

FILL_MESSAGES = """
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50000)
INSERT INTO messages (job_id, name, number, id, kind, payload) SELECT 7, 'join', i, i, 1, x'00' FROM n
"""
"""Of a job with many children."""

FILL_RESULTS = """
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50000)
INSERT INTO call_results (key, number, expires_at) SELECT CAST(printf('%016d', i) AS BLOB), i, :now + i % 2 FROM n
"""
"""Of which half have expired."""


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A connection to a store with a long history and a long future; two queues share it."""
    opened = SqliteDatabase(tmp_path_factory.mktemp("plans") / "pinlater.db", "OFF")
    connection = opened.writer()
    connection.execute("BEGIN")
    for name in ("emails", "thumbnails", "alike"):
        connection.execute(QUERIES["create_queue"], (name, NOW))
    for kind, state, run_after in (
        ("due", PENDING, NOW - 200_000),
        ("scheduled", PENDING, NOW + 1),
        ("claimed", IN_PROGRESS, NOW),
        ("finished", SUCCEEDED, NOW - 100_000),
    ):
        connection.execute(FILL, {"rows": ROWS[kind], "state": state, "run_after": run_after, "now": NOW})
    connection.execute(FILL_ALIKE, {"now": NOW})
    connection.execute(FILL_CHILDREN)
    connection.execute(FILL_MESSAGES)
    connection.execute(FILL_RESULTS, {"now": NOW})
    for statement in FILL_FAILURES.split(";"):
        connection.execute(statement)
    connection.execute("COMMIT")
    yield connection
    connection.close()
    opened.close()


def _plan(store, name):
    highest = max(map(int, re.findall(r"\?(\d+)", QUERIES[name])), default=0)
    return [row[3] for row in store.execute("EXPLAIN QUERY PLAN " + QUERIES[name], (None,) * highest)]


STATEMENTS = sorted(QUERIES.keys() - {"insert_jobs", "insert_keyed_jobs", "insert_results"})
SMALL = ("json_each", "queues", "settings", "deleted_receivers", "CONSTANT ROW", "(subquery", "asked", "levels")
"""What may be scanned: what a call brings along, tables with a row per queue, and work that is left."""

BY_FAILURE = "jobs_by_failure (queue_id=? AND failure_group=? AND state=?"
BY_WALK = {"claimed_of_queue", "claims_of_queue", "count_claimed", "scan_claimed", "oldest_of_queue", "states_in_use"}
BY_WALK |= {"scan_claimed_oldest"}
"""These walk over what workers hold at the moment: an index with nothing else in it."""


@pytest.mark.parametrize("name", STATEMENTS)
def test_no_statement_scans_the_jobs(store, name):
    for step in _plan(store, name):
        if name in BY_WALK and "USING" in step and "INDEX jobs_claimed" in step:
            continue
        assert not (step.startswith("SCAN") and not any(small in step for small in SMALL)), step


@pytest.mark.parametrize("name", sorted(set(STATEMENTS) - {"scan_claimed", "scan_claimed_oldest", "failure_groups"}))
def test_no_statement_sorts(store, name):
    assert not [step for step in _plan(store, name) if "ORDER BY" in step]


@pytest.mark.parametrize(
    ("name", "index"),
    {
        "unique_jobs": "jobs_unique (queue_id=? AND unique_key=?)",
        "claimable_jobs": "jobs_pending (queue_id=? AND priority=? AND run_after<?)",
        "first_due": "jobs_pending (queue_id=? AND priority=?)",
        "first_pending": "jobs_pending (queue_id=? AND priority=?)",
        "expired_claims": "jobs_claimed (claim_expires<?)",
        "collect_finished": "jobs_settled (state=? AND updated_at<?)",
        "failed_jobs": "jobs_finished (queue_id=? AND state=? AND priority=?)",
        "waiting_for_key": "jobs_keyed (queue_id=? AND job_key=? AND state=? AND run_after>?)",
        "running_of_key": "jobs_keyed (queue_id=? AND job_key=? AND state=?)",
        "running_of_keys": "jobs_keyed (queue_id=? AND job_key=? AND state=?)",
        "last_of_key": "jobs_keyed (queue_id=? AND job_key=? AND state=?)",
        "children_to_cancel": "families_open (parent_id=?)",
        "jobs_to_cancel": "jobs_cancelled_with_children (parent_id=?)",
        "count_messages": "PRIMARY KEY (job_id=? AND name=?)",
        "known_messages": "messages_by_id (job_id=? AND name=? AND id=?)",
        "messages": "PRIMARY KEY (job_id=? AND name=? AND number>?)",
        "forget_messages": "PRIMARY KEY (job_id=?)",
        "scan_pending": "jobs_pending (queue_id=? AND priority=? AND run_after>? AND run_after<?)",
        "count_finished": "jobs_finished (queue_id=? AND state=? AND priority=? AND run_after>? AND run_after<?)",
        "scan_retrying": "jobs_retrying (queue_id=? AND priority=? AND run_after>? AND run_after<?)",
        "scan_failing_oldest": f"{BY_FAILURE} AND run_after>? AND run_after<?)",
        "count_failing": f"{BY_FAILURE} AND run_after>? AND run_after<?)",
        "count_failed_so": f"{BY_FAILURE})",
        "scan_finished": "jobs_finished (queue_id=? AND state=? AND priority=? AND run_after>? AND run_after<?)",
    }.items(),
)
def test_the_index_narrows_by_all_that_it_can(store, name, index):
    assert any(index in step for step in _plan(store, name)), _plan(store, name)


def test_the_states_of_keys_are_read_by_ranges_of_an_index(store):
    of_key = "SEARCH jobs USING INDEX jobs_keyed (queue_id=? AND job_key=? AND state=? AND run_after"
    covering = of_key.replace("INDEX", "COVERING INDEX")
    steps = [step.replace("jobs EXISTS", "jobs") for step in _plan(store, "states_of_keys")]  # newer SQLite
    found = [step for step in steps if "SEARCH jobs" in step]
    assert sorted(found) == sorted([f"{covering}>?)", f"{of_key}>?)", f"{covering}<?)", f"{of_key}>? AND run_after<?)"])


@pytest.mark.parametrize(
    "name",
    [
        "claim_jobs",
        "claim_jobs_of_many",
        "claims_of_jobs",
        "holders_of_jobs",
        "succeed_held_jobs",
        "bodies_of_jobs",
        "succeed_jobs",
        "succeed_job",
        "fail_job",
        "end_job",
        "claim_of_job",
        "checkpoint_job",
        "renew_jobs",
        "release_jobs",
        "lookup_job",
        "retry_jobs",
        "delete_jobs",
        "retry_this_job",
        "succeed_jobs_with_results",
        "asked_of_queue",
        "states_of_jobs",
        "cancel_pending",
        "ask_to_stop",
        "mark_with_children",
        "finish_cancellation",
        "told_by_jobs",
        "receivers",
        "parent_to_be",
        "expire_jobs",
        "delete_by_id",
    ],
)
def test_jobs_addressed_by_id_are_found_by_id(store, name):
    assert "SEARCH jobs USING INTEGER PRIMARY KEY (rowid=?)" in _plan(store, name)


@pytest.mark.parametrize("name", ["claim_jobs", "succeed_jobs"])
def test_jobs_with_ids_in_a_row_are_found_by_id(store, name):
    plan = [row[3] for row in store.execute(f"EXPLAIN QUERY PLAN {by_ids(name).in_a_row}", [1] * 6)]
    assert plan == ["SEARCH jobs USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"]


class _Steps:
    """Counts the instructions of SQLite's machine, in hundreds: what a statement really does."""

    def __init__(self, connection):
        self._connection = connection

    def of(self, sql, parameters):
        hundreds = 0

        def count():
            nonlocal hundreds
            hundreds += 1
            return 0

        self._connection.set_progress_handler(count, 100)
        self._connection.execute("SAVEPOINT work")
        try:
            rows = self._connection.execute(sql, parameters).fetchall()
        finally:
            self._connection.execute("ROLLBACK TO work")
            self._connection.execute("RELEASE work")
            self._connection.set_progress_handler(None, 0)
        return rows, hundreds


@pytest.mark.parametrize(
    ("name", "parameters", "rows", "most_hundreds"),
    [
        ("claimable_jobs", (1, NOW, 2, 10), 1, 20),
        ("claimable_jobs", (1, 0, 2, 10), 1, 2),
        ("claim_jobs", (NOW, "c", NOW, 1000, "[2, 4, 6, 8, 10]"), 0, 20),
        ("claim_jobs_of_many", (NOW, '[[2, "c", 9], [4, "d", 9], [6, "c", 9]]'), 0, 20),
        ("claims_of_jobs", (1, "[2, 4, 200002]"), 1, 10),
        ("holders_of_jobs", (1, "[2, 4, 200002]"), 1, 10),
        ("succeed_held_jobs", (NOW, "[200008, 200010, 200012]"), 0, 10),
        ("bodies_of_jobs", ("[2, 4, 6, 8, 10]",), 1, 10),
        ("first_pending", (1, "[1, 2, 3]"), 1, 2),
        ("expired_claims", (NOW + 20, 10**6, 1000, 10), 10, 10),
        ("expired_claims", (NOW, 10**6, 1000, 10), 0, 2),
        ("collect_finished", (SUCCEEDED, NOW, 10), 10, 40),
        ("collect_finished", (FAILED, 0, 10), 0, 2),
        ("failed_jobs", (1, 1, 10), 10, 10),
        ("scan_pending", (1, 1, 0, False, ALL, ALL, 10), 10, 10),
        ("scan_pending", (1, 1, 0, False, NOW + 50_000, 5, 10), 10, 10),
        ("scan_pending", (3, 1, 0, False, NOW, 264_000, 10), 10, 10),
        ("count_pending", (1, 1, NOW + 1, NOW + 60, 1000), 1, 10),
        ("count_retrying", (1, 1, 0, ALL, 10), 1, 10),
        ("count_failing", (1, 0, 0, ALL, 10, PENDING, 7), 1, 10),
        ("count_failed_so", ("[[1, 7], [1, 8], [2, 7]]", 10), 1, 20),
        ("first_due", ("[1, 2, 3, 4]", "[1, 2, 3]"), 1, 20),
        ("scan_pending_oldest", (1, 1, ALL, 0, NOW + 50_000, 5, 10), 10, 10),
        ("scan_retrying", (1, 1, 0, 0, ALL, ALL, 10), 10, 10),
        ("scan_retrying_oldest", (1, 1, ALL, 0, 0, 0, 10), 10, 10),
        ("scan_failing", (1, 0, 0, 0, ALL, ALL, 10, PENDING, 7), 10, 10),
        ("scan_failing_oldest", (1, 0, ALL, 0, 0, 0, 10, FAILED, 7), 10, 10),
        ("kept_failure_groups", (1, "[7, 8]"), 2, 2),
        ("failure_groups_to_look_at", (NOW, 10), 10, 80),
        ("oldest_of_queue", (1, 10), 10, 10),
        ("next_job_id", (), 1, 2),
        ("scan_finished", (1, 1, 0, False, NOW - 70_000, 5, 10, FAILED), 10, 10),
        ("scan_finished", (3, 1, 0, False, NOW, 264_000, 10, FAILED), 10, 10),
        ("count_finished", (1, 1, NOW - 99_970, NOW - 99_900, 1000, FAILED), 1, 10),
        ("lookup_job", (2, 100_001, 2, True, True), 1, 2),
        ("known_messages", ('[[7, "join", "40000"], [7, "join", "new"]]',), 1, 3),
        ("store_messages", ('[[7, "join", "new", 50001, 1, 1, 1]]', b"x"), 0, 3),
        ("count_messages", (7, "join"), 1, 2),
        ("messages", (2, 7, 2, "join", 40_000, 10), 10, 10),
        ("receivers", ("[2, 4]", FAILED), 2, 2),
        ("told_by_jobs", (1, "[202002, 202004, 7]", 2, 3, None), 2, 2),
        ("children_to_cancel", ("[7]", 10), 10, 5),
        ("asked_of_queue", (1, "[200008, 200010, 200012]"), 0, 2),
        ("unique_jobs", (1, '["key 800 0", "key 1600 1", "key 1", "none"]'), 2, 10),
        ("succeed_jobs", (1, NOW, None, 3, "[200008, 200010, 200012]"), 0, 10),
        ("call_result", (b"0000000000020001", NOW), 1, 2),
        ("result_key_behind", (b"0000000000020000", 100), 1, 5),
        ("expired_results", (b"0000000000020000", b"0000000000020100", NOW, 1000), 1, 20),
        ("expired_results", (b"0000000000020000", b"0000000000050000", NOW, 10), 1, 5),
        ("forget_results", (b"0000000000020000", b"0000000000020100", NOW), 0, 30),
    ],
)
def test_work_does_not_grow_with_the_table(store, name, parameters, rows, most_hundreds):
    found, hundreds = _Steps(store).of(QUERIES[name], parameters)
    assert len(found) == rows
    assert hundreds <= most_hundreds


def test_the_versions_that_these_plans_hold_for():
    assert sqlite3.sqlite_version_info >= (3, 35), "RETURNING and iif() need SQLite 3.35"
