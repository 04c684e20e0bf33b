"""The named statements of ``queries.sql``, and the binding of values.

To save round trips, the store sends several statements in one packet, and the driver cannot bind parameters in those.
So values are written as literals, and only here. Every connection sets ``NO_BACKSLASH_ESCAPES``, under which the quote
is the only special character in a literal.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from pinlater.model.body_metadata import OPEN_SAGA, UNDOES_CANCELLED

Value = int | float | str | bytes | Sequence[int] | Sequence[bytes] | None
"""A value that a statement can take."""

STATEMENT_BYTES = 1_000_000
"""Largest INSERT statement with several rows; the server parses a statement as a whole."""

MOST_LISTED = 5000
"""Most ids or keys in a statement that changes rows; the server stops a statement that takes too long."""

_T = TypeVar("_T")

_NAME = re.compile(r"^-- name: (\w+)\s*$", re.MULTILINE)
_COMMENT = re.compile(r"--.*")
_VALUE = re.compile(rb":(\w+)")
_IS_DUE_AT_ONCE = f"(is_cancelled AND LOCATE(X'{UNDOES_CANCELLED.hex()}', body) = 0)"
_HAS_TO_UNDO = f"(LOCATE(X'{OPEN_SAGA.hex()}', body) > 0)"
"""Whether a job has something to undo, by its body; a job that is asked to stop and has nothing to undo ends."""
_OF_WANTED_KEYS = """FROM JSON_TABLE(:wanted, '$[*]' COLUMNS (
    place FOR ORDINALITY, queue INT PATH '$[0]', name VARCHAR(1600) CHARACTER SET ascii PATH '$[1]')) AS wanted"""
_DATABASE = re.compile(r"[A-Za-z0-9_]{1,64}")


def blob(value: bytes) -> bytes:
    """Return the SQL literal of bytes."""
    return b"_binary'" + value.replace(b"'", b"''") + b"'"


def text(value: str) -> bytes:
    """Return the SQL literal of a string, in the connection's character set, UTF-8."""
    return b"'" + value.encode().replace(b"'", b"''") + b"'"


def one_row(queries: Iterable[bytes]) -> bytes:
    """Combine single-value queries into one query whose row has their values, NULL where a query found nothing."""
    return b"SELECT (" + b"), (".join(queries) + b")"


def with_last_row(rows: bytes, columns: int, queries: Sequence[bytes]) -> bytes:
    """Return one query for the rows of ``rows``, which has ``columns`` columns, and then the row of ``one_row``.

    The columns of ``one_row`` come first. They are NULL in the other rows, and the columns of ``rows`` in the last row.
    """
    nothing, own = b", ".join([b"NULL"] * columns), b"NULL, " * len(queries)
    return b"SELECT %b rows_before.* FROM (%b) AS rows_before UNION ALL %b, %b" % (
        own,
        rows,
        one_row(queries),
        nothing,
    )


def insertions(head: bytes, rows: Iterable[bytes]) -> Iterator[bytes]:
    """Yield statements that insert rows, none larger than ``STATEMENT_BYTES`` unless a single row is."""
    written: list[bytes] = []
    size = 0
    for row in rows:
        if written and size + len(row) > STATEMENT_BYTES:
            yield head + b",".join(written)
            written, size = [], 0
        written.append(row)
        size += len(row)
    if written:
        yield head + b",".join(written)


def in_lists(values: Sequence[_T]) -> Iterator[Sequence[_T]]:
    """Yield the values in lists of up to ``MOST_LISTED``."""
    for start in range(0, len(values), MOST_LISTED):
        yield values[start : start + MOST_LISTED]


def _list(values: Sequence[int] | Sequence[bytes]) -> bytes:
    """Return the items of a list; numbers fit into SQL and JSON alike. An empty list matches nothing."""
    if values and isinstance(values[0], bytes):
        return b",".join(map(blob, values))  # type: ignore[arg-type]
    return ",".join(map(str, values)).encode() or b"null"


def _literal(value: Value) -> bytes:
    if value is None:
        return b"NULL"
    if isinstance(value, int):
        return b"%d" % value
    if isinstance(value, float):
        return repr(value).encode()
    if isinstance(value, str):
        return text(value)
    return blob(value) if isinstance(value, bytes) else _list(value)


class Queries:
    """The statements for one database.

    Args:
        database: name of the database.
    """

    def __init__(self, database: str) -> None:
        if not _DATABASE.fullmatch(database):
            raise ValueError(f"{database!r} is not a valid database name; use letters, digits and underscores")
        self.database = database
        pieces = _NAME.split(_read("queries.sql"))
        texts = dict(zip(pieces[1::2], pieces[2::2], strict=True))
        self._pieces = {
            name: _VALUE.split(" ".join(_sql(text, database).split()).encode())
            for name, text in _in_both_forms(dict(_in_both_orders(_with_shared_parts(texts))))
        }

    @property
    def names(self) -> list[str]:
        """The names of all statements."""
        return list(self._pieces)

    def bind(self, name: str, /, **values: Value) -> bytes:
        """Return a statement with its values bound; a missing value is a ``KeyError``."""
        pieces = self._pieces[name]
        if len(pieces) == 1:
            return pieces[0]
        literals = {key.encode(): _literal(value) for key, value in values.items()}
        return b"".join(literals[piece] if at % 2 else piece for at, piece in enumerate(pieces))

    def schema(self, version: int) -> list[bytes]:
        """Return the statements that upgrade a database from ``version - 1`` to ``version``."""
        script = _sql(_read(f"schema_{version}.sql"), self.database)
        return [sql.strip().encode() for sql in script.split(";") if sql.strip()]


def _with_shared_parts(texts: dict[str, str]) -> dict[str, str]:
    """Return the statements by name, with the parts that several of them share inserted."""
    everything = "".join(texts.values())
    parts = {name: texts.pop(name) for name in list(texts) if f"{{{name}}}" in everything}
    for part, content in parts.items():
        texts = {name: text.replace(f"{{{part}}}", _COMMENT.sub("", content).strip()) for name, text in texts.items()}
    return texts


def _in_both_orders(texts: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the statements by name; a scan becomes two, latest run_after first and oldest first."""
    for name, text in texts.items():
        if "{order}" in text:
            yield name, _ordered(text, ">=", "<", "DESC")
            yield f"{name}_oldest", _ordered(text, "<=", ">", "ASC")
        else:
            yield name, text


def _in_both_forms(texts: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the statements by name; one about listed keys becomes two, the other one about a single key."""
    for name, text in texts.items():
        yield name, text.replace("{of_wanted_keys}", _OF_WANTED_KEYS)
        if "{of_wanted_keys}" in text:
            alone = text.replace("SELECT place,", "SELECT 1,").replace("{of_wanted_keys}", "")
            yield f"{name}_alone", alone.replace("wanted.queue", ":queue").replace("UNHEX(wanted.name)", ":key")


def _ordered(text: str, within: str, behind: str, order: str) -> str:
    return text.replace("{within}", within).replace("{behind}", behind).replace("{order}", order)


def _read(file: str) -> str:
    return Path(__file__).with_name(file).read_text(encoding="utf-8")


def _sql(text: str, database: str) -> str:
    parts = {
        "{db}": database,
        "{has_to_undo}": _HAS_TO_UNDO,
        "{is_to_end}": f"(is_cancelled AND NOT {_HAS_TO_UNDO})",
        "{is_due_at_once}": _IS_DUE_AT_ONCE,
    }
    text = _COMMENT.sub("", text)
    for name, part in parts.items():
        text = text.replace(name, part)
    return text
