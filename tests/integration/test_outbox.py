"""Outboxes in SQLite, MariaDB and PostgreSQL: each job that was committed is stored once, in order."""

import os
import subprocess
import sys
import threading
from contextlib import closing
from urllib.parse import urlsplit

import pytest
from django.db import ConnectionHandler

from pinlater import JobState
from pinlater.outbox.connecting import connector, open_database
from pinlater.outbox.database import Database
from pinlater.testing import LocalServer
from tests.support.django_project import set_up
from tests.support.outboxes import KINDS, POINTS, Numbered, OutboxHome, delivered
from tests.support.server import environment, wait_for

ROUNDS = int(os.environ.get("PINLATER_OUTBOX_KILLS", "2"))
"""How often a relay is killed at each point."""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with LocalServer(tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture
def client(server):
    """A client of the server, whose queue is empty."""
    client = server.client(Numbered)
    delivered(client)
    return client


@pytest.fixture(params=KINDS)
def home(request, tmp_path):
    return OutboxHome(request.param, tmp_path)


def test_what_is_committed_is_delivered_in_order_and_what_is_rolled_back_is_not(home, server, client):
    with closing(home.connect()) as connection:
        home.outbox.enqueue(connection, Numbered(n=1))
        connection.rollback()
        home.outbox.enqueue(connection, Numbered(n=2))
        assert home.outbox.enqueue_many(connection, [Numbered(n=n) for n in range(3, 253)]) == 250
        connection.commit()
        assert home.relay(server, batch_size=100).run_until_empty() == 251
    assert delivered(client) == list(range(2, 253))
    assert home.rows("SELECT id FROM TABLE") == []


def test_a_relay_that_waits_delivers_what_is_committed(home, server, client):
    relay = home.relay(server)
    thread = threading.Thread(target=relay.run)
    thread.start()
    try:
        for n in range(3):
            home.enqueue(n)
            wait_for(lambda n=n: client.count("numbered", JobState.PENDING) == n + 1)
    finally:
        relay.stop()
        thread.join()
    assert delivered(client) == [0, 1, 2]


@pytest.mark.parametrize("home", ["mysql", "postgresql"], indirect=True)  # in SQLite, one transaction writes at a time
def test_a_row_that_is_committed_late_is_not_skipped(home, server, client):
    with closing(home.connect()) as late:
        home.outbox.enqueue(late, Numbered(n=1))
        home.enqueue(2)
        assert home.relay(server).run_until_empty() == 1
        late.commit()
    assert home.relay(server).run_until_empty() == 1
    assert delivered(client) == [2, 1]


@pytest.mark.parametrize("point", POINTS)
def test_a_relay_that_is_killed_delivers_each_job_once_and_in_order(home, server, client, point):
    for number in range(ROUNDS):
        home.enqueue(*range(number * 3, number * 3 + 3))
        home.killed_relay(server, point, times=1 + number % 2)
        home.enqueue(-number - 1, queue="others")  # the next relay finds more than this one has sent
    home.relay(server).run_until_empty()
    assert delivered(client) == list(range(ROUNDS * 3))
    assert delivered(client, "others") == [-number - 1 for number in range(ROUNDS)]
    assert home.rows("SELECT id FROM TABLE") == []


def test_relays_that_work_at_the_same_time_against_all_locks_deliver_each_job_once(home, server, client, monkeypatch):
    """As may happen for a moment when one has lost its connection, and with it the lock, without knowing it yet."""
    for kind in Database.__subclasses__():
        monkeypatch.setattr(kind, "lock", lambda *_: True)
    relays = [home.relay(server, batch_size=7) for _ in range(2)]
    threads = [threading.Thread(target=relay.run) for relay in relays]
    for thread in threads:
        thread.start()
    home.enqueue(*range(100))
    wait_for(lambda: home.rows("SELECT id FROM TABLE") == [])
    for relay, thread in zip(relays, threads, strict=True):
        relay.stop()
        thread.join()
    assert sorted(delivered(client)) == list(range(100))


def test_a_relay_whose_connection_is_cut_connects_again(server, client, tmp_path):
    home = OutboxHome("postgresql", tmp_path)
    relay = home.relay(server)
    thread = threading.Thread(target=relay.run)
    thread.start()
    try:
        for n in range(3):
            home.enqueue(n)
            wait_for(lambda n=n: client.count("numbered", JobState.PENDING) == n + 1)
            home.change(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'SELECT 1 FROM TABLE%'"
            )
    finally:
        relay.stop()
        thread.join()
    assert delivered(client) == [0, 1, 2]


def test_tables_of_one_name_in_two_schemas_have_a_relay_each(tmp_path):
    home = OutboxHome("postgresql", tmp_path)
    name, schema = home.outbox.table, f"schema_of_{home.outbox.table}"
    with closing(home.connect()) as connection:
        connection.execute(f"CREATE SCHEMA {schema}")
        connection.execute(f"CREATE TABLE {schema}.{name} (LIKE {name})")
        connection.commit()
    with (
        closing(open_database(home.connect)) as one,
        closing(open_database(connector(f"{home.url}?options=-csearch_path%3D{schema}"))) as other,
        closing(open_database(home.connect)) as late,
    ):
        assert one.lock(name)
        assert other.lock(name)
        assert not late.lock(f"public.{name}")
        assert not late.lock(f"{schema}.{name}")


def test_a_relay_takes_no_connection_out_of_the_pool_of_django(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg_pool", None)  # Django's pool needs it
    home = OutboxHome("postgresql", tmp_path)
    set_up()
    url = urlsplit(home.url)
    address = {"NAME": url.path[1:], "USER": url.username, "HOST": url.hostname, "PORT": url.port}
    options = {"ENGINE": "django.db.backends.postgresql", "OPTIONS": {"pool": True}, **address}
    given = ConnectionHandler({"default": options})["default"]
    with closing(open_database(connector(given))) as database:
        assert database.lock(home.outbox.table)
    assert given.settings_dict["OPTIONS"] == {"pool": True}


def test_the_program_delivers_until_it_is_told_to_stop(server, client, tmp_path):
    home = OutboxHome("sqlite", tmp_path)
    command = [sys.executable, "-m", "pinlater.cli", "outbox-relay", "--table", home.outbox.table]
    known = {"PINLATER_OUTBOX_DATABASE": home.url, "PINLATER_SERVERS": server.address}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment() | known) as program:
        home.enqueue(1, 2)
        wait_for(lambda: client.count("numbered", JobState.PENDING) == 2)
        program.terminate()
        assert program.communicate()[0] == "2 jobs delivered\n"
    assert program.returncode == 0


def test_jobs_wait_while_there_is_no_server(home, server, client, tmp_path):
    with LocalServer(tmp_path / "server") as other:
        pass
    relay = home.relay(other)
    thread = threading.Thread(target=relay.run)
    thread.start()
    home.enqueue(*range(3))
    wait_for(lambda: home.rows("SELECT count(call_key) FROM TABLE") == [(3,)])
    relay.stop()
    thread.join()
    assert home.rows("SELECT error FROM TABLE") == [(None,)] * 3
    assert home.relay(server).run_until_empty() == 3
    assert delivered(client) == [0, 1, 2]


def test_relays_take_turns(home, server, client):
    first, second = home.relay(server), home.relay(server)
    threads = [threading.Thread(target=relay.run) for relay in (first, second)]
    threads[0].start()
    home.enqueue(1)
    wait_for(lambda: client.count("numbered", JobState.PENDING) == 1)
    threads[1].start()
    home.enqueue(*range(2, 40))
    wait_for(lambda: client.count("numbered", JobState.PENDING) == 39)
    first.stop()
    threads[0].join()
    home.enqueue(40)  # which the second one delivers, since the first has ended
    wait_for(lambda: client.count("numbered", JobState.PENDING) == 40)
    second.stop()
    threads[1].join()
    assert delivered(client) == list(range(1, 41))


def test_a_job_that_the_server_refuses_is_left_aside_and_delivered_when_it_can_be(home, server, client):
    with closing(home.connect()) as connection:
        home.outbox.enqueue_many(connection, [Numbered(n=1), Numbered(n=2)])
        home.outbox.enqueue(connection, Numbered(n=3), unique="x" * 201)
        home.outbox.enqueue(connection, Numbered(n=4))
        connection.commit()
    assert home.relay(server).run_until_empty() == 3
    assert delivered(client) == [1, 2, 4]
    [(error, refusals)] = home.rows("SELECT error, refusals FROM TABLE")
    assert "201 characters" in error
    assert refusals == 1
    home.change("UPDATE TABLE SET options = '{}', retry_at_ms = 1")
    assert home.relay(server).run_until_empty() == 1
    assert delivered(client) == [3]
