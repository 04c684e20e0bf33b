"""How the relay connects to a database."""

import sqlite3
from contextlib import closing

import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import AsyncEngine

from pinlater.errors import ConfigError
from pinlater.outbox import Outbox, Relay
from pinlater.outbox.connecting import connector, open_database
from pinlater.outbox.mysql import MysqlDatabase
from pinlater.outbox.waker import Waker
from tests.support.django_project import use_database


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("shop.db", "a database is named by a URL; write postgresql://"),
        ("postgresql:shop", "a database is named by a URL; write postgresql://"),
        ("oracle://db/shop", "'oracle' cannot have an outbox"),
        ("postgresql+asyncpg://db/shop", "leave out [+]asyncpg"),
        ("postgresql://[::1/shop", "cannot be read"),
        ("postgresql://db:port/shop", "cannot be read"),
        ("sqlite://shop.db", "three slashes"),
        ("mysql+mysqldb://db/shop", "no driver for mysql here: pip install 'mysqlclient'"),
        ("mysql+pymysql://db/shop?read_timeout=1m", "read_timeout=1m: write a whole number"),
        ("mysql+pymysql://db/shop?ssl_disabled=none", "ssl_disabled=none: write true or false"),
        (7, "7 is no database"),
    ],
)
def test_what_is_no_database_is_refused_with_what_to_write(url, said):
    with pytest.raises(ConfigError, match=said):
        Relay(Outbox(), url)


def test_a_url_of_mysql_says_all_that_the_driver_needs(monkeypatch):
    given = {}
    monkeypatch.setattr("pymysql.connect", lambda **options: given.update(options))
    connector("mysql+pymysql://ada:s3cret%20pass@db.example.com:3307/shop?ssl_ca=/etc/ca.pem")()
    expected = {"host": "db.example.com", "port": 3307, "user": "ada", "password": "s3cret pass", "database": "shop"}
    assert {name: given[name] for name in expected} == expected
    assert given["ssl_ca"] == "/etc/ca.pem"


def test_numbers_and_switches_in_a_url_of_mysql_reach_the_driver_in_their_types(monkeypatch):
    given = {}
    monkeypatch.setattr("pymysql.connect", lambda **options: given.update(options))
    connector("mysql+pymysql://db/shop?connect_timeout=5&ssl_verify_cert=true&ssl_disabled=False&passwd=123")()
    assert given["connect_timeout"] == 5
    assert (given["ssl_verify_cert"], given["ssl_disabled"]) == (True, False)
    assert given["passwd"] == "123"


def test_a_parameter_that_the_driver_of_mysql_does_not_know_is_refused():
    connect = connector("mysql+pymysql://db.invalid/shop?colour=red")
    with pytest.raises(ConfigError, match="unexpected keyword argument 'colour'"):
        connect()


@pytest.mark.parametrize("rest", ["ada@db", "", "ada:p%40ss@[::1]:5433"])
def test_a_url_of_postgresql_goes_to_the_driver_as_it_is(monkeypatch, rest):
    given = {}
    monkeypatch.setattr("psycopg.connect", lambda address, **options: given.update(options, address=address))
    connector(f"postgresql+psycopg://{rest}/shop?sslmode=require&connect_timeout=3")()
    assert given.pop("address") == f"postgresql://{rest}/shop?sslmode=require&connect_timeout=3"
    assert "connect_timeout" not in given
    assert given["keepalives_idle"] == 10  # so that it does not wait for a machine that is gone


def test_a_relay_that_would_deliver_no_job_at_a_time_is_refused(path):
    with pytest.raises(ValueError, match="batch_size=0 must be at least 1"):
        Relay(Outbox(), f"sqlite:///{path}", batch_size=0)


def test_a_file_that_is_not_there_is_not_made(tmp_path):
    with pytest.raises(sqlite3.OperationalError, match="unable to open"):
        connector(f"sqlite:///{tmp_path}/nothing.db")()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("given", [AsyncEngine, lambda engine: engine])
def test_an_engine_of_asyncio_is_refused_with_what_to_give(given):
    engine = sqlalchemy.create_engine("sqlite://")
    engine.dialect.is_async, engine.dialect.driver = True, "aiosqlite"
    with pytest.raises(ConfigError, match=r"give it the URL without \+aiosqlite, or an engine of create_engine$"):
        Relay(Outbox(), given(engine))


def test_an_engine_gives_connections_that_its_pool_does_not_get_back(path):
    engine = sqlalchemy.create_engine(f"sqlite:///{path}")
    with closing(connector(engine)()) as taken, closing(engine.raw_connection()) as other:
        assert taken.execute("SELECT count(*) FROM pinlater_outbox").fetchone() == (0,)
        assert other.driver_connection is not taken
    engine.dispose()


def test_a_connection_of_django_is_copied(path):
    connection = use_database(path)
    with closing(open_database(connector(connection))) as database:
        assert database.rows("SELECT count(*) FROM pinlater_outbox") == [(0,)]
    assert connection.connection is None


def test_a_function_connects(path):
    with closing(open_database(lambda: sqlite3.connect(path))) as database:
        assert database.run("INSERT INTO pinlater_outbox VALUES (1, 'a', x'', '{}', 0, NULL, NULL, 0, 0, NULL)") == 1
        with pytest.raises(sqlite3.OperationalError), database.transaction():  # noqa: PT012 - the second one raises
            database.run("DELETE FROM pinlater_outbox")
            database.run("DELETE FROM nothing")
        assert database.rows("SELECT id, queue FROM pinlater_outbox WHERE queue = ?", ("a",)) == [(1, "a")]


def test_a_driver_that_is_not_known_is_refused():
    with pytest.raises(TypeError, match="a relay cannot use <class 'object'>; it knows the drivers sqlite3"):
        open_database(object)


def test_one_relay_has_the_lock_of_a_table(path):
    with closing(open_database(lambda: sqlite3.connect(path))) as first:
        assert first.lock("a")
        with closing(open_database(lambda: sqlite3.connect(path))) as second:
            assert not second.lock("a")
            first.close()
            assert second.lock("a")


def test_a_burst_ends_when_the_relay_that_has_the_lock_has_left_nothing(path):
    with closing(open_database(lambda: sqlite3.connect(path))) as first:
        assert first.lock(Outbox().table)
        assert Relay(Outbox(), f"sqlite:///{path}", "127.0.0.1:1").run_until_empty() == 0


def test_a_database_in_memory_has_no_relay():
    with (
        closing(open_database(lambda: sqlite3.connect(":memory:"))) as database,
        pytest.raises(ConfigError, match=r"in memory .* under TEST in DATABASES"),
    ):
        database.lock("a")


def test_rows_of_a_driver_that_makes_dicts_are_read(monkeypatch):
    class Cursor:
        def execute(self, sql, *_):
            pass

        def fetchall(self):
            return [{"id": 1, "body": memoryview(b"x")}]

        def close(self):
            pass

    class Connection:
        autocommit = False

        def cursor(self):
            return Cursor()

    connection = Connection()
    database = MysqlDatabase(connection, None, "format")
    assert connection.autocommit is True
    assert database.rows("SELECT") == [(1, b"x")]


def test_a_relay_that_was_stopped_before_it_ran_does_not_run(path):
    relay = Relay(Outbox(), f"sqlite:///{path}", "127.0.0.1:1")
    relay.stop()
    assert relay.run() == 0
    assert relay.run_until_empty() == 0  # and it can be used again


def test_a_waker_ends_all_later_waits():
    with Waker() as waker:
        assert not waker.wait(0)
        waker.set()
        waker.set()
        assert waker.wait(60)
        assert waker.wait(60)
    waker.set()
