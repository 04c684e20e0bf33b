"""The hot statements of the MySQL store on a large table: through an index, in its order, a few rows at a time."""

import re

import pytest

from pinlater.server.backends.mysql.queries import MOST_LISTED
from tests.integration.mysql_statements import (
    ABSENT,
    BY_ID,
    BY_KEY,
    BY_MOMENT,
    BY_PRIMARY_KEY,
    COMMON,
    COPIES_BY_ID,
    DROPPED,
    FIRST_ONLY,
    IDS,
    IN_ORDER,
    LATEST,
    OF_BOTH_KEYS,
    OF_FAILURES,
    OF_KEYS,
    OF_LISTED_KEYS,
    OF_MESSAGES,
    OF_ONE_KEY,
    OF_OUTGOING,
    OF_PERIODS,
    OF_QUEUES,
    OF_RATES,
    OF_REPORTS,
    OF_RESULTS,
    OF_STATISTICS,
    OLDEST,
    STATEMENTS,
    WANTED,
    begin_of,
)
from tests.support.mysql_tables import ALIKE, ALL, NOW, ROWS, Filled


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
        (["update_setting", "delete_setting", "reserve_ids"], "PRIMARY", "bucket of queue 1"),
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
