"""How the relay reads and changes the rows of an outbox."""

import sqlite3
from contextlib import closing

import pytest

from pinlater import RawJob
from pinlater.outbox.connecting import open_database
from pinlater.outbox.table import RowsChanged, Table
from pinlater.outbox.turn import Settlement

NOTHING = Settlement()


@pytest.fixture
def store(connection, outbox):
    """Store a job of some bytes for each queue that is named."""

    def run(*queues, size=10):
        for queue in queues:
            outbox.enqueue(connection, RawJob(body=b"x" * size), queue=queue)
        connection.commit()

    return run


@pytest.fixture
def table(path):
    with closing(open_database(lambda: sqlite3.connect(path))) as database:
        yield Table(database, "pinlater_outbox", 4)


def shape(batches):
    return [(batch.queue, batch.ids, batch.is_repeat) for batch in batches]


def test_there_is_a_batch_for_each_queue_and_each_has_a_key_in_the_table(table, store, rows):
    store("mail", "sms", "mail")
    batches = table.turn(NOTHING)
    assert shape(batches) == [("mail", [1, 3], False), ("sms", [2], False)]
    mail, sms = (batch.key for batch in batches)
    found = rows("SELECT call_key, call_rows FROM pinlater_outbox ORDER BY id")
    assert found == [(mail, 2), (sms, 1), (mail, 2)]


def test_a_batch_that_has_a_key_stays_as_it_is_whatever_else_there_is(table, store):
    store("mail", "mail")
    [first] = table.turn(NOTHING)
    store("mail", "mail")
    again, later = table.turn(NOTHING)
    assert (again.key, again.ids, again.is_repeat) == (first.key, [1, 2], True)
    assert (later.ids, later.is_repeat) == ([3, 4], False)


def test_all_rows_of_a_batch_are_sent_although_they_are_not_among_the_first(table, store, connection):
    store("mail", "mail", "mail", "mail")
    table.turn(NOTHING)
    connection.execute("UPDATE pinlater_outbox SET id = id + 10")
    connection.execute("UPDATE pinlater_outbox SET retry_at_ms = 5 WHERE id = 12")  # somebody did that by hand
    connection.commit()
    connection.executemany(
        "INSERT INTO pinlater_outbox (id, queue, body, options, enqueued_at_ms) VALUES (?, 'mail', x'', '{}', 0)",
        [(1,), (2,), (3,)],
    )
    connection.commit()
    late, batch = table.turn(NOTHING)
    assert late.ids == [1, 2, 3]
    assert batch.ids == [11, 12, 13, 14]
    assert len(batch.jobs()) == 4


def test_large_bodies_are_read_as_far_as_they_fit_into_memory(table, store):
    store("mail", "mail", "mail", size=2 << 20)
    [batch] = table.turn(NOTHING)
    assert batch.ids == [1, 2]
    assert [len(job.body) for job in batch.jobs()] == [2 << 20] * 2


def test_what_was_delivered_is_deleted_and_the_next_are_returned(table, store, rows):
    store("mail", "mail", "mail", "mail", "mail")
    delivered = table.turn(NOTHING)
    assert shape(table.turn(Settlement(delivered=delivered))) == [("mail", [5], False)]
    assert rows("SELECT id FROM pinlater_outbox") == [(5,)]


def test_at_the_end_nothing_is_claimed(table, store, rows):
    store("mail")
    delivered = table.turn(NOTHING)
    store("mail")
    assert table.turn(Settlement(delivered=delivered), goes_on=False) == []
    assert rows("SELECT id, call_key FROM pinlater_outbox") == [(2, None)]


def test_a_refused_batch_is_divided_into_halves_with_keys_of_their_own(table, store):
    store("mail", "mail", "mail")
    [whole] = table.turn(NOTHING)
    halves = table.turn(Settlement(divided=[whole]))
    assert shape(halves) == [("mail", [1], True), ("mail", [2, 3], True)]
    assert len({whole.key, *(half.key for half in halves)}) == 3


def test_refused_rows_are_put_off_ever_longer_and_tried_again_as_one_batch(table, store, rows, monkeypatch):
    now = 1_000_000.0
    monkeypatch.setattr("time.time", lambda: now)
    store("mail", "mail")
    [batch] = table.turn(NOTHING)
    waits = []
    for _ in range(8):
        assert table.turn(Settlement(refused=[(batch, "EnqueueRejected: too large")])) == []
        [retry_at_ms] = {row[0] for row in rows("SELECT retry_at_ms FROM pinlater_outbox")}
        waits.append(retry_at_ms / 1000 - now)
        table.retry_refused()
        assert table.turn(NOTHING) == []  # not yet
        now += waits[-1]
        table.retry_refused()
        [again] = table.turn(NOTHING)
        assert (again.key, again.ids, again.was_refused) == (batch.key, [1, 2], True)
    assert waits == [10, 20, 40, 80, 160, 300, 300, 300]
    assert [row[2:4] for row in table.refused(10)] == [(1_000_000_000, 8)] * 2


def test_rows_that_somebody_else_has_taken_meanwhile_are_looked_at_again(table, store, connection, monkeypatch):
    store("mail", "mail")
    mark = Table._mark

    def late_mark(self, batches):
        connection.execute("DELETE FROM pinlater_outbox WHERE id = 1")
        connection.commit()
        mark(self, batches)

    monkeypatch.setattr(Table, "_mark", late_mark)
    with pytest.raises(RowsChanged):
        table.turn(NOTHING)
    monkeypatch.undo()
    [batch] = table.turn(NOTHING)
    assert batch.ids == [2]


def test_what_waits_is_counted(table, store):
    assert table.waiting() == (0, None, 0)
    store("mail", "mail")
    [batch] = table.turn(NOTHING)
    table.turn(Settlement(refused=[(batch, "refused")]))
    jobs, oldest_ms, refused = table.waiting()
    assert (jobs, refused) == (2, 2)
    assert oldest_ms > 0
    assert [row.error for row in table.refused(1)] == ["refused"]
