"""The named queries of ``queries.sql``."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from pinlater.model.body_metadata import OPEN_SAGA, UNDOES_CANCELLED

_NAME = re.compile(r"^-- name: (\w+)\s*$", re.MULTILINE)
_ID_LIST = re.compile(r"\bid IN \(SELECT value FROM json_each\(\?(\d+)\)\)")
_COMMENT = re.compile(r"^\s*--.*\n?", re.MULTILINE)

_pieces = _NAME.split(Path(__file__).with_name("queries.sql").read_text(encoding="utf-8"))
_texts = {name: _COMMENT.sub("", text).strip() for name, text in zip(_pieces[1::2], _pieces[2::2], strict=True)}
_record_columns = _texts.pop("record_columns")
_scan, _scan_unique = _texts.pop("scan"), _texts.pop("scan_unique")
_SCANS = {
    "pending": {"index": "jobs_pending", "which": "state = 0 AND priority = ?2"},
    "claimed": {"index": "jobs_claimed", "which": "state = 1 AND priority = ?2"},
    "finished": {"index": "jobs_finished", "which": "state >= 2 AND unlikely(state = ?8) AND priority = ?2"},
    "retrying": {"index": "jobs_retrying", "which": "failure_group IS NOT NULL AND state = 0 AND priority = ?2"},
    "failing": {
        "index": "jobs_by_failure",
        "which": "failure_group IS NOT NULL AND state IN (0, 3) AND unlikely(state = ?8) AND failure_group = ?9",
    },
    "keyed": {
        "index": "jobs_keyed",
        "which": "job_key IS NOT NULL AND state <= 1 AND unlikely(state = ?8) AND job_key = ?9",
        "besides": f"UNION ALL {_scan_unique}",
    },
}
_LATEST_FIRST = {"within": ">=", "behind": "<", "order": "DESC"}
_OLDEST_FIRST = {"within": "<=", "behind": ">", "order": "ASC"}

for _kind, _jobs in _SCANS.items():
    for _suffix, _order in ("", _LATEST_FIRST), ("_oldest", _OLDEST_FIRST):
        _whole = _scan.replace("{besides}", _jobs.get("besides", ""))
        _texts[f"scan_{_kind}{_suffix}"] = _whole.format(record_columns="{record_columns}", **_jobs, **_order)

_HAS_TO_UNDO = f"instr({{body}}, x'{OPEN_SAGA.hex()}') > 0"
_IS_TO_END = f"(is_cancelled AND NOT {_HAS_TO_UNDO})"
_IS_DUE_AT_ONCE = f"(is_cancelled AND instr({{body}}, x'{UNDOES_CANCELLED.hex()}') = 0)"
_FAMILY = "(SELECT last_id FROM families WHERE last_id >= {id} ORDER BY last_id LIMIT 1)"
_PARENT = """(
    SELECT iif(first_id <= jobs.id, json_array(families.parent, name, position + jobs.id - first_id), NULL)
    FROM families WHERE last_id >= jobs.id ORDER BY last_id LIMIT 1
)"""
_HAS_UNFINISHED = """((
    SELECT id FROM jobs NOT INDEXED WHERE id BETWEEN first_id AND last_id AND state <= 1 ORDER BY id DESC LIMIT 1
) IS NOT NULL)"""  # from the last one on, which is unfinished for longest
_PARTS = {
    "{record_columns}": _record_columns.replace("{parent}", _PARENT),
    "{family_of_job}": _FAMILY.format(id="jobs.id"),
    "{family_of_value}": _FAMILY.format(id="value"),
    "{family_of_given}": _FAMILY.format(id="?1"),
    "{has_unfinished}": _HAS_UNFINISHED,
    "{has_to_undo}": _HAS_TO_UNDO.format(body="body"),
    "{is_to_end}": _IS_TO_END.format(body="body"),
    "{is_to_end_then}": _IS_TO_END.format(body="coalesce(?4, body)"),
    "{is_due_at_once_then}": _IS_DUE_AT_ONCE.format(body="coalesce(?4, body)"),
}
"""Parts that several queries share, such as whether a job has something to undo, by its body, whether a job that is
asked to stop ends now, since it has nothing to undo, or is due at once, since it does not undo that yet; the only
family that a job may be of, and whether a family has unfinished jobs."""


def _completed(text: str) -> str:
    for name, part in _PARTS.items():
        text = text.replace(name, part)
    return text


QUERIES = {name: _completed(text) for name, text in _texts.items()}
"""Name -> SQL text."""


class ByIds(NamedTuple):
    """A statement about the jobs with certain ids, in two forms.

    Attributes:
        listed: its last parameter is a JSON list of the ids.
        in_a_row: its last two parameters are the first and the last of ids without gaps, which jobs that were stored
            together have. There is no list to read and sort, which saves 5 to 10 % of a claim or an ack.
    """

    listed: str
    in_a_row: str


def by_ids(name: str) -> ByIds:
    """Return both forms of a query whose last parameter is a list of ids."""
    listed = QUERIES[name]
    in_a_row, count = _ID_LIST.subn(lambda found: f"id BETWEEN ?{found[1]} AND ?{int(found[1]) + 1}", listed)
    assert count == 1
    return ByIds(listed, in_a_row)


def schema(version: int) -> str:
    """Return the script that brings a store from ``version - 1`` to ``version``."""
    return Path(__file__).with_name(f"schema_{version}.sql").read_text(encoding="utf-8")


@lru_cache(maxsize=128)
def insert_jobs(rows: int) -> str:
    """Return the insertion of that many jobs at once: ?1 queue id, ?2 now, then six parameters per row.

    One statement inserts many rows, because Python releases its interpreter lock around each statement, and taking it
    back can mean waiting for the event loop.
    """
    values = ", ".join(
        f"(?{n}, ?1, 0, ?{n + 1}, ?{n + 2}, ?2, ?2, ?{n + 3}, ?{n + 3}, ?{n + 4}, ?{n + 5})"
        for n in range(3, 3 + 6 * rows, 6)
    )
    return QUERIES["insert_jobs"] + " " + values


@lru_cache(maxsize=128)
def insert_results(rows: int) -> str:
    """Return the insertion of that many results of calls, three parameters per row; it skips keys that exist."""
    return QUERIES["insert_results"] + " " + ", ".join(["(?, ?, ?)"] * rows)


@lru_cache(maxsize=128)
def insert_keyed_jobs(rows: int) -> str:
    """Return the same for jobs of which some have keys, with ten parameters per row."""
    values = ", ".join(
        f"(?{n}, ?1, 0, ?{n + 1}, ?{n + 2}, ?2, ?2, ?{n + 3}, ?{n + 3}, ?{n + 4}, ?{n + 5}, "
        f"?{n + 6}, ?{n + 7}, ?{n + 8}, ?{n + 9})"
        for n in range(3, 3 + 10 * rows, 10)
    )
    return QUERIES["insert_keyed_jobs"] + " " + values
