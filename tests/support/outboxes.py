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
from pinlater.outbox.waker import Waker
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


class NotedWaker(Waker):
    """Notes how long somebody wanted to wait, each time.

    Attributes:
        waits: seconds.
    """

    def __init__(self):
        super().__init__()
        self.waits = []

    def wait(self, seconds, file=None):
        self.waits.append(seconds)
        return super().wait(seconds, file)


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
            for statement in self.outbox.table_statements(kind):
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

    def killed_relay(self, server, point, times=1):
        """Run a relay that kills itself when it comes to a point for so many times."""
        given = self.outbox.table, self.url, server.address, point, times
        process = _forks.Process(target=_relay_until, args=given)
        process.start()
        process.join(60)
        assert process.exitcode == -signal.SIGKILL, point


def delivered(client, queue="numbered"):
    """Claim all jobs of a queue; return their numbers in the order in which the server hands them out."""
    numbers = []
    while jobs := client.dequeue_jobs(queue, 1000):
        numbers += [json.loads(job.body)["n"] for job in jobs]
    return numbers


def _relay_until(table, url, address, point, times):
    """Run a relay of small batches until it comes to a point, in a process that is to die there."""
    left = [times]

    def pass_point():
        left[0] -= 1
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)

    if point == "before the send":
        DeliveryClient.deliver = _before(DeliveryClient.deliver, lambda *_: pass_point())
    elif point == "after the send":
        Connection.send = _after(Connection.send, lambda _, method, *__: method == "enqueueJobs" and pass_point())
    elif point == "after the answer":
        DeliveryClient.deliver = _after(DeliveryClient.deliver, lambda *_: pass_point())
    else:
        said = []
        around = _before if point == "before the commit" else _after
        Database.run = around(Database.run, lambda _, sql, *__: sql == "COMMIT" and "DELETE" in said and pass_point())
        Database.run = _before(Database.run, lambda _, sql, *__: said.append(sql.partition(" ")[0]))
    Relay(Outbox(table), url, address, batch_size=2).run()


def _before(function, do):
    def call(*args, **kwargs):
        do(*args)
        return function(*args, **kwargs)

    return call


def _after(function, do):
    def call(*args, **kwargs):
        result = function(*args, **kwargs)
        do(*args)
        return result

    return call
