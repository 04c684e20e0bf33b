"""The transactions of user programs: connections of drivers, sessions of SQLAlchemy, connections of Django."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any, NamedTuple

from pinlater.outbox.dialects import Dialect, dialect_of

DRIVERS = {
    "sqlite3": "sqlite",
    "psycopg": "postgresql",
    "psycopg2": "postgresql",
    "pg8000": "postgresql",
    "pymysql": "mysql",
    "MySQLdb": "mysql",
    "mysql": "mysql",
    "mariadb": "mysql",
}
"""Root module of a driver -> the database that it is for."""

_RAISING = {*DRIVERS, "_mysql_exceptions", "sqlalchemy", "django"}
_PARAMSTYLES = {"mysql": "pyformat"}
"""Parameter styles of drivers whose root module does not declare one."""

_PG_NO_TABLE = "42P01"
_MYSQL_NO_TABLE = 1146


class OpenTransaction(NamedTuple):
    """An open transaction of a user program.

    Attributes:
        dialect: of its database.
        paramstyle: how its driver writes parameters, as in the DB-API.
        execute: executes one statement in it.
    """

    dialect: Dialect
    paramstyle: str
    execute: Callable[[str, Sequence[Any]], object]


def open_transaction(given: Any) -> OpenTransaction:
    """Return the open transaction of a connection, a session, or Django's ``transaction``.

    Raises:
        TypeError: it is none of these, or asynchronous; the message says what to write.
    """
    if hasattr(given, "get_connection") and hasattr(given, "atomic"):
        given = given.get_connection()  # django.db.transaction
    if hasattr(given, "vendor") and hasattr(given, "in_atomic_block"):
        return OpenTransaction(dialect_of(given.vendor), "format", _cursor_of(given))
    _refuse_async(given)
    if hasattr(given, "get_bind") and hasattr(given, "connection"):
        given = given.connection()  # a session of SQLAlchemy
    if hasattr(given, "exec_driver_sql"):
        return OpenTransaction(dialect_of(given.dialect.name), given.dialect.paramstyle, _execute_in(given))
    driver = driver_of(given)
    if driver is None or not hasattr(given, "cursor"):
        raise TypeError(
            f"{type(given).__module__}.{type(given).__name__} is no connection that an outbox can use; give a "
            f"connection of {', '.join(DRIVERS)}, a Session or Connection of SQLAlchemy, or a connection of Django"
        )
    return OpenTransaction(dialect_of(DRIVERS[driver]), paramstyle_of(driver), _cursor_of(given))


def driver_of(connection: Any) -> str | None:
    """Return the root module of a connection's driver; None if the driver is not supported."""
    roots = (kind.__module__.partition(".")[0] for kind in connection.__class__.__mro__)
    return next((root for root in roots if root in DRIVERS), None)


def is_of_database(error: Exception) -> bool:
    """Tell whether an error comes from a driver, or from the library that hands out its connections."""
    roots = {kind.__module__.partition(".")[0] for kind in type(error).__mro__}
    return isinstance(error, OSError) or not roots.isdisjoint(_RAISING)


@contextmanager
def reported_database_errors(report: Callable[[str], Exception], make_table: str) -> Iterator[None]:
    """Replace errors of drivers in the block by one that tells the user what to do.

    Args:
        report: returns the exception to raise instead, with the given text.
        make_table: the command that creates the table.
    """
    try:
        yield
    except Exception as error:
        if not is_of_database(error):
            raise
        advice = f"; create the table with: {make_table}" if _lacks_table(error) else ""
        raise report(f"the database: {error}{advice}") from error


def _lacks_table(error: BaseException) -> bool:
    """Tell whether an error of a driver, or of a library around it, is that a table is missing."""
    cause = getattr(error, "orig", None) or error.__cause__
    if isinstance(cause, BaseException):  # SQLAlchemy and Django wrap what the driver raises
        return _lacks_table(cause)
    state = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
    return state == _PG_NO_TABLE or error.args[:1] == (_MYSQL_NO_TABLE,) or str(error).startswith("no such table")


def paramstyle_of(driver: str) -> str:
    """Return how a driver writes parameters, as in the DB-API."""
    return _PARAMSTYLES.get(driver) or str(getattr(sys.modules[driver], "paramstyle", "pyformat"))


def _refuse_async(given: Any) -> None:
    names = ("execute", "connection", "fetchrow")
    if not any(inspect.iscoroutinefunction(getattr(given, name, None)) for name in names):
        return
    if hasattr(given, "run_sync"):
        raise TypeError("an AsyncSession is not used as it is; write: await session.run_sync(outbox.enqueue, job)")
    raise TypeError(
        f"{type(given).__module__}.{type(given).__name__} is asynchronous; await on it yourself what "
        "outbox.insert(job, database=...) returns: a statement and its parameters"
    )


def _cursor_of(connection: Any) -> Callable[[str, Sequence[Any]], object]:
    def execute(sql: str, parameters: Sequence[Any]) -> None:
        with closing(connection.cursor()) as cursor:
            cursor.execute(sql, tuple(parameters))

    return execute


def _execute_in(connection: Any) -> Callable[[str, Sequence[Any]], object]:
    def execute(sql: str, parameters: Sequence[Any]) -> None:
        connection.exec_driver_sql(sql, tuple(parameters)).close()

    return execute
