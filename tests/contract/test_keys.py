"""Jobs that share a key: limits, order; and that each way a job can end lets the next one through."""

import pytest

from pinlater.model.descriptor import JobDescriptor
from pinlater.model.keys import WAITS_FOR_KEY_MS, JobKey, without_wait
from pinlater.model.unique import OnDuplicate, UniqueRule
from pinlater.protocol.messages import FAILED, IN_PROGRESS, PENDING
from tests.support.bench import LEASE_MS, QUEUE, START_MS, new_job
from tests.support.stores import KEYED_HOMES

HOUR_MS = 3_600_000


@pytest.fixture(scope="module", params=KEYED_HOMES)
def home_kind(request):
    return KEYED_HOMES[request.param]


def limited(text="a", most=1):
    return JobKey(text, most)


def ordered(text="a"):
    return JobKey(text, 1, is_ordered=True)


def put(backend, key, count=1, **options):
    """Enqueue jobs of a key one after the other; return their descriptors."""
    return [backend.put_one(key=key, **options) for _ in range(count)]


def waits(backend, name):
    return backend.look(name).run_after_ms >= WAITS_FOR_KEY_MS


# Limits


@pytest.mark.parametrize("key", [limited(), ordered()])
def test_one_job_of_a_key_runs_at_a_time(backend, key):
    first, second, third = put(backend, key, 3)
    assert backend.take_names() == [first]
    assert backend.take_names() == []
    backend.ack(first)
    assert backend.take_names() == [second]
    backend.ack(second)
    assert backend.take_names() == [third]


def test_the_jobs_of_one_call_share_the_limit(backend):
    names = backend.put(*[new_job(key=limited(most=3)) for _ in range(7)])
    assert backend.take_names() == names[:3]
    backend.ack(*names[:2])
    assert backend.take_names() == names[3:5]


def test_other_keys_and_jobs_without_a_key_go_ahead(backend):
    first, _ = put(backend, limited("a"), 2)
    other = backend.put_one(key=limited("A"))
    plain = backend.put_one()
    assert sorted(backend.take_names()) == sorted([first, other, plain])


def test_a_key_is_one_of_its_queue(backend):
    backend.create_queue("other")
    first = backend.put_one(key=limited())
    second = backend.put_one(key=limited(), queue="other")
    assert (backend.take_names(), backend.take_names(queue="other")) == ([first], [second])


def test_priorities_share_the_limit_of_a_key(backend):
    low = backend.put_one(key=limited(), priority=3)
    high = backend.put_one(key=limited(), priority=1)
    assert backend.take_names() == [low]
    assert backend.take_names() == []
    backend.ack(low)
    assert backend.take_names() == [high]


def test_a_job_with_a_higher_limit_is_let_through_beside_one_with_a_lower(backend):
    first = backend.put_one(key=limited(most=1))
    second = backend.put_one(key=limited(most=2))
    third = backend.put_one(key=limited(most=2))
    assert backend.take_names() == [first, second]
    backend.ack(first)
    assert backend.take_names() == [third]


def test_keys_with_any_characters(backend):
    texts = ["'", '"', "%", "\\", "ä", "\u0001", "x" * 200, "x" * 199 + "y", "{}", " a", "a ", "a"]
    names = [backend.put_one(key=limited(text)) for text in texts]
    for text in texts:
        assert waits(backend, backend.put_one(key=limited(text)))
    assert sorted(backend.take_names()) == sorted(names)


# Each end of a job lets the next one through


ENDS = {
    "succeeded": lambda backend, name: backend.ack(name),
    "failed for good": lambda backend, name: backend.fail(name, is_final=True),
    "deleted": lambda backend, name: backend.delete(IN_PROGRESS),
    "named for deletion": lambda backend, name: backend.delete_these_jobs(
        QUEUE, [JobDescriptor.parse(name)], IN_PROGRESS
    ),
    "expired for good": lambda backend, name: (backend.clock.advance(LEASE_MS + 1), backend.reap()),
}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("key", [limited(), ordered()])
def test_the_end_of_a_job_lets_the_next_one_through(backend, end, key):
    first = backend.put_one(key=key, attempts=1)
    second = backend.put_one(key=key)
    assert backend.take_names() == [first]
    assert waits(backend, second)
    ENDS[end](backend, first)
    assert not waits(backend, second)
    assert backend.take_names() == [second]


@pytest.mark.parametrize("delete", ["matching", "named"])
def test_the_deletion_of_a_waiting_job_lets_the_next_one_through(backend, delete):
    first = backend.put_one(key=limited(), priority=1)
    second = backend.put_one(key=limited(), priority=2)
    if delete == "matching":
        backend.delete(PENDING, priority=1)
    else:
        backend.delete_these_jobs(QUEUE, [JobDescriptor.parse(first)], PENDING)
    assert backend.take_names() == [second]


def test_an_ack_says_how_many_jobs_it_has_let_through(backend):
    names = put(backend, limited(most=2), 5)
    assert len(backend.take()) == 2
    assert backend.ack(names[0]).let_through == 1
    assert backend.fail(names[1], is_final=True).let_through == 1
    assert backend.ack(backend.put_one(queue=QUEUE)).let_through == 0


def test_a_stale_ack_lets_nothing_through(backend):
    first, second = put(backend, limited(), 2)
    backend.take()
    backend.ack(first, claim="somebody else's")
    assert backend.take_names() == []
    assert waits(backend, second)


# Given back


GIVEN_BACK = {
    "released": lambda backend, name: backend.release_claims(QUEUE, "worker"),
    "checkpoint": lambda backend, name: backend.checkpoint(name, move_to_pending=True),
    "failed": lambda backend, name: backend.fail(name),
    "expired": lambda backend, name: (backend.clock.advance(LEASE_MS + 1), backend.reap()),
}


@pytest.mark.parametrize("way", GIVEN_BACK)
@pytest.mark.parametrize("key", [limited(), ordered()])
def test_a_job_that_is_given_back_runs_before_the_next_of_its_key(backend, way, key):
    first = backend.put_one(key=key, attempts=9)
    second = backend.put_one(key=key)
    assert backend.take_names() == [first]
    GIVEN_BACK[way](backend, first)
    assert backend.take_names() == [first]
    assert waits(backend, second)


DELAYED = {
    "checkpoint": lambda backend, name: backend.checkpoint(
        name, move_to_pending=True, run_after_ms=backend.clock.now_ms + HOUR_MS
    ),
    "failed": lambda backend, name: backend.fail(name, retry_delay_ms=HOUR_MS),
}


@pytest.mark.parametrize("way", DELAYED)
def test_a_delayed_retry_makes_way_for_the_next_of_its_key(backend, way):
    first, second = put(backend, limited(), 2, attempts=9)
    backend.take()
    settled = DELAYED[way](backend, first)
    assert settled.let_through == 1
    assert waits(backend, first)
    assert backend.take_names() == [second]
    backend.clock.advance(HOUR_MS)
    assert backend.take_names() == [], "the other one still runs"
    backend.ack(second)
    assert backend.take_names() == [first]


@pytest.mark.parametrize("way", DELAYED)
def test_a_delayed_retry_holds_up_the_next_of_an_ordered_key(backend, way):
    first, second = put(backend, ordered(), 2, attempts=9)
    backend.take()
    DELAYED[way](backend, first)
    assert backend.take_names() == []
    backend.clock.advance(HOUR_MS)
    assert backend.take_names() == [first]
    backend.ack(first)
    assert backend.take_names() == [second]


# Scheduled jobs


def test_a_scheduled_job_makes_way_for_one_that_is_due(backend):
    later = backend.put_one(key=limited(), run_after_ms=START_MS + HOUR_MS)
    now = backend.put_one(key=limited())
    assert waits(backend, later)
    assert backend.take_names() == [now]
    backend.ack(now)
    assert not waits(backend, later)
    assert backend.look(later).run_after_ms == START_MS + HOUR_MS
    assert backend.take_names() == []
    backend.clock.advance(HOUR_MS)
    assert backend.take_names() == [later]


def test_a_scheduled_job_holds_up_those_behind_it_in_an_ordered_key(backend):
    later = backend.put_one(key=ordered(), run_after_ms=START_MS + HOUR_MS)
    behind = backend.put_one(key=ordered())
    assert backend.take_names() == []
    backend.clock.advance(HOUR_MS)
    assert backend.take_names() == [later]
    backend.ack(later)
    assert backend.take_names() == [behind]


def test_an_ordered_key_keeps_the_order_of_its_enqueues_when_the_clock_goes_back(backend):
    names = []
    for _ in range(5):
        names += put(backend, ordered())
        backend.clock.advance(-1000)
    backend.clock.advance(60_000)
    taken = []
    for _ in range(5):
        [name] = backend.take_names()
        backend.ack(name)
        taken.append(name)
    assert taken == names


def test_run_now_lets_a_waiting_job_stay_in_line(backend):
    first = backend.put_one(key=limited())
    second = backend.put_one(key=limited(), run_after_ms=START_MS + HOUR_MS)
    assert backend.schedule_jobs(QUEUE, [JobDescriptor.parse(second)], None) == 1
    assert backend.take_names() == [first]
    backend.ack(first)
    assert backend.take_names() == [second]


# What others see


def test_a_waiting_job_is_pending_and_keeps_all_it_had(backend):
    put(backend, limited())
    name = backend.put_one(b"kept", key=limited(), status="new", attempts=7, priority=2)
    record = backend.look(name)
    assert (record.state, record.body, record.status, record.attempts_allowed) == (PENDING, b"kept", "new", 7)
    assert record.key == limited()
    assert without_wait(record.run_after_ms) == START_MS
    assert backend.counts() == (2, 0, 0, 0)
    found = {job.descriptor: job for job in backend.scan().jobs + backend.scan(priority=2).jobs}
    assert found[name].key == limited()


def test_what_waits_is_counted(backend):
    put(backend, limited(), 5)
    put(backend, limited("b"), 2, priority=2)
    backend.put_one(key=limited("c"), run_after_ms=START_MS + HOUR_MS)
    backend.put_one(run_after_ms=START_MS + HOUR_MS)
    assert backend.count(waits_for_key=True) == 5
    assert backend.count(waits_for_key=True, priority=2) == 1
    assert backend.count(is_future=True) == 7
    assert backend.count(is_future=False) == 2


@pytest.mark.parametrize("key", [JobKey("a"), limited(most=5), ordered()])
def test_records_have_the_key_in_each_state(backend, key):
    name = backend.put_one(key=key)
    assert backend.look(name).key == key
    backend.take()
    assert backend.look(name).key == key
    backend.fail(name, is_final=True)
    assert backend.look(name).key == key
    assert [job.key for job in backend.scan(FAILED).jobs] == [key]


def test_jobs_that_are_imported_keep_their_keys_and_wait_in_line(backend):
    names = put(backend, limited(), 3)
    backend.take()
    records = [backend.look(name)._replace(claim=None) for name in names]
    backend.create_queue("copy")
    copies = backend.import_jobs("copy", records)
    assert backend.look(copies[2]).key == limited()
    assert backend.take_names(queue="copy") == copies[:1]
    assert backend.take_names(queue="copy") == []
    backend.ack(copies[0], queue="copy")
    assert backend.take_names(queue="copy") == [copies[1]]


def test_finished_jobs_are_imported_without_a_turn(backend):
    name = backend.finished(key=limited(), state=FAILED)
    backend.create_queue("copy")
    copy, _ = backend.import_jobs("copy", [backend.look(name), backend.look(name)])
    assert backend.look(copy).state == FAILED
    waiting = backend.put_one(key=limited(), queue="copy")
    assert backend.take_names(queue="copy") == [waiting]


@pytest.mark.parametrize("retry", ["matching", "named"])
def test_jobs_that_are_retried_by_hand_wait_in_line(backend, retry):
    failed = [backend.finished(key=limited(), state=FAILED) for _ in range(3)]
    running = backend.put_one(key=limited())
    assert backend.take_names() == [running]
    if retry == "matching":
        assert backend.retry() == 3
    else:
        assert backend.retry_these_jobs(QUEUE, [JobDescriptor.parse(name) for name in failed], 1, None) == 3
    assert backend.take_names() == []
    backend.ack(running)
    for _ in failed:
        [name] = backend.take_names()
        backend.ack(name)


@pytest.mark.parametrize(("count", "order"), [(2, [1, 0, 2, 3]), (1, [1, 0, 2])], ids=["due", "delayed"])
def test_one_of_an_ordered_key_goes_behind_the_due_and_the_next_and_before_delayed_ones(backend, count, order):
    names = put(backend, ordered(), count, attempts=1)
    names += backend.put(*[new_job(key=ordered(), run_after_ms=START_MS + HOUR_MS) for _ in range(2)])
    assert backend.take_names() == names[:1]
    backend.fail(names[0])
    assert backend.retry() == 1
    taken = []
    while len(taken) < len(names):
        taken += (some := backend.take_names())
        backend.ack(*some)
        if not some:
            backend.clock.advance(HOUR_MS)
    assert [names.index(name) for name in taken] == order


def test_a_retry_with_a_delay_keeps_its_time(backend):
    name = backend.finished(key=limited(), state=FAILED)
    backend.retry(run_after_ms=START_MS + HOUR_MS)
    assert backend.look(name).run_after_ms == START_MS + HOUR_MS


def test_keys_and_unique_keys_go_together(backend):
    first = backend.put_one(key=limited(), unique_key="u1")
    second = backend.put_one(key=limited(), unique_key="u2")
    assert backend.put_one(key=limited(), unique_key="u2") == second
    assert backend.take_names() == [first]
    backend.ack(first)
    assert backend.take_names() == [second]


def test_a_waiting_job_can_be_put_off(backend):
    put_off = UniqueRule(on_duplicate=OnDuplicate.DEBOUNCE)
    first = backend.put_one(key=limited())
    second = backend.put_one(b"old", key=limited(), unique_key="u", rule=put_off)
    later = START_MS + HOUR_MS
    assert backend.put_one(b"new", key=limited(), unique_key="u", rule=put_off, run_after_ms=later) == second
    record = backend.look(second)
    assert (record.body, without_wait(record.run_after_ms)) == (b"new", later)
    assert backend.take_names() == [first]
    backend.ack(first)
    assert backend.take_names() == []
    backend.clock.advance(HOUR_MS)
    assert backend.take_names() == [second]


def test_what_waits_outlives_the_process(backend):
    names = put(backend, ordered(), 4)
    assert backend.take_names() == [names[0]]
    backend.crash()
    assert backend.take_names() == []
    backend.ack(names[0])
    backend.crash()
    assert backend.take_names() == [names[1]]


def test_a_deleted_queue_takes_its_keys_along(backend):
    put(backend, limited(), 3)
    backend.take()
    backend.delete_queue(QUEUE)
    backend.create_queue(QUEUE)
    fresh = put(backend, limited())
    assert backend.take_names() == fresh


def test_many_keys_at_once(backend):
    names = backend.put(*[new_job(key=ordered(f"k{number % 500}")) for number in range(1500)])
    taken = backend.take_names(1000)
    assert sorted(taken) == sorted(names[:500])
    settled = backend.ack(*taken)
    assert settled.let_through == 500
    assert sorted(backend.take_names(1000)) == sorted(names[500:1000])
