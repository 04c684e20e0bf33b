"""Session setup: what a connection reads from its server, which servers it rejects, and which settings it makes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

LOCK_WAIT_SECONDS = 2
STATEMENT_SECONDS = 4
"""The server stops a statement after this time, so that statements nobody waits for end. MySQL stops only reads."""

TABLE_LOCK_SECONDS = 5
"""A statement waits this long for a table that another session has locked, such as a backup: longer than an
attempt of a transaction. On MySQL, one that nobody waits for would otherwise wait, and keep its connection, until the
table is free."""

IDLE_IN_TRANSACTION_SECONDS = 5
"""MariaDB rolls back a transaction that is idle for this long, which frees its locks even if this machine has crashed
or hangs. No call takes more than a few seconds."""

IDLE_SECONDS = 300
IDLE_SECONDS_MYSQL = 10
"""The server closes a connection that is idle for this long. MySQL has no limit for idle transactions, so its limit for
idle connections has to be low."""

NETWORK_SECONDS = 10
"""The server closes a connection that blocks for this long in the middle of a statement or an answer."""

_VARIABLES = "'wsrep_on', 'group_replication_group_name', 'group_replication_single_primary_mode'"
SERVER_INFO_QUERIES = (
    b"SELECT @@max_allowed_packet, VERSION()",
    f"SHOW VARIABLES WHERE Variable_name IN ({_VARIABLES})".encode(),
)

_SETTINGS = (
    "sql_mode = 'STRICT_ALL_TABLES,NO_BACKSLASH_ESCAPES', sql_notes = 0, sql_safe_updates = 0, time_zone = '+00:00', "
    "autocommit = 1, completion_type = NO_CHAIN, sql_select_limit = 18446744073709551615, "
    f"innodb_lock_wait_timeout = {LOCK_WAIT_SECONDS}, lock_wait_timeout = {TABLE_LOCK_SECONDS}, "
    f"net_read_timeout = {NETWORK_SECONDS}, net_write_timeout = {NETWORK_SECONDS}"
)
_MARIADB = (
    f"idle_transaction_timeout = {IDLE_IN_TRANSACTION_SECONDS}, wait_timeout = {IDLE_SECONDS}, "
    f"max_statement_time = {STATEMENT_SECONDS}, "
    "in_predicate_conversion_threshold = 0"  # above it, it may scan a table, and wait for its locks, for a list of ids
)
_MYSQL = (
    f"wait_timeout = {IDLE_SECONDS_MYSQL}, max_execution_time = {STATEMENT_SECONDS * 1000}, "
    "range_optimizer_max_mem_size = 0"  # with a limit, it would read a whole table for a long list of keys
)
_GALERA = "wsrep_sync_wait = 7"
"""Before it reads or changes anything, a Galera node waits for the changes that other nodes have committed."""


class ServerInfo(NamedTuple):
    """The properties of a database server.

    Attributes:
        version: version string.
        max_packet: ``max_allowed_packet``, in bytes.
        variables: values of those ``_VARIABLES`` that the server has.
    """

    version: str
    max_packet: int
    variables: Mapping[str, str]

    @classmethod
    def parse(cls, answers: Sequence[Sequence[tuple[Any, ...]]]) -> ServerInfo:
        """Parse the rows that ``SERVER_INFO_QUERIES`` return."""
        [(max_packet, version)], variables = answers
        return cls(str(version), int(max_packet), {str(name).lower(): str(value) for name, value in variables})

    @property
    def is_mariadb(self) -> bool:
        return "mariadb" in self.version.lower()

    @property
    def is_galera(self) -> bool:
        return self.variables.get("wsrep_on") == "ON"

    @property
    def idle_seconds(self) -> float:
        """Seconds after which the server may close an idle connection."""
        return IDLE_SECONDS if self.is_mariadb else IDLE_SECONDS_MYSQL

    @property
    def incompatibility(self) -> str:
        """Why the server cannot hold a shard, and what to use instead; empty if it can."""
        if "tidb" in self.version.lower():
            return (
                "TiDB accepts SKIP LOCKED but ignores it, so two servers would claim the same job; use MariaDB 10.6 or "
                "newer, or MySQL 8.0 or newer"
            )
        is_group = self.variables.get("group_replication_group_name", "") != ""
        if is_group and self.variables.get("group_replication_single_primary_mode") == "OFF":
            return (
                "its replication group has several primaries, which detect conflicts only at the commit; run the group "
                "with one primary (group_replication_single_primary_mode=ON)"
            )
        return ""

    @property
    def settings(self) -> Sequence[bytes]:
        """The statements that configure a session."""
        kind = _MARIADB if self.is_mariadb else _MYSQL
        cluster = f", {_GALERA}" if self.is_galera else ""
        return (
            f"SET SESSION {_SETTINGS}, {kind}{cluster}".encode(),
            b"SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE",
        )
