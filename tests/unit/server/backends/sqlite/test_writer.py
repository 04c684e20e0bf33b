"""The writer: one commit for all that waits, faults kept apart, and nothing half done."""

import asyncio
import threading

import pytest

from pinlater.errors import ConfigError, QueueNotFound, UnknownError
from pinlater.protocol.messages import PENDING
from pinlater.server.backends.records import JobFilter
from tests.support.bench import QUEUE, START_MS, new_job
from tests.support.waiting import until


def _pragma(store, text):
    """Nothing is in the works here, so the writer's connection may be borrowed."""
    rows = store.backend._writer._connection.execute(f"PRAGMA {text}").fetchall()
    return rows[0][0] if rows else None


def _enqueue(store, *jobs):
    return lambda: store.backend.enqueue_jobs(QUEUE, jobs or (new_job(),))


def test_calls_of_one_turn_share_one_transaction(store, home):
    names = store.together(*[_enqueue(store)] * 50)
    assert [commit.requests for commit in home.commits] == [50]
    assert len({name for (name,) in names}) == 50


def test_calls_of_all_kinds_share_one_transaction(store, home):
    backend = store.backend
    store.together(
        lambda: backend.dequeue_jobs(QUEUE, 10, store.claim()),
        _enqueue(store),
        lambda: backend.ack_dequeued_jobs(QUEUE, [], []),
        lambda: backend.create_queue("thumbnails"),
        lambda: backend.reap_expired(10, server_age_ms=0, quiet_ms=0),
        lambda: backend.collect_finished(1, 1, 10),
    )
    assert [commit.requests for commit in home.commits] == [6]


def test_what_arrives_meanwhile_goes_into_the_next_transaction(store, home):
    is_writing, may_go_on = threading.Event(), threading.Event()

    def now_ms():
        """Return the time, which each transaction asks for; hold up the thread's first one."""
        if threading.current_thread().name == "sqlite-writer" and not is_writing.is_set():
            is_writing.set()
            assert may_go_on.wait(60)
        return START_MS

    async def arrive():
        first = asyncio.create_task(store.backend.enqueue_jobs(QUEUE, [new_job()] * 10))
        await until(is_writing.is_set)
        others = [asyncio.create_task(store.backend.enqueue_jobs(QUEUE, [new_job()])) for _ in range(200)]
        await asyncio.sleep(0.01)
        may_go_on.set()
        await asyncio.gather(first, *others)

    store.clock.read = now_ms
    store.run(arrive())
    assert [commit.requests for commit in home.commits] == [1, 200]


def test_a_job_is_handed_to_a_dequeue_of_the_same_turn(store, home):
    dequeued, (name,) = store.together(lambda: store.backend.dequeue_jobs(QUEUE, 10, store.claim()), _enqueue(store))
    assert [job.descriptor for job in dequeued.jobs] == [name]
    assert len(home.commits) == 1


def test_one_bad_request_does_not_hurt_the_others(store):
    bad = new_job(run_after_ms=2**80)
    results = store.together(
        _enqueue(store, new_job(b"1")),
        _enqueue(store, new_job(b"2"), bad),
        _enqueue(store, new_job(b"3")),
        lambda: store.backend.dequeue_jobs(QUEUE, 10, store.claim()),
    )
    assert isinstance(results[1], UnknownError)
    assert [job.body for job in results[3].jobs] == [b"1", b"3"]
    assert [job.descriptor for job in results[3].jobs] == [*results[0], *results[2]]


def test_a_request_for_a_missing_queue_never_reaches_the_writer(store, home):
    with pytest.raises(QueueNotFound):
        store.take(queue="missing")
    assert home.commits == []


def test_a_full_disk_is_an_error_and_nothing_is_half_stored(store):
    kept = store.put_one(b"kept")
    _pragma(store, f"max_page_count = {_pragma(store, 'page_count') + 4}")
    for _ in range(3):
        with pytest.raises(UnknownError, match=r"nothing was changed.*full"):
            store.put(*[new_job(b"x" * 10_000) for _ in range(100)])
    assert store.count() == 1
    _pragma(store, "max_page_count = 1000000")
    names = store.put(*[new_job(b"x" * 10_000) for _ in range(100)])
    assert store.take_names(1000) == [kept, *names]
    store.reopen()
    assert store.counts() == (0, 101, 0, 0)


def test_while_the_disk_is_full_work_goes_on_that_needs_no_room(store):
    name = store.put_one()
    store.take()
    _pragma(store, f"max_page_count = {_pragma(store, 'page_count')}")
    big = [new_job(b"x" * 100_000)]
    results = store.together(
        lambda: store.backend.enqueue_jobs(QUEUE, big), lambda: store.backend.ack_dequeued_jobs(QUEUE, [], [])
    )
    assert isinstance(results[0], UnknownError)
    assert (results[1].changed, results[1].stale) == (0, 0)
    assert store.ack(name).changed == 1


def test_a_queue_that_could_not_be_deleted_is_still_there(store):
    name = store.put_one()
    _pragma(store, "query_only = 1")
    with pytest.raises(UnknownError, match="nothing was changed"):
        store.delete_queue(QUEUE)
    with pytest.raises(UnknownError, match="nothing was changed"):
        store.create_queue("thumbnails")
    _pragma(store, "query_only = 0")
    assert store.queue_names() == {QUEUE}
    assert store.take_names() == [name]


def test_a_caller_that_gives_up_takes_nobody_along(store):
    async def some_give_up():
        tasks = [asyncio.create_task(store.backend.enqueue_jobs(QUEUE, [new_job()])) for _ in range(10)]
        await asyncio.sleep(0)
        for task in tasks[::2]:
            task.cancel()
        return await asyncio.gather(*tasks, return_exceptions=True)

    results = store.run(some_give_up())
    assert [isinstance(result, asyncio.CancelledError) for result in results] == [True, False] * 5
    assert store.backend.waiting == 0
    assert all(store.look(name) for names in results[1::2] for name in names)


def test_closing_finishes_what_was_submitted(store):
    async def submit_and_close():
        tasks = [asyncio.create_task(store.backend.enqueue_jobs(QUEUE, [new_job()])) for _ in range(20)]
        await asyncio.sleep(0)
        await store.backend.close()
        return await asyncio.gather(*tasks)

    names = store.run(submit_and_close())
    store.backend = store.run(store._open())
    assert store.count() == len(names) == 20


def test_two_stores_of_one_file_are_refused_within_one_process_too(store, home, monkeypatch):
    monkeypatch.setattr("pinlater.server.backends.sqlite.database._LOCK_PATIENCE_SECONDS", 0.0)

    async def open_again():
        return home.open(store.clock)

    with pytest.raises(ConfigError, match="held by another"):
        store.run(open_again())


def test_readers_see_what_is_answered_while_others_write(store):
    async def write_and_look():
        for count in range(1, 30):
            writing = asyncio.create_task(store.backend.enqueue_jobs(QUEUE, [new_job()] * 50))
            await writing
            assert await store.backend.count_jobs(QUEUE, JobFilter(PENDING)) == count * 50

    store.run(write_and_look())


def test_ids_are_not_given_out_twice_when_a_reservation_was_rolled_back(store):
    seen = set(store.put(new_job()))
    for _ in range(3):
        with pytest.raises(UnknownError):
            store.put(new_job(), new_job(run_after_ms=2**80))
        names = store.put(*[new_job()] * 3)
        assert not seen & set(names)
        seen |= set(names)
    store.reopen()
    assert not seen & set(store.put(*[new_job()] * 3))
