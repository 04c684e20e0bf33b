"""Queues that use some of the shards: which these are, who gets their new jobs, who is asked for those they have."""

from collections import Counter

import pytest

from pinlater.errors import UnknownError
from pinlater.model.descriptor import JobDescriptor
from pinlater.model.keys import JobKey
from pinlater.model.messages import Parent
from pinlater.model.queues import FOLLOWS_LOAD, QueueChange, QueueSettings
from pinlater.server.backends.records import Claim, IdempotencyKey
from pinlater.server.backends.sharded import ShardUnreachable
from tests.support.bench import QUEUE, new_job
from tests.unit.server.backends.sharded.fake_shards import FleetBench, specs_of
from tests.unit.server.backends.sharded.filling import CLAIM, make_ill

NAMES = "123456"


@pytest.fixture
def fleet():
    bench = FleetBench(*specs_of(*NAMES))
    bench.create_queue(QUEUE)
    yield bench
    bench.end()


def use(fleet, shards, by_load=0, queue=QUEUE):
    """Change the setting as a server does, then apply it."""
    fleet.change_queue_settings(queue, QueueChange(shards=shards, shards_by_load=by_load))
    fleet.fleet.apply_settings(fleet.queue_settings())


def shard_of(name):
    return JobDescriptor.parse(name).shard


def placed(fleet, times=60, queue=QUEUE, **options):
    """Enqueue jobs one by one; return how many went to each shard."""
    return Counter(shard_of(fleet.enqueue_jobs(queue, [new_job(**options)])[0]) for _ in range(times))


def order(fleet, queue=QUEUE):
    """Return the shards in the order in which the queue uses them."""
    found = []
    for count in range(1, len(NAMES)):
        use(fleet, count, queue=queue)
        active = fleet.fleet.active_shards(queue)
        assert list(active[:-1]) == found, "one more takes none of the others away"
        found = list(active)
    use(fleet, 0, queue=queue)
    return [*found, *(set(NAMES) - set(found))]


@pytest.mark.parametrize("count", [1, 2, 5])
def test_new_jobs_go_to_as_many_shards_as_the_queue_uses(fleet, count):
    wanted = order(fleet)[:count]
    use(fleet, count)
    found = placed(fleet)
    assert found.keys() == set(wanted) == set(fleet.fleet.active_shards(QUEUE))
    assert min(found.values()) > 1


@pytest.mark.parametrize(("shards", "by_load"), [(0, 0), (6, 0), (100, 0), (FOLLOWS_LOAD, 0), (FOLLOWS_LOAD, 6)])
def test_all_shards_are_used_unless_the_settings_say_otherwise(fleet, shards, by_load):
    use(fleet, 1)
    use(fleet, shards, by_load)
    assert fleet.fleet.active_shards(QUEUE) == ()
    assert placed(fleet, 120).keys() == set(NAMES)


def test_a_queue_that_follows_its_load_uses_as_many_as_was_found(fleet):
    use(fleet, FOLLOWS_LOAD, 2)
    assert placed(fleet).keys() == set(order(fleet)[:2])


def test_queues_use_different_shards(fleet):
    first = set()
    for number in range(30):
        queue = f"queue{number}"
        fleet.create_queue(queue)
        use(fleet, 1, queue=queue)
        assert placed(fleet, 3, queue=queue).keys() == set(fleet.fleet.active_shards(queue))
        first |= set(fleet.fleet.active_shards(queue))
    assert first == set(NAMES)


def test_a_batch_goes_whole_to_one_of_them(fleet):
    use(fleet, 3)
    batches = [fleet.enqueue_jobs(QUEUE, [new_job() for _ in range(5)]) for _ in range(40)]
    assert all(len(set(map(shard_of, batch))) == 1 for batch in batches)
    assert {shard_of(batch[0]) for batch in batches} == set(fleet.fleet.active_shards(QUEUE))


def test_the_next_shards_take_its_jobs_while_none_of_its_own_does(fleet):
    first, second, third, *_ = order(fleet)
    use(fleet, 2)
    fleet.shards[first].error = ShardUnreachable("refused")
    assert placed(fleet, 20).keys() == {second}
    fleet.shards[second].error = ShardUnreachable("refused")
    assert placed(fleet, 20).keys() == {third}
    assert fleet.unhealthy_shards == 2
    fleet.shards[first].error = None
    fleet.wait_until(lambda: fleet.unhealthy_shards == 1)
    assert placed(fleet, 20).keys() == {first}


def test_a_shard_that_takes_no_new_jobs_is_none_of_them(fleet):
    first, second, third, *_ = order(fleet)
    use(fleet, 2)
    fleet.update(*specs_of(*NAMES, dequeue_only=(first,)))
    assert set(fleet.fleet.active_shards(QUEUE)) == {second, third}
    assert placed(fleet).keys() == {second, third}
    fleet.update(*specs_of(*(name for name in NAMES if name != second)))
    assert set(fleet.fleet.active_shards(QUEUE)) == {first, third}


def test_a_repeated_call_finds_its_jobs_though_the_queue_uses_other_shards_by_then(fleet):
    once = IdempotencyKey(b"0123456789abcdef", 60_000)
    names = fleet.enqueue_jobs(QUEUE, [new_job(), new_job()], once=once)
    for count in range(1, 6):
        use(fleet, count)
        assert fleet.enqueue_jobs(QUEUE, [new_job(), new_job()], once=once._replace(is_repeat=True)) == names


@pytest.mark.parametrize("bound", [{"key": JobKey("a customer")}, {"unique_key": "a customer"}])
def test_jobs_with_keys_stay_on_the_shard_of_their_key(fleet, bound):
    [home] = placed(fleet, 3, **bound)
    for count in (1, 3, 2, 5, 0):
        use(fleet, count)
        assert placed(fleet, 3, **bound).keys() == {home}


def test_children_stay_on_the_shard_of_their_parent(fleet):
    parent = fleet.enqueue_jobs(QUEUE, [new_job()])[0]
    for count in (1, 3):
        use(fleet, count)
        assert placed(fleet, 3, parent=Parent(parent, "message", 0)).keys() == {shard_of(parent)}


def test_jobs_without_a_key_go_with_others_of_their_call_only_to_shards_of_the_queue(fleet):
    use(fleet, 2)
    active = set(fleet.fleet.active_shards(QUEUE))
    for number in range(20):
        key, unbound = JobKey(f"key {number}"), new_job()
        keyed, *others = fleet.enqueue_jobs(QUEUE, [new_job(key=key), unbound, unbound])
        assert {shard_of(name) for name in others} <= active
        if shard_of(keyed) in active:
            assert {shard_of(name) for name in others} == {shard_of(keyed)}, "the fewer calls, the better"


def stored(fleet):
    return sum(len(shard._jobs[QUEUE]) for shard in fleet.shards.values())


def new_key(number):
    return IdempotencyKey(number.to_bytes(16, "big"), 60_000)


@pytest.mark.parametrize(("before", "after"), [(0, 1), (1, 0), (1, 5), (5, 2)])
def test_a_repeated_call_with_keys_for_some_jobs_finds_all_though_the_queue_uses_other_shards_by_then(
    fleet, before, after
):
    jobs = [[new_job(), new_job(key=JobKey(f"key {number}")), new_job()] for number in range(20)]
    use(fleet, before)
    names = [fleet.enqueue_jobs(QUEUE, some, once=new_key(number)) for number, some in enumerate(jobs)]
    use(fleet, after)
    again = [new_key(number)._replace(is_repeat=True) for number in range(20)]
    assert [fleet.enqueue_jobs(QUEUE, some, once=once) for some, once in zip(jobs, again, strict=True)] == names
    assert stored(fleet) == 60


def test_a_call_of_which_only_the_jobs_with_keys_are_stored_is_completed_by_a_repeat(fleet):
    """The others do not go with them now, although the queue uses their shard by then."""
    [own] = order(fleet)[:1]
    use(fleet, 1)
    keys = (JobKey(f"key {number}") for number in range(99))
    key = next(key for key in keys if placed(fleet, 1, key=key).keys() != {own})
    before, jobs, once = stored(fleet), [new_job(key=key), new_job()], new_key(1)
    refusing = fleet.shards[own]
    refusing.enqueue_jobs = refuse
    with pytest.raises(UnknownError, match="1 of the 2 jobs are stored"):
        fleet.enqueue_jobs(QUEUE, jobs, once=once)
    del refusing.enqueue_jobs
    use(fleet, 0)
    names = fleet.enqueue_jobs(QUEUE, jobs, once=once._replace(is_repeat=True))
    assert stored(fleet) == before + 2
    assert len(set(names)) == 2


async def refuse(*_arguments, **_options):
    raise UnknownError("its disk is full")


def test_what_is_on_other_shards_is_handed_out(fleet):
    names = {name for _ in range(60) for name in fleet.enqueue_jobs(QUEUE, [new_job()])}
    use(fleet, 1)
    names |= {name for _ in range(6) for name in fleet.enqueue_jobs(QUEUE, [new_job()])}
    taken = [job.descriptor for _ in range(20) for job in fleet.dequeue_jobs(QUEUE, 7, CLAIM, want_next_due=True).jobs]
    assert (len(taken), set(taken)) == (66, names)


@pytest.mark.parametrize("coverage", [0.05, 0.3, 0.9])
def test_a_dequeue_that_covers_a_share_asks_a_share_of_both(fleet, coverage):
    use(fleet, 2)
    active = set(fleet.fleet.active_shards(QUEUE))
    for _ in range(30):
        fleet.asked.clear()
        fleet.dequeue_jobs(QUEUE, 1, Claim("host:1:1:worker:1", 1000, coverage=coverage))
        asked = set(fleet.asked_for("due_priorities"))
        assert len(asked & active) == (1 if coverage < 0.75 else 2)
        assert len(asked - active) == max(1, round(4 * coverage))


def test_the_number_by_load_is_the_largest_that_a_shard_has(fleet):
    use(fleet, FOLLOWS_LOAD, 2)
    fleet.shards["4"].settings[QUEUE] = QueueSettings(shards=FOLLOWS_LOAD, shards_by_load=3)
    assert fleet.queue_settings()[QUEUE] == QueueSettings(shards=FOLLOWS_LOAD, shards_by_load=3)
    make_ill(fleet, "4")
    assert fleet.queue_settings()[QUEUE] == QueueSettings(shards=FOLLOWS_LOAD, shards_by_load=2)
