"""What a store holds, by table or key, so that tests can tell whether anything was left behind."""

import sqlite3
from contextlib import closing

import pymysql

_ADVANCES = {"sqlite_sequence"}
"""Has no row before its table has one."""


def sqlite_contents(file):
    """Return the number of rows of each table that has any."""
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as connection:
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        counts = {name: connection.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0] for name in tables}
    return {name: count for name, count in counts.items() if count and name not in _ADVANCES}


def mysql_contents(endpoint, prefix):
    """Return the number of rows of each table that has any, over the databases with a prefix."""
    found = {}
    with (
        closing(
            pymysql.connect(host=endpoint.host, port=endpoint.port, user=endpoint.user, password=endpoint.password)
        ) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute(
            "SELECT table_schema, table_name FROM information_schema.tables WHERE LEFT(table_schema, %s) = %s",
            (len(prefix), prefix),
        )
        for place in cursor.fetchall():
            table = ".".join(place)
            cursor.execute(f"SELECT count(*) FROM {table}")
            [(count,)] = cursor.fetchall()
            if count:
                found[table] = count
    return found


def redis_contents(client):
    """Return the number of elements of each key, except for those that Redis itself expires."""
    sizes = {"hash": client.hlen, "zset": client.zcard, "set": client.scard, "stream": client.xlen}
    found = {}
    for key in client.scan_iter():
        if client.ttl(key) == -1:
            found[key.decode()] = sizes.get(client.type(key).decode(), lambda _: 1)(key)
    return found
