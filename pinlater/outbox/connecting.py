"""Connects the relay to a database: by a URL, a SQLAlchemy engine, a Django connection, or a function of the user."""

from __future__ import annotations

import importlib
import sqlite3
from collections.abc import Callable, Collection
from typing import Any
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlsplit

from pinlater.errors import ConfigError
from pinlater.outbox.database import Database
from pinlater.outbox.dialects import dialect_of
from pinlater.outbox.mysql import MysqlDatabase
from pinlater.outbox.postgresql import PostgresqlDatabase
from pinlater.outbox.sessions import DRIVERS, driver_of, paramstyle_of
from pinlater.outbox.sqlite import SqliteDatabase

_KINDS: dict[str, type[Database]] = {
    "postgresql": PostgresqlDatabase,
    "mysql": MysqlDatabase,
    "sqlite": SqliteDatabase,
}
_PACKAGES = {"psycopg": "psycopg[binary]", "pymysql": "PyMySQL", "MySQLdb": "mysqlclient"}
_URL_DRIVERS = {"postgresql": ("psycopg", "psycopg2"), "mysql": ("pymysql", "MySQLdb"), "sqlite": ("sqlite3",)}
"""Drivers for the URLs of a database, in the order in which they are tried."""

_DRIVER_NAMES = {"mysqldb": "MySQLdb", "pysqlite": "sqlite3"}
"""Driver in a SQLAlchemy URL -> its module, where the names differ."""

_EXAMPLES = "postgresql://user:password@host/database, mysql://user:password@host/database or sqlite:////path/of/file"

# A relay must not hang when the machine of its database is gone.
_POSTGRESQL_OPTIONS = {
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 25_000,
}
_MYSQL_OPTIONS = {"connect_timeout": 10, "read_timeout": 60, "write_timeout": 60}
_MYSQL_NUMBERS = {"port", "connect_timeout", "read_timeout", "write_timeout", "max_allowed_packet", "client_flag"}
_MYSQL_SWITCHES = {
    "ssl_disabled", "ssl_verify_cert", "ssl_verify_identity", "compress", "local_infile", "use_unicode", "autocommit"
}  # fmt: skip
"""Parameters that PyMySQL and mysqlclient take as a number or a bool, and that are text in a URL."""

_SWITCHED = {"true": True, "1": True, "false": False, "0": False}

Connect = Callable[[], Any]
"""Returns a new driver connection that nobody else uses."""


def connector(database: Any) -> Connect:
    """Return a function that connects to a database.

    Args:
        database: a URL, also in the form of SQLAlchemy; an ``Engine`` of SQLAlchemy; ``connection`` of ``django.db``;
            or a function without arguments that returns a new connection.

    Raises:
        ConfigError: it is none of these, or no driver for it is installed.
    """
    if isinstance(database, str):
        return _of_url(database)
    if getattr(getattr(database, "dialect", None), "is_async", False):
        raise ConfigError(
            "a relay runs in a thread, and cannot use an engine of asyncio; give it the URL without "
            f"+{database.dialect.driver}, or an engine of create_engine"
        )
    if hasattr(database, "raw_connection"):
        return lambda: _taken_from(database)
    if hasattr(database, "vendor") and hasattr(database, "copy"):
        return lambda: _copy_of(database)
    if callable(database):
        return database  # type: ignore[no-any-return] # as the user wrote it
    raise ConfigError(
        f"{database!r:.80} is no database; give a URL, an Engine, a connection of Django, or a function that connects"
    )


def open_database(connect: Connect) -> Database:
    """Connect; return the connection.

    Raises:
        TypeError: the driver is not known.
        Exception: an error of the driver, which cannot connect.
    """
    connection = connect()
    driver = driver_of(connection)
    if driver is None:
        raise TypeError(f"a relay cannot use {type(connection)!r}; it knows the drivers {', '.join(DRIVERS)}")
    dialect = dialect_of(DRIVERS[driver])
    return _KINDS[dialect.name](connection, dialect, paramstyle_of(driver))


def _taken_from(engine: Any) -> Any:
    """Take a connection out of the engine's pool for good, so that nobody else inherits the locks of its session."""
    pooled = engine.raw_connection()
    connection = pooled.driver_connection
    pooled.detach()
    return connection


def _copy_of(connection: Any) -> Any:
    """Open a copy of a connection of Django; the original may be in a transaction, or belong to another thread.

    It is not taken from Django's pool, which would count it as lent for ever: soon it would have none left to lend.
    """
    copy = connection.copy()
    copy.settings_dict["OPTIONS"].pop("pool", None)
    copy.ensure_connection()
    return copy.connection


def _of_url(url: str) -> Connect:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise ConfigError(f"the URL of the database cannot be read: {error}; write {_EXAMPLES}") from None
    scheme, _, driver = parts.scheme.partition("+")
    rest = url.partition(":")[2]
    if not scheme or not rest.startswith("//"):
        raise ConfigError(f"a database is named by a URL; write {_EXAMPLES}")
    kind = dialect_of(scheme).name
    module = _driver(kind, driver)
    if kind == "sqlite":
        return _sqlite(parts)
    if kind == "postgresql":
        return _postgresql(module, f"postgresql:{rest}", dict(parse_qsl(parts.query)))
    return _mysql(module, parts)


def _driver(kind: str, asked: str) -> Any:
    names = _URL_DRIVERS[kind]
    wanted = (_DRIVER_NAMES.get(asked, asked),) if asked else names
    for name in wanted:
        if name not in names:
            raise ConfigError(f"{kind}+{asked}: the relay uses {' or '.join(names)} for {kind}; leave out +{asked}")
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    packages = " or ".join(f"pip install '{_PACKAGES.get(name, name)}'" for name in wanted)
    raise ConfigError(f"there is no driver for {kind} here: {packages}")


def _sqlite(parts: SplitResult) -> Connect:
    """Connect to a file that exists; ``sqlite:///a`` is a relative path and ``sqlite:////a`` an absolute one."""
    path = unquote(parts.path[1:])
    if parts.netloc or not path:
        raise ConfigError("the URL of an SQLite file has three slashes before its path: sqlite:////var/lib/shop.db")
    address = f"file:{quote(path)}?mode=rw"
    return lambda: sqlite3.connect(address, uri=True, check_same_thread=False)


def _postgresql(module: Any, address: str, given: Collection[str]) -> Connect:
    options = {name: value for name, value in _POSTGRESQL_OPTIONS.items() if name not in given}
    return lambda: module.connect(address, **options)


def _mysql(module: Any, parts: SplitResult) -> Connect:
    options: dict[str, Any] = {
        "host": parts.hostname,
        "port": parts.port,
        "user": unquote(parts.username) if parts.username else None,
        "password": unquote(parts.password) if parts.password else None,
        "database": unquote(parts.path[1:]) or None,
        "charset": "utf8mb4",
        **_MYSQL_OPTIONS,
        **{name: _typed(name, value) for name, value in parse_qsl(parts.query)},
    }
    given = {name: value for name, value in options.items() if value is not None}

    def connect() -> Any:
        try:
            return module.connect(**given)
        except TypeError as error:
            raise ConfigError(f"the URL of the database: {error}") from error

    return connect


def _typed(name: str, value: str) -> int | bool | str:
    """Return a parameter of a URL of MySQL in the type that its drivers take."""
    if name in _MYSQL_NUMBERS:
        if not value.isdecimal():
            raise ConfigError(f"the URL of the database: {name}={value}: write a whole number")
        return int(value)
    if name in _MYSQL_SWITCHES:
        if value.lower() not in _SWITCHED:
            raise ConfigError(f"the URL of the database: {name}={value}: write true or false")
        return _SWITCHED[value.lower()]
    return value
