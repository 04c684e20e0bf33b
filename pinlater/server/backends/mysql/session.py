"""What a connection asks its server first, what it sets there, and which servers it will not work with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

LOCK_WAIT_SECONDS = 2
STATEMENT_SECONDS = 4
"""The server itself gives a statement up after this time, so that what nobody waits for any more ends."""

IDLE_IN_TRANSACTION_SECONDS = 5
"""MariaDB ends a transaction that stood still for so long: its locks are free although nobody has told the database
that our machine is gone, or hangs. No call of ours lasts longer than a few seconds."""

IDLE_SECONDS = 300
IDLE_SECONDS_MYSQL = 10
"""A connection that stands still for so long is closed by the server. MySQL has no limit for transactions, so that its
connections have to do with little."""

NETWORK_SECONDS = 10
"""So long the server waits for the rest of a statement, or for us to read on, before it gives the connection up."""

_VARIABLES = "'wsrep_on', 'group_replication_group_name', 'group_replication_single_primary_mode'"
GREETING = (
    b"SELECT @@max_allowed_packet, VERSION()",
    f"SHOW VARIABLES WHERE Variable_name IN ({_VARIABLES})".encode(),
)

_SETTINGS = (
    "sql_mode = 'STRICT_ALL_TABLES,NO_BACKSLASH_ESCAPES', sql_notes = 0, sql_safe_updates = 0, time_zone = '+00:00', "
    f"innodb_lock_wait_timeout = {LOCK_WAIT_SECONDS}, "
    f"net_read_timeout = {NETWORK_SECONDS}, net_write_timeout = {NETWORK_SECONDS}"
)
_MARIADB = (
    f"idle_transaction_timeout = {IDLE_IN_TRANSACTION_SECONDS}, wait_timeout = {IDLE_SECONDS}, "
    f"max_statement_time = {STATEMENT_SECONDS}"
)
_MYSQL = f"wait_timeout = {IDLE_SECONDS_MYSQL}, max_execution_time = {STATEMENT_SECONDS * 1000}"
_GALERA = "wsrep_sync_wait = 7"
"""Nodes of Galera are up to date before they read or change anything, as another one may have been written to."""


class Server(NamedTuple):
    """What a server says of itself.

    Attributes:
        version: as it has it.
        max_packet: bytes.
        variables: those that ``GREETING`` asks for, as far as it has them.
    """

    version: str
    max_packet: int
    variables: Mapping[str, str]

    @classmethod
    def of(cls, answers: Sequence[Sequence[tuple[Any, ...]]]) -> Server:
        """Return what the rows of the answers to ``GREETING`` say."""
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
        """After what time it may have closed a connection that nobody used."""
        return IDLE_SECONDS if self.is_mariadb else IDLE_SECONDS_MYSQL

    @property
    def objection(self) -> str:
        """Why it cannot be a shard, and what to do; empty: it can."""
        if "tidb" in self.version.lower():
            return (
                "TiDB does not lock the jobs that a server claims (it reads SKIP LOCKED and ignores it), so that jobs "
                "would be handed out twice; use MariaDB 10.6 or newer, or MySQL 8.0 or newer"
            )
        is_group = self.variables.get("group_replication_group_name", "") != ""
        if is_group and self.variables.get("group_replication_single_primary_mode") == "OFF":
            return (
                "it is in a group whose members all take changes, and which finds out at the commit who was in whose "
                "way; run the group with one primary (group_replication_single_primary_mode=ON)"
            )
        return ""

    @property
    def settings(self) -> Sequence[bytes]:
        """The statements that set up a session."""
        kind = _MARIADB if self.is_mariadb else _MYSQL
        cluster = f", {_GALERA}" if self.is_galera else ""
        return (
            f"SET SESSION {_SETTINGS}, {kind}{cluster}".encode(),
            b"SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
        )
