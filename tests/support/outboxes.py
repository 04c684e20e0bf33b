"""Outboxes in real databases, and relays that die at a given point."""

import itertools
import json
import multiprocessing
import os
import signal
import sqlite3
from contextlib import closing
from urllib.parse import quote

from pinlater import Job
from pinlater.client.connection import Connection
from pinlater.outbox import Outbox, Relay
from pinlater.outbox.connecting import connector
from pinlater.outbox.database import Database
from pinlater.outbox.delivery import DeliveryClient
from tests.support import mariadb_service, postgresql_service

KINDS = ("sqlite", "mysql", "postgresql")
POINTS = ("before the send", "after the send", "after the answer", "before the commit", "after the commit")
_numbers = itertools.count(1)
_forks = multiprocessing.get_context("forkserver")
_forks.set_forkserver_preload(["tests.support.outboxes", "psycopg", "pymysql"])


class Numbered(Job, queue="numbered"):
    n: int

    def run(self, context):
        pass


class OutboxHome:
    """An empty outbox in a database of its kind.

    Attributes:
        kind: of the database.
        url: of the database.
        outbox: the outbox.
    """

    def __init__(self, kind, folder):
        self.kind = kind
        self.outbox = Outbox(f"outbox_{next(_numbers)}")
        self.url = getattr(self, f"_make_{kind}")(folder)
        with closing(self.connect()) as connection:
            for statement in self.outbox.create_table(kind).split(";\n"):
                if statement:
                    connection.cursor().execute(statement)
            connection.commit()

    def _make_sqlite(self, folder):
        path = folder / "shop.db"
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA journal_mode = wal")
        return f"sqlite:///{path}"

    def _make_mysql(self, folder):
        del folder
        service = mariadb_service.shared_service()
        base = f"mysql://{service.user}:{quote(service.password)}@{service.host}:{service.port}/"
        with closing(connector(base)()) as connection:
            connection.cursor().execute("CREATE DATABASE IF NOT EXISTS shop")
        return f"{base}shop"

    def _make_postgresql(self, folder):
        del folder
        return postgresql_service.shared_service().url

    def connect(self):
        """Return a connection of a user."""
        return connector(self.url)()

    def relay(self, server, **options):
        return Relay(self.outbox, self.url, server.address, **options)

    def enqueue(self, *numbers, **options):
        """Enqueue a job for each number, each with a commit of its own."""
        with closing(self.connect()) as connection:
            for n in numbers:
                self.outbox.enqueue(connection, Numbered(n=n), **options)
                connection.commit()

    def rows(self, sql):
        """Return what a query finds; ``TABLE`` stands for the outbox."""
        with closing(self.connect()) as connection, closing(connection.cursor()) as cursor:
            cursor.execute(sql.replace("TABLE", self.outbox.table))
            found = list(cursor.fetchall())
            connection.commit()
        return found

    def change(self, sql):
        with closing(self.connect()) as connection, closing(connection.cursor()) as cursor:
            cursor.execute(sql.replace("TABLE", self.outbox.table))
            connection.commit()

    def killed_relay(self, server, point):
        """Run a relay that kills itself at a point."""
        process = _forks.Process(target=_relay_until, args=(self.outbox.table, self.url, server.address, point))
        process.start()
        process.join(60)
        assert process.exitcode == -signal.SIGKILL, point


def delivered(client, queue="numbered"):
    """Claim all jobs of a queue; return their numbers in the order in which the server hands them out."""
    numbers = []
    while jobs := client.dequeue_jobs(queue, 1000):
        numbers += [json.loads(job.body)["n"] for job in jobs]
    return numbers


def _relay_until(table, url, address, point):
    """Run a relay until it comes to a point, in a process that is to die there."""
    if point == "before the send":
        DeliveryClient.deliver = _die
    elif point == "after the send":
        Connection.send = _then_die(Connection.send, lambda _, method, *__: method == "enqueueJobs")
    elif point == "after the answer":
        DeliveryClient.deliver = _then_die(DeliveryClient.deliver, lambda *_: True)
    else:
        Database.run = _dying_run(is_before=point == "before the commit")
    Relay(Outbox(table), url, address).run()


def _die(*_):
    os.kill(os.getpid(), signal.SIGKILL)


def _then_die(function, condition):
    def call(*args, **kwargs):
        result = function(*args, **kwargs)
        if condition(*args):
            _die()
        return result

    return call


def _dying_run(*, is_before):
    """Return what executes statements, and dies at the commit after a deletion."""
    run, said = Database.run, []

    def call(database, sql, parameters=()):
        is_end = sql == "COMMIT" and any(each.startswith("DELETE") for each in said)
        said.append(sql)
        if is_end and is_before:
            _die()
        result = run(database, sql, parameters)
        if is_end:
            _die()
        return result

    return call
