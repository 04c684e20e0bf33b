"""Jobs become structs; structs become batches."""

import re
from datetime import UTC, datetime, timedelta

import pytest

from pinlater import Client, Job, RawJob, TlsFiles
from pinlater.client.batches import Batcher
from pinlater.client.jobs import JobEncoder, target_queue
from pinlater.errors import BodyInvalid, BodyTooLarge


class Ping(Job, queue="pings", attempts=7, priority=3):
    number: int = 0


class Pong(Job):
    text: str = ""


class Raw(RawJob, queue="raw"):
    pass


def test_the_class_says_how_its_jobs_are_queued():
    options = JobEncoder()
    struct = options.struct(Ping(number=1))
    assert options.target_queue(Ping()) == "pings"
    assert (struct.body, struct.priority, struct.numAttemptsAllowed) == (b'{"job":"Ping","number":1}', 3, 7)
    assert struct.runAfterTimestampMillis is None


def test_the_enqueue_may_say_otherwise():
    options = JobEncoder(queue="other", priority=1, attempts=1, run_at=12.5, status="new", unique="k")
    struct = options.struct(Ping())
    assert options.target_queue(Ping()) == "other"
    assert (struct.priority, struct.numAttemptsAllowed, struct.customStatus) == (1, 1, "new")
    assert struct.uniqueKey == "k"
    assert struct.runAfterTimestampMillis == 12500


def test_a_key_may_be_taken_until_the_start():
    for unique in ("k", lambda _: "k"):
        assert JobEncoder(unique=unique, unique_until="started").struct(Ping()).uniqueUntilStarted
        assert JobEncoder(unique=unique, unique_until="finished").struct(Ping()).uniqueUntilStarted is None
        assert JobEncoder(unique=unique).struct(Ping()).uniqueUntilStarted is None


def test_a_key_may_be_taken_for_a_time():
    struct = JobEncoder(unique="k", unique_for=1.5).struct(Ping())
    assert (struct.uniqueForMillis, struct.uniqueUntilStarted) == (1500, None)
    struct = JobEncoder(unique="k", unique_for=60, unique_until="started").struct(Ping())
    assert (struct.uniqueForMillis, struct.uniqueUntilStarted) == (60_000, True)
    with pytest.raises(TypeError, match="unique_for='1' has to be a number"):
        JobEncoder(unique="k", unique_for="1")


def test_a_waiting_job_may_be_replaced_or_put_off():
    assert JobEncoder(unique="k", on_duplicate="keep").struct(Ping()).onDuplicate is None
    assert JobEncoder(unique="k", on_duplicate="replace").struct(Ping()).onDuplicate == 1
    struct = JobEncoder(unique="k", on_duplicate="debounce", max_delay=2.5).struct(Ping())
    assert (struct.onDuplicate, struct.maxDelayMillis, struct.uniqueForMillis) == (2, 2500, None)


def test_a_moment_may_be_a_datetime():
    moment = datetime(2030, 1, 1, tzinfo=UTC)
    assert JobEncoder(run_at=moment).struct(Ping()).runAfterTimestampMillis == int(moment.timestamp()) * 1000


def test_a_delay_counts_from_now_by_the_given_clock():
    assert JobEncoder(delay=1.5, now=lambda: 1000.0).struct(Ping()).runAfterTimestampMillis == 1_001_500
    assert JobEncoder(delay=0, now=lambda: 1000.0).struct(Ping()).runAfterTimestampMillis == 1_000_000


@pytest.mark.parametrize(
    "bad",
    [
        {"queue": "a-b"},
        {"queue": ""},
        {"priority": 0},
        {"priority": 128},
        {"attempts": 0},
        {"attempts": 2**31},
        {"unique": ""},
        {"unique_until": "started"},
        {"unique": "k", "unique_until": "begun"},
        {"unique_for": 60},
        {"on_duplicate": "replace"},
        {"max_delay": 60},
        {"on_duplicate": "drop", "unique": "k"},
        {"max_delay": 60, "unique": "k"},
        {"max_delay": 0, "unique": "k", "on_duplicate": "debounce"},
        {"unique": "k", "unique_for": 0},
        {"unique": "k", "unique_for": -1},
        {"unique": "k", "unique_for": 400 * 86400},
        {"unique": "k", "unique_for": float("nan")},
        {"delay": -1},
        {"delay": float("nan")},
        {"delay": 1, "run_at": 2},
    ],
)
def test_bad_options_are_refused(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        JobEncoder(**bad)


@pytest.mark.parametrize("key", [5, b"order-7"])
def test_a_unique_key_is_a_text(key):
    with pytest.raises(TypeError, match=f"unique={key!r} is no key; a key is a text"):
        JobEncoder(unique=key)


def test_what_json_cannot_carry_is_refused():
    with pytest.raises(BodyInvalid):
        JobEncoder().struct(Ping(number=object()))


def test_a_body_that_fits_no_message_is_refused():
    with pytest.raises(BodyTooLarge, match="enqueue its name"):
        JobEncoder().struct(Raw(body=b"x" * 17_000_000))


def batches(jobs, batch_size=500, **options):
    batcher = Batcher(JobEncoder(**options), batch_size)
    found = [batch for job in jobs for batch in batcher.add(job)]
    return found, found + batcher.rest()


def test_batches_are_cut_by_count_in_order():
    full, everything = batches((Ping(number=number) for number in range(10)), batch_size=4)
    assert [len(batch.jobs) for batch in full] == [4, 4]
    assert [len(batch.jobs) for batch in everything] == [4, 4, 2]
    bodies = [job.body for batch in everything for job in batch.jobs]
    assert bodies == [b'{"job":"Ping","number":%d}' % number for number in range(10)]


def test_batches_are_cut_by_size():
    _, everything = batches(Raw(body=b"x" * 1_500_000) for _ in range(5))
    assert [len(batch.jobs) for batch in everything] == [2, 2, 1]


def test_a_job_larger_than_a_batch_goes_alone():
    _, everything = batches(Raw(body=b"x" * size) for size in (10, 6_000_000, 10))
    assert [len(batch.jobs) for batch in everything] == [1, 1, 1]


def test_each_queue_has_its_own_batches():
    _, everything = batches([Ping(), Pong(), Ping(), Pong()], batch_size=2)
    assert [(batch.queue, len(batch.jobs)) for batch in everything] == [("pings", 2), ("pong", 2)]


def test_many_queues_do_not_pile_up():
    batcher = Batcher(JobEncoder(), 500)
    pending = 0
    for number in range(100):
        kind = type(f"Kind{number}", (RawJob,), {"__annotations__": {}}, queue=f"q{number}")
        pending += 1_000_000
        pending -= sum(len(job.body) for batch in batcher.add(kind(body=b"x" * 1_000_000)) for job in batch.jobs)
        assert pending <= 17_000_000


def test_queues_that_get_no_more_jobs_leave_the_others_their_batches():
    kinds = [type(f"Sorted{number}", (RawJob,), {"__annotations__": {}}, queue=f"q{number}") for number in range(5)]
    finished = [kind(body=b"x" * 1_048_000) for kind in kinds[:4] for _ in range(4)]
    full, everything = batches([*finished, *(kinds[4](body=b"x" * 1000) for _ in range(2000))])
    assert [len(batch.jobs) for batch in full if batch.queue == "q4"] == [500] * 4
    assert sum(len(batch.jobs) for batch in everything) == 16 + 2000


def test_no_jobs_make_no_batches():
    assert batches([]) == ([], [])


def test_a_batch_has_room_for_a_job():
    with pytest.raises(ValueError, match="batch_size"):
        Batcher(JobEncoder(), 0)


@pytest.mark.parametrize("value", ["Ping", None, [Ping()], {"job": "Ping"}])
def test_what_is_no_job_is_refused_with_the_right_way(value):
    complaint = f"is no job, but of type {type(value).__name__}; enqueue takes an instance of a class .* enqueue_many"
    with pytest.raises(TypeError, match=complaint):
        JobEncoder().struct(value)
    with pytest.raises(TypeError, match=complaint):
        target_queue(value, None)


def test_a_class_is_no_job():
    with pytest.raises(TypeError, match=r"Ping is a class of jobs; enqueue a job of it: Ping\(\.\.\.\)"):
        JobEncoder().struct(Ping)


@pytest.mark.parametrize("when", [{"delay": "5"}, {"delay": timedelta(hours=1)}, {"run_at": "tomorrow"}])
def test_a_time_of_a_wrong_type_is_refused_with_the_right_ones(when):
    [(name, value)] = when.items()
    with pytest.raises(TypeError) as caught:
        JobEncoder(**when)
    assert str(caught.value) == f"{name}={value!r}: delay is a number of seconds, run_at a datetime or epoch seconds"


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ({"run_at": 1_790_000_000_000}, "it looks like milliseconds: divide it by 1000"),
        ({"run_at": 9e9}, "is more than 100 years from now"),
        ({"run_at": float("inf")}, "is more than 100 years from now"),
        ({"run_at": -1}, "is before 1970"),
        ({"run_at": float("nan")}, "is before 1970"),
        ({"delay": 4e9}, "is in seconds; it cannot be negative, nor more than 100 years"),
    ],
)
def test_an_absurd_time_is_refused_with_what_may_be_wrong(given, hint):
    with pytest.raises(ValueError, match=hint):
        JobEncoder(**given)


def test_a_moment_that_has_passed_is_now():
    assert JobEncoder(run_at=0).struct(Ping()).runAfterTimestampMillis == 0


@pytest.mark.parametrize("name", ["timeout", "stall_after", "give_up_after"])
@pytest.mark.parametrize("value", ["5m", timedelta(minutes=5), True])
def test_a_time_limit_that_is_no_number_is_named(name, value):
    with pytest.raises(TypeError, match=re.escape(f"{name}={value!r} has to be a number of seconds")):
        JobEncoder(**{name: value})


@pytest.mark.parametrize("given", [{"attempts": "3"}, {"attempts": 2.0}, {"priority": True}, {"priority": "1"}])
def test_a_number_of_a_wrong_type_is_named(given):
    [(name, value)] = given.items()
    with pytest.raises(TypeError, match=f"{name}={value!r} has to be a whole number"):
        JobEncoder(**given)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("prio", "did you mean 'priority'?"),
        ("countdown_seconds", "the options are attempts, backoff,"),
        ("user_id", "unique_until; if user_id is a field, it goes into the job: client.enqueue(Name(user_id=…))"),
        ("headers", "has no option 'headers'; make it a field of the job"),
        ("countdown", "has no option 'countdown'; write delay=, in seconds"),
        ("ttl", "write give_up_after=, in seconds"),
        ("depends_on", "has no option 'depends_on'; enqueue client.batch([job], then=…"),
        ("kill_after", "has no option 'kill_after'; write it in the header of the job class"),
    ],
)
def test_an_option_that_does_not_exist_is_refused_with_what_to_write(name, hint):
    with Client("127.0.0.1:1", tls=TlsFiles()) as client, pytest.raises(TypeError, match=re.escape(hint)):
        client.enqueue(Ping(), **{name: 5})


@pytest.mark.parametrize("kind", ["Ping", Ping(), int])
def test_a_handle_takes_nothing_but_a_job_class(kind):
    with Client("127.0.0.1:1", tls=TlsFiles()) as client, pytest.raises(TypeError, match="is no job class"):
        client.handle("ping:s1:p1:1", kind)
