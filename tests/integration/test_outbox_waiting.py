"""How the relay waits for rows in MariaDB or MySQL, which do not tell of them."""

import threading
from contextlib import closing

import pytest

from pinlater.outbox.connecting import connector, open_database
from tests.support.outboxes import NotedWaker, Numbered, OutboxHome
from tests.support.server import wait_for

PROCESSES = "SELECT count(*) FROM information_schema.processlist"
LOOKING = f"{PROCESSES} WHERE state = 'User sleep' AND info LIKE '% FROM TABLE %'"
WORK = "SHOW SESSION STATUS WHERE variable_name IN ('Handler_read_key', 'Questions')"


@pytest.fixture
def home(tmp_path):
    return OutboxHome("mysql", tmp_path)


@pytest.fixture
def database(home):
    """The connection of a relay that has found nothing."""
    with closing(open_database(connector(home.url))) as database:
        database.listen(home.outbox.table)
        yield database


@pytest.fixture
def waker():
    with NotedWaker() as waker:
        yield waker


@pytest.fixture
def waiting(database, waker):
    """A thread that waits on that connection for two minutes, unless rows come."""
    thread = threading.Thread(target=database.wait, args=(waker, 120.0))
    thread.start()
    yield thread
    waker.set()
    thread.join()


@pytest.fixture
def user(home):
    """A connection of a user, with a row that is not committed."""
    with closing(home.connect()) as user:
        home.outbox.enqueue(user, Numbered(n=1))
        yield user


def ids(database, home):
    return [row[0] for row in database.rows(f"SELECT id FROM {home.outbox.table} ORDER BY id")]


def test_a_commit_ends_the_wait(home, database, waiting):
    wait_for(lambda: home.rows(LOOKING) == [(1,)])
    home.enqueue(1)
    waiting.join()
    assert ids(database, home) == [1]


def test_the_database_looks_by_itself(database, waker):
    def looks():
        before = {name: int(value) for name, value in database.rows(WORK)}
        database.wait(waker, 0.1)
        after = {name: int(value) for name, value in database.rows(WORK)}
        assert after["Questions"] - before["Questions"] == 3  # and the question for them
        assert not waker.waits
        return after["Handler_read_key"] - before["Handler_read_key"]

    wait_for(lambda: looks() > 20)  # on a busy machine, it sleeps longer between them


def test_a_row_that_is_seen_before_its_commit_is_waited_for(user, home, database, waker, waiting):
    wait_for(lambda: len(waker.waits) > 3)
    assert waiting.is_alive()
    user.commit()
    waiting.join()
    assert ids(database, home) == [1]


def test_another_row_that_is_committed_meanwhile_ends_the_wait(user, home, database, waker, waiting):
    wait_for(lambda: len(waker.waits) > 3)
    home.enqueue(2)
    waiting.join()
    assert ids(database, home) == [2]


def test_the_commit_of_a_long_transaction_is_looked_for_as_often_as_the_relay_itself_would(user, waker, waiting):
    wait_for(lambda: len(waker.waits) > 30)
    assert min(waker.waits) >= 0.001
    assert waker.waits[-1] == max(waker.waits) == 0.01


def test_a_row_that_is_rolled_back_is_forgotten(user, home, database, waker, waiting):
    wait_for(lambda: len(waker.waits) > 3)
    user.rollback()
    home.enqueue(2)
    waiting.join()
    assert ids(database, home) == [2]


@pytest.mark.usefixtures("user")
def test_what_is_not_committed_is_seen_by_the_looks_alone(home, database, waker):
    database.wait(waker, 0.001)
    assert ids(database, home) == []


def test_the_waker_ends_the_wait(home, waker, waiting):
    wait_for(lambda: home.rows(LOOKING) == [(1,)])
    waker.set()
    waiting.join()


def test_the_waker_ends_the_wait_for_a_commit(user, waker, waiting):
    wait_for(lambda: waker.waits)
    waker.set()
    waiting.join()


def test_without_notify_the_relay_looks_by_itself(home, waker):
    with closing(open_database(connector(home.url))) as database:
        database.wait(waker, 1.0)
    assert waker.waits == [0.01]
