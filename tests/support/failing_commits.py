"""An SQLite connection whose commits fail when a test says so, as on a full disk."""

import itertools
import sqlite3


class FailingCommits:
    """Stands in for a writer's connection and its cursor.

    Args:
        connection: the real one.

    Attributes:
        plan: for each commit to come whether it fails; none is left: it does not.
        failed: how many have failed.
    """

    def __init__(self, connection):
        self._connection = connection
        self.plan = iter(())
        self.failed = 0

    @classmethod
    def of(cls, backend):
        """Let the commits of a store fail from now on, as the plan says; nothing may be under way there."""
        writer = backend._writer
        writer._connection = writer._cursor = cls(writer._connection)
        return writer._connection

    def fail_always(self):
        self.plan = itertools.repeat(True)

    def work_again(self):
        self.plan = iter(())

    def execute(self, sql, *parameters):
        if sql == "COMMIT" and next(self.plan, False):
            self.failed += 1
            self._connection.execute("ROLLBACK")  # as SQLite does
            raise sqlite3.OperationalError("database or disk is full")
        return self._connection.execute(sql, *parameters)

    def __getattr__(self, name):
        return getattr(self._connection, name)
