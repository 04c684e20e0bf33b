"""What workers have reported of themselves: bytes to a store, which keeps the last of each for as long as told."""

import pytest

from pinlater.server.backends.records import MAX_WORKER_ID_CHARACTERS

ANY_BYTES = bytes(range(256)) * 2


@pytest.fixture
def backend(new_backend):
    return new_backend


def kept(backend, **options):
    return {one.worker_id: one.report for one in backend.reports(**options)}


def test_there_are_none_at_first(backend):
    assert backend.reports() == []


def test_the_last_report_of_each_worker_counts(backend):
    backend.store_report("one", b"old", 1000)
    backend.store_report("two", ANY_BYTES, 1000)
    first_ms = backend.clock.now_ms
    backend.clock.advance(10)
    backend.store_report("one", b"", 1000)
    assert sorted(backend.reports()) == [("one", b"", first_ms + 10), ("two", ANY_BYTES, first_ms)]


def test_a_report_is_there_until_its_time_is_over(backend):
    backend.store_report("short", b"s", 1000)
    backend.store_report("long", b"l", 5000)
    backend.clock.advance(999)
    assert kept(backend) == {"short": b"s", "long": b"l"}
    backend.clock.advance(1)
    assert kept(backend) == {"long": b"l"}
    backend.store_report("short", b"again", 1000)
    assert kept(backend) == {"short": b"again", "long": b"l"}
    backend.clock.advance(4000)
    assert kept(backend) == {}


def test_a_later_report_may_end_earlier(backend):
    backend.store_report("one", b"x", 60_000)
    backend.store_report("one", b"y", 1000)
    backend.clock.advance(1000)
    assert kept(backend) == {}


def test_a_worker_that_has_ended_is_forgotten(backend):
    backend.store_report("one", b"x", 1000)
    backend.store_report("two", b"y", 1000)
    backend.store_report("one", b"", 0)
    backend.store_report("nobody", b"", 0)
    assert kept(backend) == {"two": b"y"}


@pytest.mark.parametrize("name", ["web 1:42", "ÄÖ🐙" * (MAX_WORKER_ID_CHARACTERS // 3), 'o\'clock \\ "x" %s', "-1"])
def test_ids_are_compared_character_by_character(backend, name):
    others = {name.upper() + "!", name + " ", name[:-1]}
    for other in others:
        backend.store_report(other[:MAX_WORKER_ID_CHARACTERS], b"other", 1000)
    backend.store_report(name, b"own", 1000)
    assert kept(backend)[name] == b"own"
    backend.store_report(name, b"", 0)
    assert name not in kept(backend)
    assert len(kept(backend)) >= 2


def test_those_that_last_longest_come_first_as_far_as_they_fit(backend):
    for number in (3, 1, 4, 2):
        backend.store_report(f"w{number}", b"x" * 1000, number * 1000)
    assert list(kept(backend)) == ["w4", "w3", "w2", "w1"]
    assert list(kept(backend, max_bytes=2999)) == ["w4", "w3"]
    assert list(kept(backend, max_bytes=3000)) == ["w4", "w3", "w2"]
    assert kept(backend, max_bytes=999) == {}


def test_a_large_report(backend):
    report = ANY_BYTES * 512
    backend.store_report("large", report, 1000)
    assert kept(backend) == {"large": report}


def test_reports_survive_a_crash(backend):
    backend.store_report("one", b"x", 60_000)
    backend.crash()
    assert kept(backend) == {"one": b"x"}


def test_reports_have_nothing_to_do_with_queues(backend):
    backend.store_report("one", b"x", 60_000)
    for queue in backend.queue_names():
        backend.delete_queue(queue)
    assert kept(backend) == {"one": b"x"}


def test_workers_that_come_and_go_leave_nothing_behind(backend):
    for number in range(250):
        backend.store_report(f"gone {number}", b"x", 1000)
    backend.clock.advance(1000)
    for _ in range(3):
        backend.store_report("here", b"y", 1000)
    backend.clock.now_ms -= 500  # a time at which they would still be seen
    assert kept(backend) == {"here": b"y"}


def test_reports_that_arrive_together(backend):
    calls = [
        lambda number=number: backend.backend.store_report(f"w{number % 5}", b"%d" % number, 1000)
        for number in range(50)
    ]
    assert backend.together(*calls) == [None] * 50
    assert sorted(kept(backend)) == ["w0", "w1", "w2", "w3", "w4"]


def test_reports_that_arrive_together_while_others_end(backend):
    for number in range(0, 60, 2):
        backend.store_report(f"w{number}", b"old", 1)
    backend.clock.now_ms += 10
    calls = [
        lambda number=number: backend.backend.store_report(f"w{number % 60}", b"%d" % number, number % 3 and 30_000)
        for number in range(240)
    ]
    assert backend.together(*calls) == [None] * 240
