"""An outbox in an SQLite file."""

import sqlite3
from contextlib import closing

import pytest

from pinlater.outbox import Outbox


@pytest.fixture
def outbox():
    return Outbox()


@pytest.fixture
def path(tmp_path, outbox):
    """The file of a database with an outbox."""
    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection:
        connection.executescript(outbox.create_table("sqlite"))
    return tmp_path / "shop.db"


@pytest.fixture
def connection(path):
    with closing(sqlite3.connect(path, isolation_level="DEFERRED")) as connection:
        yield connection


@pytest.fixture
def rows(path):
    """Return what a query finds that is committed."""

    def find(sql="SELECT queue, body, options FROM pinlater_outbox ORDER BY id"):
        with closing(sqlite3.connect(path)) as connection:
            return connection.execute(sql).fetchall()

    return find
