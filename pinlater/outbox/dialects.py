"""The SQL that differs between the databases that can have an outbox."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pinlater.errors import ConfigError

_TABLE_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)?", re.ASCII)
_INDEX_SUFFIX = "_due"
_LONGEST_NAME = 63 - len(_INDEX_SUFFIX)
"""PostgreSQL cuts names to 63 characters: that of the index, and that of the channel on which it notifies."""

_POSTGRESQL = """\
CREATE TABLE {table} (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue text NOT NULL,
    body bytea NOT NULL,
    options text NOT NULL,
    enqueued_at_ms bigint NOT NULL,
    call_key bytea,
    call_rows integer,
    retry_at_ms bigint NOT NULL DEFAULT 0,
    refusals integer NOT NULL DEFAULT 0,
    error text
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
CREATE INDEX {index} ON {table} (retry_at_ms, id);
"""

_MYSQL = """\
CREATE TABLE {table} (
    id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    queue VARCHAR(255) NOT NULL,
    body LONGBLOB NOT NULL,
    options MEDIUMTEXT NOT NULL,
    enqueued_at_ms BIGINT NOT NULL,
    call_key BINARY(16),
    call_rows INT,
    retry_at_ms BIGINT NOT NULL DEFAULT 0,
    refusals INT NOT NULL DEFAULT 0,
    error TEXT,
    KEY {index} (retry_at_ms, id)
) ENGINE = InnoDB DEFAULT CHARACTER SET = utf8mb4;
"""

_SQLITE = """\
CREATE TABLE {table} (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    queue TEXT NOT NULL,
    body BLOB NOT NULL,
    options TEXT NOT NULL,
    enqueued_at_ms INTEGER NOT NULL,
    call_key BLOB,
    call_rows INTEGER,
    retry_at_ms INTEGER NOT NULL DEFAULT 0,
    refusals INTEGER NOT NULL DEFAULT 0,
    error TEXT
);
CREATE INDEX {index} ON {name} (retry_at_ms, id);
"""

_INSERT = "INSERT INTO {table} (queue, body, options, enqueued_at_ms) VALUES {rows}"

_INSERT_AND_NOTIFY = (
    f"WITH stored AS ({_INSERT} RETURNING id) "  # noqa: S608 - the name of the table is checked
    "SELECT pg_notify('{table}', '') FROM stored LIMIT 1"
)
"""Notifies the relay when the transaction is committed, once however many jobs it stores."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """The SQL of one kind of database.

    Attributes:
        name: ``postgresql``, ``mysql`` (also for MariaDB) or ``sqlite``.
        create: creates the table and its index; with ``{table}``, ``{index}``, and ``{name}`` for the table's name
            without its schema.
        insert: inserts rows, and notifies the relay if the database can.
        begin: begins a transaction that writes.
    """

    name: str
    create: str
    insert: str
    begin: str


DIALECTS = {
    dialect.name: dialect
    for dialect in (
        Dialect("postgresql", _POSTGRESQL, _INSERT_AND_NOTIFY, "BEGIN"),
        Dialect("mysql", _MYSQL, _INSERT, "START TRANSACTION"),
        Dialect("sqlite", _SQLITE, _INSERT, "BEGIN IMMEDIATE"),
    )
}
_OTHER_NAMES = {"mariadb": "mysql", "postgres": "postgresql", "sqlite3": "sqlite"}


def dialect_of(name: str) -> Dialect:
    """Return a dialect by its name.

    Raises:
        ConfigError: no such database can have an outbox.
    """
    try:
        return DIALECTS[_OTHER_NAMES.get(name, name)]
    except KeyError:
        raise ConfigError(f"{name!r} cannot have an outbox; there is one for {', '.join(DIALECTS)}") from None


def check_table(table: str) -> str:
    """Return the name of a table, which may have a schema before it.

    Raises:
        ConfigError: it cannot be written into SQL without quotes.
    """
    if not _TABLE_NAME.fullmatch(table) or len(table) > _LONGEST_NAME:
        raise ConfigError(
            f"table {table!r}: use letters, digits and underscore, with a schema and a dot before it if need be, "
            f"at most {_LONGEST_NAME} characters in all"
        )
    return table


def create_table(dialect: Dialect, table: str) -> str:
    """Return the statements that create the table and its index."""
    schema, _, name = table.rpartition(".")
    index = f"{name}{_INDEX_SUFFIX}"
    inner = f"{schema}.{index}" if schema and dialect.name == "sqlite" else index
    return dialect.create.format(table=table, index=inner, name=name)


def table_statements(dialect: Dialect, table: str) -> list[str]:
    """Return the statements of ``create_table`` one by one, without semicolons."""
    return create_table(dialect, table).rstrip(";\n").split(";\n")


def insert(dialect: Dialect, table: str, rows: int, paramstyle: str, *, notify: bool) -> str:
    """Return the statement that inserts some rows, with four parameters for each."""
    names = iter(range(1, 4 * rows + 1))
    values = ", ".join(f"({', '.join(placeholder(paramstyle, next(names)) for _ in range(4))})" for _ in range(rows))
    text = dialect.insert if notify else _INSERT
    return text.format(table=table, rows=values)


def placeholder(paramstyle: str, number: int) -> str:
    """Return the placeholder of a parameter in SQL; the first parameter has the number 1.

    Raises:
        ConfigError: parameters of this style are not positional.
    """
    if paramstyle in {"format", "pyformat"}:
        return "%s"
    if paramstyle == "qmark":
        return "?"
    if paramstyle == "numeric":
        return f":{number}"
    if paramstyle == "numeric_dollar":
        return f"${number}"
    raise ConfigError(f"a driver with paramstyle {paramstyle!r} is not supported; use another one")


def with_placeholders(sql: str, paramstyle: str) -> str:
    """Return SQL with each ``?`` replaced by the placeholder of a driver."""
    if paramstyle == "qmark":
        return sql
    first, *others = sql.split("?")
    return first + "".join(placeholder(paramstyle, number) + part for number, part in enumerate(others, 1))


def id_list(ids: Sequence[int]) -> str:
    """Return ids in the form for ``IN (...)``."""
    return ", ".join(str(int(each)) for each in ids)


def plain(value: Any) -> Any:
    """Return a value that a driver has read; a memoryview or bytearray as bytes."""
    return bytes(value) if isinstance(value, (memoryview, bytearray)) else value
