"""Children on a store of several shards: each is kept where its parent is."""

import pytest

from pinlater.model.descriptor import JobDescriptor
from tests.support.bench import QUEUE, Bench, new_job
from tests.support.families import OTHER, child_of, unfinished
from tests.support.stores import SHARDED_STORES


@pytest.fixture(params=SHARDED_STORES)
def two_shards(request, tmp_path):
    bench = Bench(SHARDED_STORES[request.param].home(tmp_path / "store", shards=2))
    bench.create_queue(QUEUE)
    bench.create_queue(OTHER)
    yield bench
    bench.end()


def test_children_are_kept_where_their_parent_is(two_shards):
    parents = [two_shards.put_one() for _ in range(12)]
    assert len({JobDescriptor.parse(name).shard for name in parents}) == 2
    two_shards.take()
    children = two_shards.put(*[child_of(name, 3) for name in parents], new_job(), queue=OTHER)[:-1]
    shards = [[JobDescriptor.parse(name).shard for name in names] for names in (parents, children)]
    assert shards[0] == shards[1]
    assert unfinished(two_shards, *parents) == sorted(children)
    taken = []
    while more := two_shards.take_names(queue=OTHER):
        taken += more
    assert sorted(name for name in taken if two_shards.look(name).parent) == sorted(children)
    for name in parents:
        two_shards.sleep(name, ("resize", 1))
    two_shards.ack(*children, queue=OTHER)
    woken = []
    while more := two_shards.take_names():
        woken += more
    assert sorted(woken) == sorted(parents)
    cancelled = two_shards.cancel(*parents)
    assert sorted(map(str, cancelled.asked)) == sorted(parents)
