"""Calls that are sent again, over several shards: what the first one did is found wherever it was done."""

import itertools

import pytest

from pinlater.errors import NoHealthyShards, ShardConnectionFailed, UnknownError
from pinlater.model.descriptor import JobDescriptor
from pinlater.model.keys import JobKey
from pinlater.model.plural import plural
from pinlater.server.backends.records import IdempotencyKey
from pinlater.server.backends.sharded import ShardUnreachable
from tests.support.bench import new_job
from tests.unit.server.backends.sharded.fake_shards import FleetBench, specs_of

LOST = ShardConnectionFailed("the answer was lost")
GONE = ShardUnreachable("it cannot be reached")
_numbers = itertools.count(1)


@pytest.fixture
def bench():
    bench = FleetBench()
    bench.create_queue("q")
    yield bench
    bench.end()


def new_key():
    return IdempotencyKey(next(_numbers).to_bytes(16, "big"), 60_000)


def again(key):
    return key._replace(is_repeat=True)


def set_all(bench, **attributes):
    for shard in bench.shards.values():
        for name, value in attributes.items():
            setattr(shard, name, value)


def stored(bench):
    return sum(len(shard._jobs["q"]) for shard in bench.shards.values())


def test_the_key_chooses_the_shard_of_jobs_without_unique_keys(bench):
    for _ in range(100):
        key = new_key()
        name = bench.enqueue_jobs("q", [new_job()], once=key)
        assert bench.enqueue_jobs("q", [new_job()], once=key) == name
    assert stored(bench) == 100
    assert min(len(shard._jobs["q"]) for shard in bench.shards.values()) > 10


def test_an_enqueue_whose_answer_was_lost_is_found(bench):
    for _ in range(20):
        key = new_key()
        set_all(bench, loses=LOST)
        with pytest.raises(ShardConnectionFailed):
            bench.enqueue_jobs("q", [new_job(), new_job(priority=2)], once=key)
        set_all(bench, loses=None)
        before = stored(bench)
        names = bench.enqueue_jobs("q", [new_job(), new_job(priority=2)], once=again(key))
        assert [name.split(":")[2] for name in names] == ["p1", "p2"]
        assert stored(bench) == before
    assert before == 40


def test_a_first_one_on_the_second_choice_is_found_when_the_first_is_back(bench):
    key = new_key()
    bench.enqueue_jobs("q", [new_job()], once=key)
    (home,) = (shard for shard in bench.shards.values() if shard.results)
    home.results.clear()
    home._jobs["q"].clear()
    home.error = GONE
    set_all(bench, loses=LOST)
    with pytest.raises(ShardConnectionFailed):
        bench.enqueue_jobs("q", [new_job()], once=key)
    assert stored(bench) == 1
    home.error = None
    set_all(bench, loses=None)
    (name,) = bench.enqueue_jobs("q", [new_job()], once=again(key))
    assert f":s{home.name}:" not in name
    assert stored(bench) == 1


def test_when_the_shard_that_has_it_is_away_it_is_stored_once_more_rather_than_lost(bench):
    key = new_key()
    set_all(bench, loses=LOST)
    with pytest.raises(ShardConnectionFailed):
        bench.enqueue_jobs("q", [new_job()], once=key)
    set_all(bench, loses=None)
    (home,) = (shard for shard in bench.shards.values() if shard.results)
    home.error = GONE
    (name,) = bench.enqueue_jobs("q", [new_job()], once=again(key))
    assert f":s{home.name}:" not in name
    assert stored(bench) == 2


def test_each_part_of_a_batch_with_unique_keys_is_found(bench):
    jobs = [new_job(unique_key=None if number % 3 == 0 else f"key {number}") for number in range(30)]
    key = new_key()
    first = bench.enqueue_jobs("q", jobs, once=key)
    assert bench.enqueue_jobs("q", jobs, once=again(key)) == first
    assert bench.enqueue_jobs("q", jobs, once=key)[1::3] == first[1::3], "those with keys, also by another process"
    assert stored(bench) == 30
    assert len(set(first)) == 30


def test_a_call_over_several_shards_is_counted_right_when_it_is_sent_again(bench):
    key = new_key()
    bench.shards["2"].loses = LOST
    for attempt in range(100):  # until shard 2 is one of those that need not be asked
        try:
            assert bench.retry_failed_jobs("q", 1, 1, None, 8, once=again(key) if attempt else key) == 8
            break
        except ShardConnectionFailed:
            continue
    assert sum(shard.failed for shard in bench.shards.values()) == 1
    bench.shards["2"].loses = None
    assert bench.retry_failed_jobs("q", 1, 1, None, 8, once=again(key)) == 8
    assert sum(shard.failed for shard in bench.shards.values()) == 1


def test_a_limit_is_not_passed_when_an_answer_is_lost(bench):
    key = new_key()
    set_all(bench, loses=LOST)
    with pytest.raises(ShardConnectionFailed, match="lost"):
        bench.retry_failed_jobs("q", 1, 1, None, 3, once=key)
    set_all(bench, loses=None)
    assert bench.retry_failed_jobs("q", 1, 1, None, 3, once=again(key)) == 3
    assert sum(shard.failed for shard in bench.shards.values()) == 6


def test_nobody_counts_while_a_shard_that_may_have_done_a_part_is_away(bench):
    key = new_key()
    bench.shards["1"].error = GONE
    assert bench.retry_failed_jobs("q", 1, 1, None, 6, once=key) == 6, "it was not asked the first time"
    with pytest.raises(ShardConnectionFailed, match="may have done a part"):
        bench.retry_failed_jobs("q", 1, 1, None, 6, once=again(key))
    bench.shards["1"].error = None
    assert bench.retry_failed_jobs("q", 1, 1, None, 6, once=again(key)) == 6


def test_one_shard_alone_is_not_asked_twice():
    bench = FleetBench(*specs_of("1"))
    bench.create_queue("q")
    bench.enqueue_jobs("q", [new_job()], once=again(new_key()))
    assert bench.asked_for("result") == []
    bench.shards["1"].error = GONE
    with pytest.raises(NoHealthyShards):
        bench.enqueue_jobs("q", [new_job()], once=again(new_key()))
    bench.end()


REFUSED = UnknownError("shard 2 could not carry this out, nothing was changed: its disk is full")


def refusing(monkeypatch, shard, verb, error):
    """Let a shard answer, and refuse one verb."""

    async def refuse(*_arguments, **_options):
        raise error

    monkeypatch.setattr(shard, verb, refuse)


@pytest.mark.parametrize("error", [REFUSED, GONE, LOST])
@pytest.mark.parametrize("refuser", ["1", "2", "3"])
def test_a_batch_of_which_a_shard_refuses_its_part_says_what_is_stored_and_can_be_completed(
    bench, monkeypatch, refuser, error
):
    jobs = [new_job(b"%d" % number, unique_key=f"key {number}") for number in range(30)]
    key = new_key()
    with monkeypatch.context() as patch:
        refusing(patch, bench.shards[refuser], "enqueue_jobs", error)
        with pytest.raises(type(error) if error is REFUSED else ShardConnectionFailed) as refused:
            bench.enqueue_jobs("q", jobs, once=key)
    count = stored(bench)
    if count:
        assert not isinstance(refused.value, ShardUnreachable), "which would mean that nothing was stored"
        assert str(refused.value).startswith(
            f"{count} of the 30 jobs are stored, the others are not; make the same call"
        )
        assert str(refused.value).endswith(str(error))
    else:
        assert refused.value is error
    names = bench.enqueue_jobs("q", jobs, once=again(key))
    assert stored(bench) == 30
    assert len(set(names)) == 30


@pytest.mark.parametrize("refuser", ["1", "2", "3"])
def test_a_batch_with_shared_keys_in_part_says_what_another_call_would_store_twice(bench, monkeypatch, refuser):
    jobs = [
        new_job(key=JobKey(f"key {number}"), unique_key=f"{number}" if number % 2 else None) for number in range(30)
    ]
    key = new_key()
    with monkeypatch.context() as patch:
        refusing(patch, bench.shards[refuser], "enqueue_jobs", REFUSED)
        with pytest.raises(UnknownError) as refused:
            bench.enqueue_jobs("q", jobs, once=key)
    count = stored(bench)
    if count:
        assert str(refused.value).startswith(f"{count} of the 30 jobs are stored, the others are not; make the same")
        assert "of these have no unique key, and are stored twice unless" in str(refused.value)
    bench.enqueue_jobs("q", jobs, once=again(key))
    assert stored(bench) == 30


def test_some_shard_comes_after_another(bench, monkeypatch):
    """Or the test above would not see a batch that is stored in part."""
    jobs = [new_job(unique_key=f"key {number}") for number in range(30)]
    counts = []
    for refuser in bench.shards.values():
        before = stored(bench)
        with monkeypatch.context() as patch:
            refusing(patch, refuser, "enqueue_jobs", REFUSED)
            with pytest.raises(UnknownError):
                bench.enqueue_jobs("q", jobs, once=new_key())
        counts.append(stored(bench) - before)
    assert sum(map(bool, counts)) == 2


def test_a_retry_that_a_later_shard_refuses_says_what_was_done(bench, monkeypatch):
    for _ in range(20):
        before = sum(shard.failed for shard in bench.shards.values())
        with monkeypatch.context() as patch:
            refusing(patch, bench.shards["2"], "retry_failed_jobs", REFUSED)
            with pytest.raises(UnknownError) as refused:
                bench.retry_failed_jobs("q", 1, 1, None, 100, once=new_key())
        moved = before - sum(shard.failed for shard in bench.shards.values())
        assert str(refused.value).startswith(f"{plural(moved)} changed on other shards") == bool(moved)
        set_all(bench, failed=3)


def test_a_deletion_by_name_that_a_shard_refuses_says_what_was_done(bench, monkeypatch):
    jobs = [JobDescriptor.parse(f"q:s{number % 3 + 1}:p1:{number}") for number in range(9)]
    refusing(monkeypatch, bench.shards["2"], "delete_these_jobs", REFUSED)
    with pytest.raises(UnknownError, match=r"^6 of the 9 jobs were changed, on other shards"):
        bench.delete_these_jobs("q", jobs, 0)
