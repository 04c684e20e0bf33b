"""What becomes of a batch that the server refuses, or that meets a server in trouble."""

import json
import sqlite3
from contextlib import closing

import pytest

from pinlater import RawJob
from pinlater.errors import (
    BodyInvalid,
    CallTimeout,
    CallUnsendable,
    EnqueueRejected,
    NoHealthyShards,
    NotConnected,
    ProtocolError,
    QueueNotFound,
    UnknownError,
)
from pinlater.outbox.batch import OutboxBatch
from pinlater.outbox.connecting import open_database
from pinlater.outbox.delivery import Delivery
from pinlater.outbox.table import Table
from pinlater.outbox.turn import Settlement
from pinlater.protocol.idempotency import new_key


class Servers:
    """A client whose servers answer as a function says: what it returns is raised."""

    def __init__(self, answer):
        self.answer = answer
        self.sent = []

    def deliver(self, batch):
        self.sent.append(batch.ids)
        error = self.answer(batch)
        if error is not None:
            raise error


def batch(*ids, queue="mail", was_refused=False, **options):
    stored = dict.fromkeys(ids, (b"{}", json.dumps(options)))
    return OutboxBatch(new_key(), queue, is_repeat=was_refused, ids=list(ids), stored=stored, was_refused=was_refused)


def test_batches_are_sent_in_order_and_are_to_be_deleted():
    servers, batches = Servers(lambda _: None), [batch(1, 3), batch(2, queue="sms")]
    settlement = Delivery(servers).deliver(batches)
    assert settlement.delivered == batches
    assert servers.sent == [[1, 3], [2]]


@pytest.mark.parametrize("error", [EnqueueRejected("too large"), CallUnsendable("too large"), BodyInvalid("newer")])
def test_a_refused_batch_is_divided_and_what_follows_in_its_queue_waits(error):
    batches = [batch(1, 2), batch(5, queue="sms"), batch(3, 4)]
    servers = Servers(lambda each: error if each is batches[0] else None)
    settlement = Delivery(servers).deliver(batches)
    assert settlement.divided == [batches[0]]
    assert settlement.delivered == [batches[1]]
    assert servers.sent == [[1, 2], [5]]


def test_a_job_that_is_refused_alone_is_left_aside_and_the_others_go_on(caplog):
    batches = [batch(1), batch(2)]
    servers = Servers(lambda each: EnqueueRejected("the key is too long") if each is batches[0] else None)
    settlement = Delivery(servers).deliver(batches)
    assert settlement.refused == [(batches[0], "EnqueueRejected: the key is too long")]
    assert settlement.delivered == [batches[1]]
    assert "1 job for queue mail cannot be delivered, rows 1" in caplog.text


def test_a_queue_that_is_not_there_leaves_the_whole_batch_aside():
    refused = batch(1, 2)
    settlement = Delivery(Servers(lambda _: QueueNotFound("mail"))).deliver([refused])
    assert [each for each, _ in settlement.refused] == [refused]


@pytest.mark.parametrize("error", [NotConnected("refused"), CallTimeout("late"), NoHealthyShards("none")])
def test_while_no_server_answers_everything_waits(error, caplog):
    servers = Servers(lambda _: error)
    delivery = Delivery(servers)
    pauses = []
    for _ in range(10):
        settlement = delivery.deliver([batch(1), batch(2)])
        assert not settlement
        pauses.append(settlement.pause_seconds)
    assert servers.sent == [[1]] * 10
    assert pauses == sorted(pauses)
    assert pauses[-1] == 2.0
    assert caplog.text.count("jobs wait in the outbox") == 1


def test_after_an_outage_the_pauses_begin_anew():
    servers = Servers(lambda _: NotConnected("refused"))
    delivery = Delivery(servers)
    first = delivery.deliver([batch(1)]).pause_seconds
    delivery.deliver([batch(1)])
    servers.answer = lambda _: None
    assert delivery.deliver([batch(1)]).pause_seconds == 0
    servers.answer = lambda _: NotConnected("refused")
    assert delivery.deliver([batch(1)]).pause_seconds == first


def settled(delivery, batches):
    """Deliver until something is settled."""
    return next(settlement for _ in range(100) if (settlement := delivery.deliver(batches)))


@pytest.mark.parametrize("error", [UnknownError("the store failed"), ProtocolError("not understood")])
def test_an_error_that_one_job_alone_meets_leaves_it_aside(error):
    bad, good = batch(1), batch(2)
    servers = Servers(lambda each: error if each is bad else None)
    settlement = settled(Delivery(servers), [bad, good])
    assert [each for each, _ in settlement.refused] == [bad]
    assert settlement.delivered == [good]
    assert servers.sent.count([1]) > 1


def test_an_error_that_all_jobs_meet_is_of_the_server_and_they_wait():
    servers = Servers(lambda _: UnknownError("the disk is full"))
    delivery = Delivery(servers)
    settlement = settled(delivery, [batch(1), batch(2)])
    assert [each.ids for each, _ in settlement.refused] == [[1]]
    assert settlement.pause_seconds > 0
    assert not any(delivery.deliver([batch(2), batch(3)]) for _ in range(20))


def test_a_job_that_was_set_aside_is_set_aside_again_at_its_next_error_and_holds_up_nobody():
    bad, good = batch(1, was_refused=True), batch(2)
    servers = Servers(lambda each: UnknownError("the store failed") if each is bad else None)
    settlement = Delivery(servers).deliver([bad, good])
    assert [each for each, _ in settlement.refused] == [bad]
    assert settlement.delivered == [good]


def test_the_error_of_a_job_that_was_set_aside_says_nothing_about_the_server():
    servers = Servers(lambda _: UnknownError("the store failed"))
    delivery = Delivery(servers)
    assert delivery.deliver([batch(1, was_refused=True)]).refused
    settlement = settled(delivery, [batch(2)])
    assert servers.sent == [[1], *[[2]] * 5]
    assert [each.ids for each, _ in settlement.refused] == [[2]]


def test_a_job_that_was_set_aside_waits_during_an_outage():
    settlement = Delivery(Servers(lambda _: NotConnected("refused"))).deliver([batch(1, was_refused=True)])
    assert not settlement
    assert settlement.pause_seconds > 0


def test_the_halves_of_a_divided_batch_are_tried_as_often_as_the_whole():
    servers = Servers(lambda each: UnknownError("the store failed") if 1 in each.ids else None)
    delivery = Delivery(servers)
    assert settled(delivery, [batch(1, 2, 3)]).divided
    halves = [batch(1), batch(2, 3)]
    settlement = settled(delivery, halves)
    assert servers.sent == [[1, 2, 3]] * 5 + [[1]] * 5 + [[2, 3]]
    assert [each.ids for each, _ in settlement.refused] == [[1]]
    assert settlement.delivered == halves[1:]


@pytest.mark.parametrize("bad", [{1}, {4}, {1, 2}, {2, 7}])
def test_bad_jobs_are_set_aside_and_all_others_are_delivered_in_order(path, connection, outbox, bad):
    outbox.enqueue_many(connection, [RawJob(body=b"x") for _ in range(7)], queue="mail")
    connection.commit()
    servers = Servers(lambda each: UnknownError("the store failed") if bad & set(each.ids) else None)
    delivery, settlement, delivered = Delivery(servers), Settlement(), []
    with closing(open_database(lambda: sqlite3.connect(path))) as database:
        table = Table(database, outbox.table, 100)
        for _ in range(200):
            settlement = delivery.deliver(table.turn(settlement))
            delivered += [row_id for each in settlement.delivered for row_id in each.ids]
        assert {row.id for row in table.refused(10)} == bad
    assert delivered == sorted({1, 2, 3, 4, 5, 6, 7} - bad)


def test_a_second_bad_job_is_set_aside_too_only_later():
    bad, good = [batch(1), batch(2)], batch(3)
    servers = Servers(lambda each: UnknownError("the store failed") if each in bad else None)
    delivery = Delivery(servers)
    assert [each for each, _ in settled(delivery, [*bad, good]).refused] == bad[:1]
    settlement = settled(delivery, [bad[1], good])
    assert [each for each, _ in settlement.refused] == bad[1:]
    assert settlement.delivered == [good]
    assert servers.sent.count([2]) > 5 * servers.sent.count([1])


def test_jobs_that_are_refused_again_do_not_prolong_the_tries_of_another():
    servers = Servers(lambda each: EnqueueRejected("too large") if each.was_refused else UnknownError("it failed"))
    delivery, stuck = Delivery(servers), batch(2)
    for _ in range(5):
        settlement = delivery.deliver([batch(1, was_refused=True), stuck])
    assert [each for each, _ in settlement.refused][1:] == [stuck]


def test_an_outage_does_not_count_among_the_tries_of_a_batch():
    servers = Servers(lambda _: NotConnected("refused"))
    delivery = Delivery(servers)
    for _ in range(10):
        delivery.deliver([batch(1)])
    servers.answer = lambda _: UnknownError("the store failed")
    assert not delivery.deliver([batch(1)])


def test_an_error_of_the_server_divides_only_jobs_without_keys():
    """Shards may have stored their parts of the others, which only the same call can complete."""
    plain, keyed = batch(1, 2), batch(1, 2, key="ada")
    for bad, divided in ((plain, [plain]), (keyed, [])):
        settlement = settled(Delivery(Servers(lambda _: UnknownError("the store failed"))), [bad])
        assert settlement.divided == divided


@pytest.mark.parametrize("options", ["", "[]", "7", '{"colour": "red"}', '{"body": "{}"}', "[" * 100_000])
def test_options_that_somebody_has_broken_are_an_error_of_their_job(options):
    broken = OutboxBatch(new_key(), "mail", is_repeat=False, ids=[1], stored={1: (b"{}", options)})
    with pytest.raises(BodyInvalid):
        broken.jobs()


def test_what_was_sent_more_than_a_day_ago_is_said_to_be_uncertain(caplog):
    old = OutboxBatch(bytes(16), "mail", is_repeat=True, ids=[1], stored={1: (b"{}", "{}")})
    servers = Servers(lambda _: NotConnected("refused"))
    delivery = Delivery(servers)
    for _ in range(3):
        delivery.deliver([old])
    assert "may be stored twice" not in caplog.text
    servers.answer = lambda _: None
    delivery.deliver([old])
    assert caplog.text.count("may be stored twice") == 1
