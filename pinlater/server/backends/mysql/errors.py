"""Database errors, classified by how to handle them."""

from __future__ import annotations

import errno
import random
import re

from asyncmy.errors import MySQLError

from pinlater.errors import ShardConnectionFailed, UnknownError
from pinlater.server.backends.sharded import ShardUnreachable
from pinlater.server.backends.unavailable import ChangeRefused

DEADLOCK, LOCK_WAIT_TIMEOUT = 1213, 1205
DUPLICATE_KEY = 1062
"""Another server has stored the key first, and the retry finds it; or it has the ids of jobs, which then get others."""
NULL_VALUE = 1048
NOT_SENT = 2006
"""From the driver: the connection was already closed, and the packet was not sent."""
DUPLICATE_COLUMN = 1060
DISK_FULL, TABLE_FULL = 1021, 1114
"""InnoDB also reports the second when its files cannot grow."""
_FILE_ERRORS = frozenset({3, 1026, 1030})
"""A file, such as a temporary one, cannot be written; the message contains the operating system's error."""
_NO_SPACE = re.compile(rf"(?i)\b(?:error|errcode:|errno:?) {errno.ENOSPC}\b")
STATEMENT_TIMEOUT = frozenset({1969, 3024})
"""MariaDB's number and MySQL's."""

_UNAVAILABLE = frozenset({1047, 1053, 1077, 1079, 1152, 1158, 1159, 1160, 1161, 1184, 1927, 3169, 4031})
"""The server is shutting down, has closed the connection, or (1047) is a Galera node without a quorum: it cannot serve
now, but may later."""

_GROUP_LEFT = frozenset({3032, 3100, 3101, 3781, 3782, 3783})
"""A member of a MySQL replication group has lost the others, or is about to become its primary. It has rolled back what
it was committing, but if the others had received that already, they commit it (3100, 3101)."""

_READ_ONLY = frozenset({1290, 1836})
"""``read_only`` or ``innodb_read_only`` is set: the server is a replica, or is about to become one."""

_NO_PRIVILEGE = frozenset({1044, 1142, 1143})
"""The user may not use the database, or lacks a privilege there."""

_NO_SCHEMA = frozenset({1049, 1054, 1146})
"""A database, a column or a table that does not exist."""


class ConnectionLost(Exception):
    """The connection broke or timed out: the outcome of the last statements is unknown."""


class PacketNotSent(ConnectionLost):
    """The connection was found closed before the last packet was sent: a commit in that packet did not happen."""


class ConnectFailed(ConnectionLost):
    """No connection could be opened: nothing was sent."""


class UnusableServer(ConnectFailed):
    """The server accepts no changes, not even commits: nothing was changed. A new connection may reach another one."""


class SchemaMissing(ConnectFailed):
    """The database lacks tables or columns that it had: nothing was changed. It has to be prepared again."""


class TransactionConflict(Exception):
    """This transaction conflicted with another one; it was rolled back, and may be retried."""


class LockTimeout(TransactionConflict):
    """Another transaction holds a lock that this one needs, and may still hold it."""


class StatementRejected(UnknownError):
    """The database rejected a statement; nothing was changed."""


class StatementTimeout(ChangeRefused):
    """The database stopped a statement that took too long; nothing was changed."""


class NoRoom(StatementRejected, ChangeRefused):
    """The disk of the database is full."""


class NullRejected(StatementRejected):
    """A value was NULL where the column does not allow it."""


class ColumnExists(StatementRejected):
    """The column to add exists already."""


_REJECTIONS = {NULL_VALUE: NullRejected, DUPLICATE_COLUMN: ColumnExists, DISK_FULL: NoRoom, TABLE_FULL: NoRoom}


def conflict_backoff(conflicts: int) -> float:
    """Return a random delay in seconds after this many conflicts, so that the same transactions do not meet again."""
    return random.uniform(0, min(0.001 * 2 ** min(conflicts, 10), 0.1))  # noqa: S311 - no secret


def classify(error: MySQLError) -> Exception:
    """Return the error of this module that a driver's error stands for."""
    number = error.args[0] if error.args and isinstance(error.args[0], int) else 0
    if number == LOCK_WAIT_TIMEOUT:
        return LockTimeout(str(error))
    if number in {DEADLOCK, DUPLICATE_KEY}:
        return TransactionConflict(str(error))
    if number == NOT_SENT:
        return PacketNotSent(str(error))
    if number in _READ_ONLY:
        return UnusableServer(str(error))
    if number in _NO_PRIVILEGE:
        return UnusableServer(f"{error}; the user needs all privileges on the database")
    if number in _NO_SCHEMA:
        return SchemaMissing(str(error))
    if number == 0 or 2000 <= number < 3000 or number in _UNAVAILABLE | _GROUP_LEFT:
        return ConnectionLost(str(error))
    if number in STATEMENT_TIMEOUT:
        return StatementTimeout("the database stopped a statement that took too long; nothing was changed")
    is_full = number in _FILE_ERRORS and _NO_SPACE.search(str(error))
    kind = NoRoom if is_full else _REJECTIONS.get(number, StatementRejected)
    return kind(f"the store rejected the call, nothing was changed: {error}")


def unreachable(shard: str, error: BaseException) -> ShardUnreachable:
    """Return the error for a shard that nothing was sent to."""
    return ShardUnreachable(f"shard {shard} cannot be reached: {str(error) or 'it does not answer in time'}")


def connection_failed(shard: str, error: BaseException) -> ShardConnectionFailed:
    """Return the error for a shard that did not answer."""
    return ShardConnectionFailed(
        f"shard {shard} did not answer ({str(error) or 'in time'}); the call may or may not have been executed"
    )


def too_many_conflicts(error: TransactionConflict) -> UnknownError:
    """Return the error for a call that was given up after repeated conflicts."""
    return UnknownError(f"other transactions kept this one from committing, nothing was changed: {error}")
