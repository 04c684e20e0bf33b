"""The relay's connection to the database of an outbox; what differs between databases is in subclasses."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

from pinlater.outbox.dialects import Dialect, plain, with_placeholders
from pinlater.outbox.sessions import is_of_database
from pinlater.outbox.waker import Waker

POLL_SECONDS = 0.01
"""How often a database is asked that does not tell of new rows: a part of the 20 ms within which jobs are delivered."""

_FIRST_PAUSE_SECONDS = 0.001


def pause_before_commit(since: float) -> float:
    """Return how long to wait for the commit of what was written so many seconds ago: ever longer."""
    return max(since / 4, _FIRST_PAUSE_SECONDS)


@contextmanager
def ignored_database_errors() -> Iterator[None]:
    """Ignore the errors of drivers: the connection is given up anyway."""
    try:
        yield
    except Exception as error:
        if not is_of_database(error):
            raise


class Database(ABC):
    """One connection, which has no transaction open but in ``transaction``.

    Args:
        connection: of the driver.
        dialect: of the database.
        paramstyle: how the driver writes parameters.
    """

    def __init__(self, connection: Any, dialect: Dialect, paramstyle: str) -> None:
        self._connection = connection
        self._dialect = dialect
        self._paramstyle = paramstyle
        self.commit_by_itself()

    @abstractmethod
    def commit_by_itself(self) -> None:
        """Let each statement outside of ``transaction`` be a transaction of its own."""

    @abstractmethod
    def lock(self, name: str) -> bool:
        """Take a lock, unless somebody else has it, until the connection ends; return whether it was taken."""

    @abstractmethod
    def wait(self, waker: Waker, seconds: float) -> None:
        """Return when rows may have been committed since ``listen`` or the last ``remember``, or after ``seconds``."""

    def listen(self, table: str) -> None:  # noqa: B027 - not all of them need it
        """Hear of new rows of a table from now on, if the database can tell of them."""

    def remember(self) -> None:  # noqa: B027 - not all of them need it
        """Note what has been committed so far; called before the table is looked at."""

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return what a query finds."""
        with self._executed(sql, parameters) as cursor:
            found = cursor.fetchall()
        return [tuple(map(plain, row.values() if isinstance(row, dict) else row)) for row in found]

    def run(self, sql: str, parameters: Sequence[Any] = ()) -> int:
        """Execute a statement; return how many rows it changed."""
        with self._executed(sql, parameters) as cursor:
            return int(cursor.rowcount)

    @contextmanager
    def _executed(self, sql: str, parameters: Sequence[Any]) -> Iterator[Any]:
        with closing(self._connection.cursor()) as cursor:
            if parameters:
                cursor.execute(with_placeholders(sql, self._paramstyle), tuple(parameters))
            else:
                cursor.execute(sql)
            yield cursor

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit what is done inside, or nothing if it raises."""
        self.run(self._dialect.begin)
        try:
            yield
        except BaseException:
            with ignored_database_errors():
                self.run("ROLLBACK")
            raise
        self.run("COMMIT")

    def close(self) -> None:
        """Close the connection, which gives the lock back."""
        with ignored_database_errors():
            self._connection.close()
