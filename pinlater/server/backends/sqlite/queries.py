"""The named queries of ``queries.sql``."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

_NAME = re.compile(r"^-- name: (\w+)\s*$", re.MULTILINE)
_COMMENT = re.compile(r"^\s*--.*\n?", re.MULTILINE)

_pieces = _NAME.split(Path(__file__).with_name("queries.sql").read_text(encoding="utf-8"))
_texts = {name: _COMMENT.sub("", text).strip() for name, text in zip(_pieces[1::2], _pieces[2::2], strict=True)}
_record_columns = _texts.pop("record_columns")
QUERIES = {name: text.replace("{record_columns}", _record_columns) for name, text in _texts.items()}
"""Name -> SQL text."""


def schema(version: int) -> str:
    """Return the script that brings a store from ``version - 1`` to ``version``."""
    return Path(__file__).with_name(f"schema_{version}.sql").read_text(encoding="utf-8")


@lru_cache(maxsize=128)
def insert_jobs(rows: int) -> str:
    """Return the insertion of that many jobs at once: ?1 queue id, ?2 now, then six parameters a row.

    One statement for many rows, because Python releases its interpreter lock and takes it back
    around each statement, and taking it back can mean waiting for the event loop.
    """
    values = ", ".join(
        f"(?{n}, ?1, 0, ?{n + 1}, ?{n + 2}, ?2, ?2, ?{n + 3}, ?{n + 3}, ?{n + 4}, ?{n + 5})"
        for n in range(3, 3 + 6 * rows, 6)
    )
    return QUERIES["insert_jobs"] + " " + values


@lru_cache(maxsize=128)
def insert_results(rows: int) -> str:
    """Return the insertion of so many results of calls, three parameters a row; those with a known key are left out."""
    return QUERIES["insert_results"] + " " + ", ".join(["(?, ?, ?)"] * rows)


@lru_cache(maxsize=128)
def insert_keyed_jobs(rows: int) -> str:
    """Return the same for jobs of which some have keys or parents, with eleven parameters a row."""
    values = ", ".join(
        f"(?{n}, ?1, 0, ?{n + 1}, ?{n + 2}, ?2, ?2, ?{n + 3}, ?{n + 3}, ?{n + 4}, ?{n + 5}, "
        f"?{n + 6}, ?{n + 7}, ?{n + 8}, ?{n + 9}, ?{n + 10})"
        for n in range(3, 3 + 11 * rows, 11)
    )
    return QUERIES["insert_keyed_jobs"] + " " + values
