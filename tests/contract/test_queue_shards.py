"""Queues that use some shards of the store: new jobs, those on the other shards, and how many the load needs."""

import time

import pytest

from pinlater.model.descriptor import JobDescriptor
from pinlater.model.keys import JobKey
from pinlater.model.queues import FOLLOWS_LOAD, QueueChange, QueueSettings
from pinlater.model.statistics import MINUTE, StatisticsKind
from pinlater.protocol.messages import PENDING
from pinlater.server.backends.sharded import ShardUnreachable, queue_sizer
from pinlater.server.backends.statistics import ENQUEUED, StatisticsEntry, StatisticsKey
from tests.contract.test_idempotency import again, new_key
from tests.support.bench import QUEUE, Bench, new_job
from tests.support.stores import SHARDED_STORES

SHARDS = 4


@pytest.fixture(params=SHARDED_STORES)
def backend(request, tmp_path):
    bench = Bench(SHARDED_STORES[request.param].home(tmp_path / "store", shards=SHARDS))
    bench.create_queue(QUEUE)
    yield bench
    bench.end()


def use(backend, **change):
    """Change the setting as a server does, then apply it."""
    backend.change_queue_settings(QUEUE, QueueChange(**change))
    backend.backend.apply_settings(backend.queue_settings())


def active(backend):
    return set(backend.backend.active_shards(QUEUE))


def shards_of(names):
    return {JobDescriptor.parse(name).shard for name in names}


def put_singly(backend, count=24, **options):
    return [backend.put_one(**options) for _ in range(count)]


def test_new_jobs_go_to_as_many_shards_as_the_queue_uses(backend):
    before = set()
    for count in (1, 2, 3):
        use(backend, shards=count)
        assert shards_of(put_singly(backend)) == active(backend) > before
        before = active(backend)
        assert len(before) == count
    use(backend, shards=0)
    assert active(backend) == set()
    assert shards_of(put_singly(backend, 60)) == set("1234")


def test_other_servers_and_the_next_process_use_the_same(backend):
    use(backend, shards=2)
    before = active(backend)
    backend.crash()
    assert shards_of(put_singly(backend, 60)) == set("1234"), "it does not know the settings yet"
    backend.backend.apply_settings(backend.queue_settings())
    assert active(backend) == before
    assert shards_of(put_singly(backend)) == before


def test_fewer_shards_strand_no_job(backend):
    names = put_singly(backend, 60)
    use(backend, shards=1)
    names += put_singly(backend, 10)
    taken = []
    while found := backend.take_names(7):
        taken += found
        backend.ack(*found)
    assert sorted(taken) == sorted(names)
    assert backend.count(PENDING) == 0


def test_no_more_run_than_may_where_more_run_than_are_counted(backend):
    for _ in range(20):
        backend.enqueue_jobs(QUEUE, [new_job() for _ in range(90)])
    claims = [backend.dequeue_jobs(QUEUE, 700, backend.claim(), max_running=1000) for _ in range(3)]
    assert [len(found.jobs) for found in claims] == [700, 300, 0], "counts stop at 50 for each priority"
    assert claims[2].is_held


def test_what_comes_back_to_a_shard_that_the_queue_left_runs_again(backend):
    use(backend, shards=3)
    names = put_singly(backend, 30)
    taken = backend.take_names(30)
    use(backend, shards=1)
    backend.fail(*taken)
    assert sorted(backend.take_names(30)) == sorted(names)


def test_with_one_shard_jobs_run_in_the_order_of_their_enqueues(backend):
    use(backend, shards=1)
    names = put_singly(backend, 30)
    taken = []
    while found := backend.take_names(4):
        taken += found
    assert taken == names


def test_a_batch_and_its_repeat_are_on_one_shard(backend):
    use(backend, shards=2)
    once = new_key()
    names = backend.enqueue_jobs(QUEUE, [new_job() for _ in range(5)], once=once)
    assert len(shards_of(names)) == 1
    assert shards_of(names) < active(backend)
    use(backend, shards=1)
    use(backend, shards=3)
    assert backend.enqueue_jobs(QUEUE, [new_job() for _ in range(5)], once=again(once)) == names
    assert backend.count(PENDING) == 5


def test_jobs_of_a_key_stay_together_and_in_order(backend):
    keys = [JobKey(f"key {number}", 1, is_ordered=True) for number in range(8)]
    names = {key: [] for key in keys}
    for count in (0, 1, 3, 2, 4):
        use(backend, shards=count)
        for key in keys:
            names[key] += [backend.put_one(key=key), backend.put_one(key=key)]
    assert all(len(shards_of(of_key)) == 1 for of_key in names.values())
    assert len(shards_of(name for of_key in names.values() for name in of_key)) > 1
    taken = []
    while found := backend.take_names(100):
        taken += found
        backend.ack(*found)
    assert all([name for name in taken if name in set(of_key)] == of_key for of_key in names.values())


def test_while_its_shards_do_not_answer_the_next_one_takes_new_jobs(backend):
    use(backend, shards=1)
    [own] = active(backend)
    use(backend, shards=2)
    [other] = active(backend) - {own}
    use(backend, shards=1)

    async def refuse(*arguments, **options):
        raise ShardUnreachable("refused")

    shard = backend.backend.group.registry.named(own).shard
    shard.enqueue_jobs = refuse
    names = put_singly(backend, 2)
    assert shards_of(names) == {other}
    del shard.enqueue_jobs
    names += put_singly(backend, 2)
    assert shards_of(names[2:]) == {own}
    assert sorted(backend.take_names()) == sorted(names)


def test_a_limit_of_running_jobs_counts_those_on_all_shards(backend):
    put_singly(backend, 12)
    running = backend.dequeue_jobs(QUEUE, 5, backend.claim(), max_running=5).jobs
    use(backend, shards=1)
    put_singly(backend, 12)
    assert len(running) == 5
    assert backend.dequeue_jobs(QUEUE, 5, backend.claim(), max_running=5).jobs == []
    assert len(backend.dequeue_jobs(QUEUE, 20, backend.claim(), max_running=8).jobs) == 3


@pytest.mark.parametrize(
    "reach", [lambda backend: put_singly(backend, 100), lambda backend: backend.create_queue(QUEUE)]
)
def test_a_shard_that_lacks_a_queue_gets_its_settings_with_it(backend, reach):
    use(backend, is_paused=True, jobs_per_second=2.5, max_running=5, shards=SHARDS, shards_by_load=2)
    shards = [handle.shard for handle in backend.backend.group.registry]
    for shard in shards[1:]:
        backend.run(shard.delete_queue(QUEUE))
    reach(backend)
    wanted = QueueSettings(True, 2.5, 5, SHARDS, 2)
    for shard in shards:
        assert backend.run(shard.queue_settings()) == {QUEUE: wanted}


def test_servers_find_how_many_shards_the_load_needs(backend, monkeypatch):
    monkeypatch.setattr(queue_sizer, "LOOK_SECONDS", 0)
    use(backend, shards=FOLLOWS_LOAD)
    assert active(backend) == set()

    def look():
        backend.adjust_shards(lambda _queue: False)
        backend.backend.apply_settings(backend.queue_settings())
        return len(active(backend)) or SHARDS

    assert look() == 1
    now_ms = int(time.time() * 1000)
    key = StatisticsKey(MINUTE, now_ms // 60_000 * 60_000 - 60_000, StatisticsKind.QUEUE, QUEUE, "")
    backend.add_statistics([StatisticsEntry(key, {ENQUEUED: 60 * 2 * queue_sizer.JOBS_PER_SECOND})])
    assert look() == 2
    backend.put_one()  # due for years
    assert look() == SHARDS
    assert backend.queue_settings()[QUEUE].shards_by_load == SHARDS
    use(backend, shards=3)
    assert look() == 3
