"""Children with a key, which lie on the shard of their key: their end reaches a parent on another shard, once."""

import asyncio
from contextlib import contextmanager

import pytest

from pinlater.errors import EnqueueRejected, ServiceError, ShardConnectionFailed
from pinlater.model.descriptor import JobDescriptor
from pinlater.model.keys import JobKey
from pinlater.model.messages import MessageKind, Parent
from pinlater.protocol.messages import FAILED, IN_PROGRESS, PENDING, SUCCEEDED
from pinlater.server.backends.sharded.message_relay import MessageRelay
from pinlater.server.backends.sharded.placement import TOGETHER
from tests.contract.test_idempotency import again, new_key
from tests.support.bench import LEASE_MS, QUEUE, Bench, ack_of, new_job
from tests.support.families import OTHER, child_of, delete_these, unfinished
from tests.support.stores import SHARDED_STORES
from tests.support.waiting import until


@pytest.fixture(autouse=True)
def nothing_is_too_young(monkeypatch):
    """The monitor delivers what other servers have just left, too."""
    monkeypatch.setattr("pinlater.server.backends.sharded.message_relay._LEFT_FOR_MS", 0)


@pytest.fixture(params=SHARDED_STORES)
def backend(request, tmp_path):
    bench = Bench(SHARDED_STORES[request.param].home(tmp_path / "store", shards=3))
    bench.create_queue(QUEUE)
    bench.create_queue(OTHER)
    yield bench
    bench.end()


def shard_of(name):
    return JobDescriptor.parse(name).shard


def shard(backend, name):
    """Return the shard of a job as it is, without the store around it."""
    return backend.backend.group.registry.named(shard_of(name)).shard


def distant_children(backend, parent, count=1, **options):
    """Enqueue children of a job on other shards; return their descriptors in the order of their positions."""
    found = []
    for key in map("key {}".format, range(100)):
        if len(found) == count:
            return found
        selected = backend.put_one(key=JobKey(key), queue=OTHER)
        assert delete_these(backend, selected) == 1
        if shard_of(selected) != shard_of(parent):
            found += backend.put(child_of(parent, len(found), key=JobKey(key), **options), queue=OTHER)
            assert shard_of(found[-1]) == shard_of(selected)
    raise AssertionError("no key is on another shard")


def waiting_parent(backend, count=1, *, lease_ms=LEASE_MS, **options):
    """Return a job that sleeps until so many children have ended, and children of it on other shards, claimed."""
    parent, claim = backend.started(b"parent", attempts=5)
    children = distant_children(backend, parent, count, **options)
    backend.sleep(parent, ("resize", count), claim=claim)
    taken = []
    while some := backend.take_names(queue=OTHER, lease_ms=lease_ms):
        taken += some
    assert sorted(taken) == sorted(children)
    return parent, children


def told(backend, parent, count):
    """Return what a parent was told, once it was told so much, by position."""
    job = JobDescriptor.parse(parent)

    async def wait():
        async with asyncio.timeout(60):
            while len(found := await backend.backend.read_messages(job, "resize", 0, 1000)) < count:
                await asyncio.sleep(0.001)
            return found

    found = backend.run(wait())
    assert [one.number for one in found] == list(range(1, count + 1))
    return {int(one.id): (one.kind, one.payload) for one in found}


def settle(backend):
    """Return once nothing is left to deliver."""

    async def wait():
        async with asyncio.timeout(60):
            while any([await handle.shard.outgoing_shards() for handle in backend.backend.group.registry]):
                await asyncio.sleep(0.001)

    backend.run(wait())


def left_on(backend, child, parent):
    """Return the messages that are on the shard of a child for that of its parent."""
    return backend.run(shard(backend, child).outgoing_messages(shard_of(parent), 0))


async def deliver_nothing(*_):
    """Stand for the relay of a server that dies before it begins."""
    return False


class Away:
    """Stands for a shard that takes no messages; or takes them, and its answer is lost."""

    def __init__(self, monkeypatch, at, verb="deliver_messages", *, is_done=False):
        self._monkeypatch, self._at, self._verb, self._is_done = monkeypatch, at, verb, is_done
        self.calls = 0

    def __enter__(self):
        real = getattr(self._at, self._verb)

        async def fail(*arguments, **options):
            self.calls += 1
            if self._is_done:
                await real(*arguments, **options)
            raise ShardConnectionFailed("it is away")

        self._patch = self._monkeypatch.context()
        self._patch.__enter__().setattr(self._at, self._verb, fail)
        return self

    def __exit__(self, *error):
        self._patch.__exit__(*error)


def test_it_is_where_its_key_is_and_knows_its_parent(backend):
    parent, _ = backend.started(b"parent")
    [child] = distant_children(backend, parent)
    assert backend.look(child).parent == Parent(parent, "resize", 0)
    again_there = backend.put_one(key=backend.look(child).key, queue=OTHER)
    assert shard_of(again_there) == shard_of(child)


def test_however_it_ends_its_parent_is_told_and_wakes(backend):
    parent, children = waiting_parent(backend, 5, attempts=1)
    done, failed, cancelled, deleted, _ = children
    backend.ack_dequeued_jobs(OTHER, [ack_of(done, result=b"7")], [])
    backend.fail(failed, queue=OTHER, status="no photo\n")
    backend.cancel(cancelled, queue=OTHER)
    backend.fail(cancelled, queue=OTHER)
    assert delete_these(backend, deleted, state=IN_PROGRESS) == 1
    assert backend.state(parent) == PENDING
    assert backend.take_names() == [], "one has not ended"
    backend.clock.advance(LEASE_MS + 1)
    backend.reap()
    found = told(backend, parent, 5)
    assert found[0] == (MessageKind.SUCCEEDED, b"7")
    assert found[1] == (MessageKind.FAILED, b"no photo\n")
    assert [found[place][0] for place in (2, 3, 4)] == [
        MessageKind.CANCELLED, MessageKind.DELETED, MessageKind.FAILED
    ]  # fmt: skip
    settle(backend)
    assert backend.take_names() == [parent]


def test_children_of_a_deleted_queue_are_told_of(backend):
    parent, _ = backend.started(b"parent")
    distant_children(backend, parent, 2)
    backend.delete_queue(OTHER)
    backend.collect_finished(10**9, 10**9, 1000)
    assert [kind for kind, _ in told(backend, parent, 2).values()] == [MessageKind.DELETED] * 2


def test_some_are_here_and_some_elsewhere(backend):
    parent, claim = backend.started(b"parent", attempts=5)
    names = backend.put(*[child_of(parent, at, key=JobKey(f"key {at}")) for at in range(20)], queue=OTHER)
    assert len({shard_of(name) for name in names}) == 3
    assert unfinished(backend, parent) == sorted(names)
    backend.sleep(parent, ("resize", 20), claim=claim)
    taken = []
    while some := backend.take_names(queue=OTHER):
        taken += some
    backend.ack(*taken, queue=OTHER)
    assert set(told(backend, parent, 20)) == set(range(20))


def test_those_of_parents_here_and_elsewhere_end_in_one_call(backend):
    here, _ = backend.started(b"parent")
    elsewhere = here
    while shard_of(elsewhere) == shard_of(here):
        elsewhere, _ = backend.started(b"parent")
    for parent in (here, elsewhere):
        backend.put(*[child_of(parent, at, key=JobKey(f"{at} of {parent}")) for at in range(20)], queue=OTHER)
    taken = []
    while some := backend.take_names(queue=OTHER):
        taken += some
    backend.ack(*taken, queue=OTHER)
    for parent in (here, elsewhere):
        assert set(told(backend, parent, 20)) == set(range(20))
        assert unfinished(backend, parent) == []


@contextmanager
def draining(backend, name):
    """Let a shard take no new jobs for a while."""
    registry = backend.backend.group.registry
    specs = [handle.spec for handle in registry]
    backend.backend.update([spec._replace(is_dequeue_only=spec.name == name) for spec in specs])
    yield
    backend.backend.update(specs)


def test_those_of_a_parent_on_a_shard_that_is_drained_are_elsewhere(backend):
    parent, claim = backend.started(b"parent", attempts=5)
    with draining(backend, shard_of(parent)):
        names = backend.put(*[child_of(parent, at) for at in range(3)], new_job(), queue=OTHER)
        assert shard_of(parent) not in {shard_of(name) for name in names}
        assert unfinished(backend, parent) == sorted(names[:3])
        backend.sleep(parent, ("resize", 3), claim=claim)
        backend.ack(*backend.take_names(queue=OTHER), queue=OTHER)
        assert set(told(backend, parent, 3)) == {0, 1, 2}
        settle(backend)
        assert backend.take_names() == [parent]


@pytest.mark.parametrize("is_drained_first", [False, True])
def test_a_call_that_is_repeated_after_draining_has_begun_or_ended_stores_none_again(backend, is_drained_first):
    parent, _ = backend.started(b"parent")
    [keyed] = distant_children(backend, parent)
    jobs = [child_of(parent, 1), child_of(parent, 2, key=backend.look(keyed).key), child_of(parent, 3)]
    once = new_key()
    with draining(backend, shard_of(parent) if is_drained_first else None):
        names = backend.enqueue_jobs(OTHER, jobs, once=once)
    with draining(backend, None if is_drained_first else shard_of(parent)):
        assert backend.enqueue_jobs(OTHER, jobs, once=again(once)) == names


def test_those_with_keys_of_a_shard_that_is_drained_meanwhile_are_not_stored_again(backend):
    parent, _ = backend.started(b"parent")
    jobs = [child_of(parent, at, key=JobKey(f"key {at}")) for at in range(12)]
    once = new_key()
    names = backend.enqueue_jobs(OTHER, jobs, once=once)
    assert {shard_of(name) for name in names} == {"1", "2", "3"}
    for drained in "123":
        with draining(backend, drained):
            assert backend.enqueue_jobs(OTHER, jobs, once=again(once)) == names


def test_those_with_keys_that_come_while_a_shard_is_drained_are_not_stored_again_while_it_still_is(backend):
    parent, _ = backend.started(b"parent")
    for drained in "123":
        with draining(backend, drained):
            for number in range(8):
                jobs = [child_of(parent, at, key=JobKey(f"key {number} {at}")) for at in range(3)]
                once = new_key()
                names = backend.enqueue_jobs(OTHER, jobs, once=once)
                assert backend.enqueue_jobs(OTHER, jobs, once=again(once)) == names


def test_the_rest_of_those_with_keys_is_stored_on_other_shards_once(backend, monkeypatch):
    """The first call has stored one part before a shard was away, which is then drained."""
    parent, _ = backend.started(b"parent")
    jobs, once = [child_of(parent, at, key=JobKey(f"key {at}")) for at in range(12)], new_key()

    def homes():
        return [shard_of(name) for name in backend.put(*[new_job(key=job.key) for job in jobs], queue=OTHER)]

    *_, last = dict.fromkeys(homes())
    at_last = backend.backend.group.registry.named(last).shard
    with Away(monkeypatch, at_last, "enqueue_jobs"), pytest.raises(ServiceError):
        backend.enqueue_jobs(OTHER, jobs, once=once)
    first = unfinished(backend, parent)
    backend.run(revive(backend))
    with draining(backend, last):
        names = backend.enqueue_jobs(OTHER, jobs, once=again(once))
        assert [shard_of(name) for name in names] == homes()
        assert backend.enqueue_jobs(OTHER, jobs, once=again(once)) == names
    assert first
    assert set(first) < set(names)
    assert unfinished(backend, parent) == sorted(names)


# Faults


def test_what_the_shard_of_the_parent_does_not_take_waits_for_it(backend, monkeypatch):
    parent, [child] = waiting_parent(backend)
    with Away(monkeypatch, shard(backend, parent)) as away:
        backend.ack(child, queue=OTHER)
        for _ in range(3):
            backend.run(asyncio.sleep(0.05))
            backend.relay_messages()
        assert away.calls >= 1
        assert len(left_on(backend, child, parent)) == 1
    assert backend.collect_finished(-1, -1, 1000), "the child may go: what it tells is kept apart"
    backend.run(revive(backend))
    backend.relay_messages()
    assert told(backend, parent, 1) == {0: (MessageKind.SUCCEEDED, b"")}
    settle(backend)


async def revive(backend):
    await until(lambda: all(handle.is_healthy for handle in backend.backend.group.registry))


@pytest.mark.parametrize("verb", ["deliver_messages", "forget_outgoing"])
@pytest.mark.parametrize("is_done", [False, True])
def test_a_message_whose_delivery_is_not_answered_arrives_once(backend, monkeypatch, verb, is_done):
    parent, [child] = waiting_parent(backend)
    at = shard(backend, parent if verb == "deliver_messages" else child)
    with Away(monkeypatch, at, verb, is_done=is_done) as away:
        backend.ack(child, queue=OTHER)
        while not away.calls:
            backend.run(asyncio.sleep(0.01))
    backend.run(revive(backend))
    backend.relay_messages()
    settle(backend)
    assert told(backend, parent, 1) == {0: (MessageKind.SUCCEEDED, b"")}
    assert backend.take_names() == [parent]


def test_what_a_server_has_not_delivered_when_it_dies_the_next_one_does(backend, monkeypatch):
    parent, [child] = waiting_parent(backend)
    with monkeypatch.context() as dying:
        dying.setattr(MessageRelay, "_deliver_page", deliver_nothing)
        backend.ack(child, queue=OTHER)
    assert len(left_on(backend, child, parent)) == 1
    backend.crash()
    backend.relay_messages()
    assert told(backend, parent, 1) == {0: (MessageKind.SUCCEEDED, b"")}
    settle(backend)


def test_what_one_server_delivers_the_others_leave_to_it(backend, monkeypatch):
    """Until it is there for so long that the one must have died."""
    parent, children = waiting_parent(backend, 3)
    monkeypatch.setattr("pinlater.server.backends.sharded.message_relay._LEFT_FOR_MS", 3_600_000)
    at, target = shard(backend, children[0]), shard_of(parent)
    with monkeypatch.context() as other:
        other.setattr(MessageRelay, "_deliver_page", deliver_nothing)
        other.setattr("pinlater.server.backends.mysql.children.ORIGIN", 7)
        backend.ack(children[0], queue=OTHER)
        assert len(backend.run(at.outgoing_messages(target))) == 1
    assert backend.run(at.outgoing_messages(target)) == []
    backend.relay_messages()
    backend.ack(*children[1:], queue=OTHER)
    assert set(told(backend, parent, 2)) == {1, 2}
    monkeypatch.setattr("pinlater.server.backends.sharded.message_relay._LEFT_FOR_MS", 0)
    backend.relay_messages()
    assert set(told(backend, parent, 3)) == {0, 1, 2}
    settle(backend)


@pytest.mark.parametrize("end", ["finish", "delete"])
def test_a_parent_that_is_gone_is_told_nothing_and_nothing_is_left(backend, end):
    parent, claim = backend.started(b"parent")
    [child] = distant_children(backend, parent)
    if end == "finish":
        backend.ack_dequeued_jobs(QUEUE, [ack_of(parent, claim=claim)], [])
    else:
        assert delete_these(backend, parent, state=IN_PROGRESS, queue=QUEUE) == 1
    assert backend.take_names(queue=OTHER) == [child]
    backend.ack(child, queue=OTHER)
    settle(backend)
    assert backend.state(child) == SUCCEEDED
    assert backend.read(parent, "resize") == []


def test_more_than_one_page_arrives(backend, monkeypatch):
    monkeypatch.setattr("pinlater.server.backends.mysql.shard_messages._PAGE_MESSAGES", 3)
    monkeypatch.setattr("pinlater.server.backends.redis.messages._OUTGOING_PAGE", 3)
    parent, children = waiting_parent(backend, 10)
    backend.ack(*children, queue=OTHER)
    assert set(told(backend, parent, 10)) == set(range(10))
    settle(backend)
    assert backend.take_names() == [parent]


# Cancellation


def test_all_are_cancelled_with_their_parent_and_none_comes_later(backend):
    parent, _ = backend.started(b"parent")
    children = distant_children(backend, parent, 3)
    other, _ = backend.started(b"other")
    spared = distant_children(backend, other)
    assert unfinished(backend, parent) == sorted(children)
    cancelled = backend.cancel(parent)
    assert list(map(str, cancelled.asked)) == [parent]
    with pytest.raises(EnqueueRejected, match="asked to stop"):
        distant_children(backend, parent)
    for name in unfinished(backend, parent):
        backend.cancel(name, queue=OTHER)
    assert unfinished(backend, parent) == []
    assert {backend.state(name) for name in children} == {FAILED}
    assert unfinished(backend, other) == spared
    assert set(told(backend, parent, 3)) == {0, 1, 2}


@pytest.mark.parametrize("is_repeated", [False, True])
def test_one_that_is_stored_while_its_parent_is_cancelled_is_cancelled(backend, monkeypatch, is_repeated):
    """Also if the server died before it noticed, and the call is made again."""
    parent, _ = backend.started(b"parent")
    [first] = distant_children(backend, parent)
    at, key = shard(backend, first), backend.look(first).key
    real = at.enqueue_jobs

    async def store(*arguments, **options):
        stored = await real(*arguments, **options)
        await backend.backend.cancel_jobs(QUEUE, [JobDescriptor.parse(parent)], "")
        if is_repeated:
            raise ShardConnectionFailed("the answer is lost")
        return stored

    monkeypatch.setattr(at, "enqueue_jobs", store)
    once, job = new_key(), child_of(parent, 1, key=key)
    if is_repeated:
        with pytest.raises(ShardConnectionFailed):
            backend.enqueue_jobs(OTHER, [job], once=once)
        once = again(once)
    with pytest.raises(EnqueueRejected, match="asked to stop"):
        backend.enqueue_jobs(OTHER, [job], once=once)
    assert unfinished(backend, parent) == [first], "who cancels the parent has listed this one"


def test_one_that_is_retried_by_hand_is_cancelled_with_its_parent_again(backend):
    parent, _ = backend.started(b"parent")
    [child] = distant_children(backend, parent, attempts=1)
    assert backend.take_names(queue=OTHER) == [child]
    backend.fail(child, queue=OTHER)
    assert told(backend, parent, 1)[0][0] == MessageKind.FAILED
    assert unfinished(backend, parent) == []
    assert backend.retry(queue=OTHER) == 1
    assert unfinished(backend, parent) == [child]
    backend.take_names(queue=OTHER)
    backend.ack(child, queue=OTHER)
    settle(backend)
    assert told(backend, parent, 1)[0][0] == MessageKind.FAILED, "the first end counts"


def test_the_cancellation_of_a_parent_fails_while_a_shard_with_children_is_away(backend, monkeypatch):
    parent, _ = backend.started(b"parent")
    [child] = distant_children(backend, parent)
    plain, _ = backend.started(b"plain")
    with Away(monkeypatch, shard(backend, child), "children_to_cancel"):
        with pytest.raises(ShardConnectionFailed):
            unfinished(backend, parent)
        if shard_of(plain) != shard_of(child):
            assert unfinished(backend, plain) == []


@pytest.mark.parametrize("is_gone", [False, True])
def test_meanwhile_and_once_that_is_removed_those_on_the_other_shards_are_cancelled(backend, monkeypatch, is_gone):
    parent, _ = backend.started(b"parent")
    children = distant_children(backend, parent, 6)
    others = [name for name in children if shard_of(name) != shard_of(children[0])]
    assert others, "the test has to have such jobs"
    missing = registry_without(backend, shard_of(children[0])) if is_gone else None
    with missing or Away(monkeypatch, shard(backend, children[0]), "children_to_cancel"):
        assert unfinished(backend, parent) == sorted(others)
        backend.cancel(*others, queue=OTHER)
        with pytest.raises(ShardConnectionFailed):
            unfinished(backend, parent)
    assert unfinished(backend, parent) == sorted(set(children) - set(others))


def test_the_cancellation_fails_at_a_server_that_knows_only_the_shard_of_the_parent(backend):
    """The file of shards has just been given a second one, and the change has not reached the server."""
    parent, _ = backend.started(b"parent")
    [child] = distant_children(backend, parent)
    others = backend.backend.group.registry._handles.keys() - {shard_of(parent)}
    with registry_without(backend, *others), pytest.raises(ShardConnectionFailed):
        unfinished(backend, parent)
    assert unfinished(backend, parent) == [child]


@contextmanager
def registry_without(backend, *names):
    """Let shards be missing in the file of shards."""
    handles = backend.backend.group.registry._handles
    missing = {name: handles.pop(name) for name in names}
    try:
        yield
    finally:
        handles |= missing


def test_a_parent_on_a_shard_that_there_is_not_is_refused(backend):
    with pytest.raises(Exception, match="nowhere"):
        backend.put(child_of(f"{QUEUE}:snowhere:p1:1", key=JobKey("a")), queue=OTHER)


def test_a_parent_that_is_not_there_is_refused(backend):
    parent, _ = backend.started(b"parent")
    gone = parent.rpartition(":")[0] + ":999999"
    for number in range(10):
        with pytest.raises(EnqueueRejected):
            backend.put(child_of(gone, key=JobKey(f"key {number}")), queue=OTHER)
    assert backend.count(queue=OTHER) == 0


# Very many


def many_children(backend, parent, *, first=TOGETHER, count=40, **options):
    """Enqueue children behind the first thousand, one a call; return their descriptors."""
    names = []
    for position in range(first, first + count):
        names += backend.enqueue_jobs(OTHER, [child_of(parent, position, **options)], once=new_key())
    return names


def test_those_behind_the_first_thousand_spread(backend):
    parent, _ = backend.started(b"parent", attempts=5)
    assert {shard_of(name) for name in many_children(backend, parent, first=0, count=3)} == {shard_of(parent)}
    names = many_children(backend, parent)
    assert len({shard_of(name) for name in names}) == 3
    assert set(names) <= set(unfinished(backend, parent))
    taken = []
    while some := backend.take_names(queue=OTHER):
        taken += some
    backend.ack(*taken, queue=OTHER)
    assert set(told(backend, parent, 43)) == {0, 1, 2, *range(TOGETHER, TOGETHER + 40)}
    settle(backend)


def test_they_are_not_stored_twice_while_the_shard_that_may_have_them_is_away(backend, monkeypatch):
    parent, _ = backend.started(b"parent")
    once, job = new_key(), child_of(parent, TOGETHER)
    [name] = backend.enqueue_jobs(OTHER, [job], once=once)
    away, refused = Away(monkeypatch, shard(backend, name), "call_result"), "does not say whether it has these children"
    with away, pytest.raises(ServiceError, match=refused):
        backend.enqueue_jobs(OTHER, [job], once=again(once))
    assert unfinished(backend, parent) == [name]
    backend.run(revive(backend))
    assert backend.enqueue_jobs(OTHER, [job], once=again(once)) == [name]
