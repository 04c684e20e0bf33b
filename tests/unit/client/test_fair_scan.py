"""A scan of many queues within a bound: which jobs of which queues it sees, and what it says it has not seen."""

import pytest

from pinlater.client.fair_scan import Part, fair_scan
from pinlater.client.plans import run_plan
from pinlater.errors import QueueNotFound
from pinlater.model.jobs import JobInfo, Page
from pinlater.model.state import JobState
from pinlater.protocol.operations import Calls


class Store:
    """Answers scans, as a server does."""

    def __init__(self, **sizes):
        self.sizes = sizes
        self.asked = []

    def __call__(self, call):
        request = call.arguments.request
        queue, start = request.queueName, int(request.continuation) if request.continuation.isdigit() else 0
        self.asked.append(queue)
        if queue not in self.sizes:
            raise QueueNotFound(queue)
        end = min(start + request.limit, self.sizes[queue])
        jobs = [JobInfo(f"{queue}:s1:p1:{number}", JobState.FAILED, 1, 0) for number in range(start, end)]
        return Page(jobs, str(end) if end < self.sizes[queue] else None)


def scan(store, limit, *others, **options):
    parts = [Part(queue, JobState.FAILED) for queue in (*store.sizes, *others)]
    return run_plan(fair_scan(Calls("test"), parts, limit, **options), store)


def sizes_in(found):
    return {queue: len(jobs) for queue, jobs in found.jobs.items()}


def test_all_is_seen_where_there_is_room():
    found = scan(Store(a=450, b=3, c=0), 5000)
    assert sizes_in(found) == {"a": 450, "b": 3}
    assert (found.scanned, found.left_out) == (453, set())
    assert [info.descriptor for info in found.jobs["a"]] == [f"a:s1:p1:{number}" for number in range(450)]


def test_a_deep_queue_hides_no_other():
    found = scan(Store(a=100_000, b=100_000, y=40, z=3), 1000)
    sizes = sizes_in(found)
    assert (sizes["y"], sizes["z"]) == (40, 3)
    assert sizes["a"] == sizes["b"] > 400
    assert found.left_out == {"a", "b"}
    assert 1000 <= found.scanned < 1200


def test_of_very_many_queues_each_is_seen():
    found = scan(Store(**{f"q{number}": 50 for number in range(2000)}), 5000)
    assert set(sizes_in(found).values()) == {5}
    assert len(found.left_out) == 2000


def test_a_queue_that_is_deleted_meanwhile_is_no_trouble():
    assert sizes_in(scan(Store(a=1), 100, "gone")) == {"a": 1}


def test_it_ends_in_time_and_says_what_it_has_not_seen(monkeypatch):
    store, now = Store(**{f"q{number}": 1 for number in range(10)}), [0.0]
    monkeypatch.setattr("pinlater.client.fair_scan.time.monotonic", lambda: now[0])

    def execute(call):
        now[0] += 1.0
        return store(call)

    parts = [Part(queue, JobState.FAILED) for queue in store.sizes]
    found = run_plan(fair_scan(Calls("test"), parts, 100, seconds=4.0), execute)
    assert len(store.asked) == 4
    assert found.left_out == set(store.sizes) - set(store.asked)


def test_queues_left_out_for_lack_of_time_are_random():
    first = set()
    for _ in range(100):
        store = Store(a=1, b=1, c=1)
        scan(store, 100)
        first.add(store.asked[0])
    assert first == {"a", "b", "c"}


def test_an_error_of_the_server_goes_through():
    def refuse(_):
        raise ConnectionError

    with pytest.raises(ConnectionError):
        run_plan(fair_scan(Calls("test"), [Part("a", JobState.FAILED)], 10), refuse)
