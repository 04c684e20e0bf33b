"""Queues: made, listed, deleted with everything in them."""

import pytest

from pinlater.errors import QueueNotFound
from pinlater.model.descriptor import JobDescriptor
from pinlater.protocol.messages import FAILED, PENDING, SUCCEEDED
from pinlater.server.backends.records import MAX_QUEUE_NAME_CHARACTERS, JobFilter
from tests.support.bench import QUEUE, ack_of, checkpoint_of, new_job

EVERY_VERB_THAT_NAMES_A_QUEUE = {
    "enqueue": lambda backend: backend.put(new_job(), queue="missing"),
    "enqueue nothing": lambda backend: backend.put(queue="missing"),
    "dequeue": lambda backend: backend.take(queue="missing"),
    "peek": lambda backend: backend.peek_jobs("missing", 10),
    "ack": lambda backend: backend.ack_dequeued_jobs("missing", [ack_of("missing:s1:p1:1")], []),
    "fail": lambda backend: backend.ack_dequeued_jobs("missing", [], [ack_of("missing:s1:p1:1")]),
    "checkpoint": lambda backend: backend.checkpoint_jobs("missing", [checkpoint_of("missing:s1:p1:1")]),
    "release": lambda backend: backend.release_claims("missing", "worker"),
    "count": lambda backend: backend.count(queue="missing"),
    "scan": lambda backend: backend.scan(queue="missing"),
    "retry": lambda backend: backend.retry(queue="missing"),
    "delete": lambda backend: backend.delete_jobs("missing", JobFilter(PENDING, 1), 10),
}


def test_a_new_queue_is_listed_and_empty(backend):
    backend.create_queue("thumbnails")
    assert backend.queue_names() == {QUEUE, "thumbnails"}
    assert backend.counts("thumbnails") == (0, 0, 0, 0)


def test_creating_a_queue_again_keeps_its_jobs(backend):
    descriptor = backend.put_one()
    backend.create_queue(QUEUE)
    assert backend.queue_names() == {QUEUE}
    assert backend.take_names() == [descriptor]


def test_the_longest_name_works(backend):
    name = "q" * MAX_QUEUE_NAME_CHARACTERS
    backend.create_queue(name)
    descriptor = backend.put_one(queue=name)
    assert backend.take_names(queue=name) == [descriptor]


def test_names_differ_by_case_and_underscores(backend):
    names = {"Emails", "EMAILS", "e_mails", "emails_", "_", "0"}
    for name in names:
        backend.create_queue(name)
    assert backend.queue_names() == {*names, QUEUE}
    backend.put_one(queue="Emails")
    assert backend.count(queue="Emails") == 1
    assert [backend.count(queue=name) for name in (names - {"Emails"}) | {QUEUE}] == [0] * 6


def test_queues_survive_a_crash(backend):
    backend.create_queue("thumbnails")
    backend.crash()
    assert backend.queue_names() == {QUEUE, "thumbnails"}


def test_jobs_of_one_queue_are_not_seen_in_another(backend):
    backend.create_queue("thumbnails")
    descriptor = backend.put_one()
    assert backend.take(queue="thumbnails") == []
    assert backend.count(queue="thumbnails") == 0
    backend.take()
    assert backend.ack(descriptor, queue="thumbnails").changed == 0
    assert backend.checkpoint(descriptor, queue="thumbnails").changed == 0
    assert backend.release_claims("thumbnails", "worker") == 0
    assert backend.counts() == (0, 1, 0, 0)


@pytest.mark.parametrize("verb", EVERY_VERB_THAT_NAMES_A_QUEUE)
def test_a_missing_queue_is_an_error_that_names_it(backend, verb):
    with pytest.raises(QueueNotFound, match="missing"):
        EVERY_VERB_THAT_NAMES_A_QUEUE[verb](backend)
    assert backend.queue_names() == {QUEUE}


def test_lookup_in_a_missing_queue_leaves_the_job_out(backend):
    there = JobDescriptor.parse(backend.put_one())
    records = backend.lookup_jobs([there._replace(queue="missing"), there])
    assert records[0] is None
    assert records[1].descriptor == str(there)


def test_polling_a_missing_queue_harms_nobody(backend):
    descriptor = backend.put_one()
    for _ in range(150):
        with pytest.raises(QueueNotFound):
            backend.take(queue="missing")
    assert backend.take_names() == [descriptor]


def test_a_deleted_queue_is_gone_in_every_state(backend):
    gone = [
        backend.finished(state=SUCCEEDED),
        backend.finished(state=FAILED),
        backend.started()[0],
        backend.put_one(),
        backend.put_one(run_after_ms=backend.clock.now_ms + 10**6),
    ]
    backend.delete_queue(QUEUE)
    assert backend.queue_names() == set()
    with pytest.raises(QueueNotFound):
        backend.take()
    assert [backend.look(descriptor) for descriptor in gone] == [None] * 5


def test_deleting_a_missing_queue_twice_is_no_error(backend):
    backend.delete_queue("missing")
    backend.delete_queue("missing")
    assert backend.queue_names() == {QUEUE}


def test_a_queue_made_anew_starts_empty_and_old_descriptors_find_nothing(backend):
    old = backend.put_one()
    backend.delete_queue(QUEUE)
    backend.create_queue(QUEUE)
    assert backend.counts() == (0, 0, 0, 0)
    new = backend.put_one(b"new")
    assert new != old
    assert backend.look(old) is None
    assert backend.take_names() == [new]
    assert backend.ack(old).changed == 0


def test_a_deleted_queue_stays_deleted_after_a_crash(backend):
    backend.put_one()
    backend.delete_queue(QUEUE)
    backend.crash()
    assert backend.queue_names() == set()
    backend.create_queue(QUEUE)
    assert backend.counts() == (0, 0, 0, 0)


def test_the_monitor_is_not_disturbed_by_deleted_queues(backend):
    backend.started()
    backend.delete_queue(QUEUE)
    backend.clock.advance(10**9)
    assert backend.reap() == []
    for _ in range(5):
        backend.collect_finished(1, 1, 100)
    backend.create_queue(QUEUE)
    assert backend.take() == []


def test_deleting_and_making_a_queue_at_once_leaves_a_queue_that_keeps_its_jobs(backend):
    backend.put_one()
    store = backend.backend
    results = backend.together(lambda: store.delete_queue(QUEUE), lambda: store.create_queue(QUEUE))
    assert results == [None, None]
    assert backend.count() == 0
    descriptor = backend.put_one()
    backend.collect_finished(1, 1, 100)
    backend.crash()
    assert backend.queue_names() == {QUEUE}
    assert backend.take_names() == [descriptor]


def test_making_one_queue_several_times_at_once(backend):
    store = backend.backend
    assert backend.together(*[lambda: store.create_queue("thumbnails")] * 5) == [None] * 5
    descriptor = backend.put_one(queue="thumbnails")
    backend.reopen()
    assert backend.take_names(queue="thumbnails") == [descriptor]
