"""The statements of the MySQL store, with values for their parameters, sorted by how they should find their rows."""

import json

from pinlater.server.backends.mysql.queries import Queries
from tests.support.mysql_tables import ALL, CLAIMED, NOW

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
    "expires_at": NOW, "bytes": 1, "value": NOW, "was": 1, "report": b"x",
    "key": b"%16d" % 10, "number": 0, "is_put_off": False, "kind": 0, "resolution": 60, "since": 0, "rows": 10,
    "now_us": NOW, "times": [1, 2, 3, 4, 5], "small": 2000, "levels": [1, 2, 3],
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
    "set_rate_of_key", "store_clock_record", "create_setting", "count_probe", "rollback", "size",
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
    "queue_settings", "settings_of_queue", "locked_settings_of_queue", "change_queue_settings",
    "reserve_ids", "lock_queues", "purge_queue",
    "setting", "update_setting", "delete_setting",
    "lock_version", "try_to_write", "first_deleted_queue", "store_listener", "listeners", "delete_listeners",
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
