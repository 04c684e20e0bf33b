"""The relay's connection to the database of an outbox; subclasses handle what differs between databases."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

from pinlater.outbox.dialects import Dialect, plain, with_placeholders
from pinlater.outbox.sessions import is_of_database
from pinlater.outbox.waker import Waker

POLL_SECONDS = 0.01
"""How often to poll a database that cannot notify of new rows: jobs are to be delivered within 20 ms."""

_FIRST_PAUSE_SECONDS = 0.001


def pause_before_commit(since: float) -> float:
    """Return how long to wait before checking again whether rows written ``since`` seconds ago are committed."""
    return max(since / 4, _FIRST_PAUSE_SECONDS)


@contextmanager
def ignored_database_errors() -> Iterator[None]:
    """Ignore errors of drivers, because the connection is given up anyway."""
    try:
        yield
    except Exception as error:
        if not is_of_database(error):
            raise


class Database(ABC):
    """One connection; it has an open transaction only within ``transaction``.

    Args:
        connection: connection of the driver.
        dialect: SQL of the database.
        paramstyle: how the driver writes parameters.
    """

    def __init__(self, connection: Any, dialect: Dialect, paramstyle: str) -> None:
        self._connection = connection
        self._dialect = dialect
        self._paramstyle = paramstyle
        self.commit_by_itself()

    @abstractmethod
    def commit_by_itself(self) -> None:
        """Make each statement outside of ``transaction`` a separate transaction."""

    @abstractmethod
    def lock(self, name: str) -> bool:
        """Try to take a lock, held until the connection ends; return whether it was taken."""

    @abstractmethod
    def wait(self, waker: Waker, seconds: float) -> None:
        """Wait until rows may have been committed since ``listen`` or the last ``remember``, at most ``seconds``."""

    def listen(self, table: str) -> None:  # noqa: B027 - not all databases need it
        """Start to listen for new rows of a table, if the database can notify of them."""

    def remember(self) -> None:  # noqa: B027 - not all databases need it
        """Remember what has been committed so far; called before the table is read."""

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return the rows that a query finds."""
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
        """Run the block in a transaction, and commit it; roll it back if the block raises."""
        self.run(self._dialect.begin)
        try:
            yield
        except BaseException:
            with ignored_database_errors():
                self.run("ROLLBACK")
            raise
        self.run("COMMIT")

    def close(self) -> None:
        """Close the connection, which releases the lock."""
        with ignored_database_errors():
            self._connection.close()
