"""What can go wrong between us and a database, as far as it makes a difference to what is done next."""

from __future__ import annotations

import random

from asyncmy.errors import MySQLError

from pinlater.errors import ShardConnectionFailed, UnknownError
from pinlater.server.backends.sharded import ShardUnreachable

DEADLOCK, LOCK_WAIT_TIMEOUT = 1213, 1205
DUPLICATE_KEY = 1062
"""Of a unique key, since ids are never given out twice: another server was quicker; the next look finds its job."""
ROLLED_BACK_AT_COMMIT = 3101
"""By the group that the server is in; Galera calls it a deadlock."""
TOO_SLOW = frozenset({1969, 3024})
"""The statement's time was up (MariaDB, MySQL)."""

_SHUTTING_DOWN = frozenset({1047, 1053, 1077, 1079, 1152, 1158, 1159, 1160, 1161, 1184, 1927, 1290, 1836, 3169, 4031})
"""The server stops, has cut the connection, has become read-only, or (1047) is a node of Galera that has lost the
others: it cannot serve, but another try may."""


class Lost(Exception):
    """The connection broke or took too long: nobody knows what became of what was sent last."""


class Unreached(Lost):
    """No connection could be made: nothing was sent."""


class Conflict(Exception):
    """Another transaction was in the way; this one was rolled back, and may be tried again."""


class Blocked(Conflict):
    """Somebody held on to what this one needs, and perhaps still does."""


def pause_seconds(conflicts: int) -> float:
    """Return how long to wait after so many conflicts, at random: those who met must not meet again and again."""
    return random.uniform(0, min(0.001 * 2 ** min(conflicts, 10), 0.1))  # noqa: S311 - no secret


class Refused(UnknownError):
    """The database does not take a statement; nothing was changed."""


def fault_of(error: MySQLError) -> Exception:
    """Return what a driver's error means."""
    number = error.args[0] if error.args and isinstance(error.args[0], int) else 0
    if number == LOCK_WAIT_TIMEOUT:
        return Blocked(str(error))
    if number in {DEADLOCK, DUPLICATE_KEY, ROLLED_BACK_AT_COMMIT}:
        return Conflict(str(error))
    if number == 0 or 2000 <= number < 3000 or number in _SHUTTING_DOWN:
        return Lost(str(error))
    if number in TOO_SLOW:
        return UnknownError("the database took too long and was stopped; nothing was changed")
    return Refused(f"the store could not carry this out, nothing was changed: {error}")


def unreachable(shard: str, error: BaseException) -> ShardUnreachable:
    """Return the error for a shard that nothing was sent to."""
    return ShardUnreachable(f"shard {shard} cannot be reached: {str(error) or 'it does not answer in time'}")


def connection_failed(shard: str, error: BaseException) -> ShardConnectionFailed:
    """Return the error for a shard that did not answer what was sent."""
    return ShardConnectionFailed(
        f"shard {shard} did not answer ({str(error) or 'in time'}); what was asked may or may not have been done"
    )
