"""Messages, parents and cancellation on Redis: what the contract's tests, which every store passes, do not ask."""

import asyncio
import itertools
from collections import Counter

import pytest

from pinlater.errors import ServiceError
from pinlater.model.descriptor import JobDescriptor
from pinlater.model.messages import Message, MessageKind, MessageWait, Parent
from pinlater.protocol.messages import FAILED, IN_PROGRESS, PENDING
from pinlater.server.backends.job_notifications import JobLocation, JobNotifications
from pinlater.server.backends.records import Claim
from tests.support.bench import FAR_MS, QUEUE, ack_of, checkpoint_of, new_job
from tests.support.redis_bench import CLAIM
from tests.support.redis_service import RedisService

PARENTS = "parents"
BESIDE = ("links", "families", "inbox", "children", "results", "successes", "leftovers")
"""Parts of the names of keys that a job without parents, messages and results never has."""

THEIR_OWN = ("info", "client|setinfo", "client|setname", "hello", "script|load")
"""Commands that have nothing to do with the calls that are counted."""


@pytest.fixture
def durable(tmp_path):
    """A server whose writes outlive it."""
    with RedisService(tmp_path / "redis", appendonly="yes", appendfsync="always") as service:
        yield service


def keys_beside(service):
    with service.client() as client:
        return [key for key in client.scan_iter() if any(part.encode() in key for part in BESIDE)]


def parse(*names):
    return [JobDescriptor.parse(name) for name in names]


class Family:
    """A parent, asleep until its children have ended, and these, claimed.

    Args:
        bench: of the test.
        shard: that keeps them.
        size: how many children.
    """

    def __init__(self, bench, shard, size):
        self._bench, self.shard = bench, shard
        bench.run(shard.create_queue(PARENTS))
        bench.run(shard.create_queue(QUEUE))
        (self.parent,) = bench.run(shard.enqueue_jobs(PARENTS, [new_job()]))
        bench.take(shard, queue=PARENTS)
        parents = [Parent(self.parent, "resize", position) for position in range(size)]
        self.children = bench.run(
            shard.enqueue_jobs(QUEUE, [new_job(attempts=1)._replace(parent=parent) for parent in parents])
        )
        waits = [MessageWait("resize", size)]
        sleep = checkpoint_of(self.parent, claim=CLAIM.descriptor, move_to_pending=True, run_after_ms=FAR_MS)
        bench.run(shard.checkpoint_jobs(PARENTS, [sleep._replace(waits_for=waits)]))
        bench.take(shard, size)

    def ack(self, *names, **options):
        acks = [ack_of(name, claim=CLAIM.descriptor, **options) for name in names]
        return self._bench.run(self.shard.ack_dequeued_jobs(QUEUE, acks, []))

    def messages(self, limit=10_000):
        (parent,) = parse(self.parent)
        return self._bench.run(self.shard.read_messages(parent, "resize", 0, limit))

    def open_children(self, limit=10_000):
        return {str(job) for job in self._bench.run(self.shard.children_to_cancel(parse(self.parent), limit))}

    def is_awake(self):
        return [job.descriptor for job in self._bench.take(self.shard, queue=PARENTS)] == [self.parent]


def test_what_was_answered_outlives_the_server(bench, durable):
    shard = bench.shard(durable)
    family = Family(bench, shard, 4)
    first, second, third, last = family.children
    family.ack(first, result=b"\0\xff")
    bench.run(shard.cancel_jobs(QUEUE, parse(second), "by ada"))
    bench.run(shard.delete_these_jobs(QUEUE, parse(third), IN_PROGRESS))
    bench.run(shard.send_message(*parse(family.parent), Message("approval", "1", b"yes")))

    def records():
        jobs = parse(family.parent, *family.children)
        return bench.run(shard.lookup_jobs(jobs, body_bytes=1_000_000, include_result=True))

    before, told = records(), family.messages()
    durable.kill()
    durable.start()
    after = bench.until(records)
    assert after == before
    assert after[1].result == b"\0\xff"
    assert after[2].is_cancelled
    assert family.messages() == told
    assert family.open_children() == {last}
    assert not family.is_awake()
    bench.run(shard.ack_dequeued_jobs(QUEUE, [], [ack_of(name) for name in (second, last)]))
    assert [message.kind for message in family.messages()] == [
        MessageKind.SUCCEEDED, MessageKind.DELETED, MessageKind.CANCELLED, MessageKind.FAILED,
    ]  # fmt: skip
    assert family.is_awake()


def test_scripts_that_were_flushed_are_loaded_again(bench, service, shard):
    family = Family(bench, shard, 1)

    def flushed(call):
        with service.client() as client:
            client.script_flush()
        return bench.run(call)

    (parent,) = parse(family.parent)
    assert flushed(shard.send_message(parent, Message("go", "1", b"")))
    assert len(flushed(shard.read_messages(parent, "go", 0, 10))) == 1
    assert len(flushed(shard.children_to_cancel([parent], 10))) == 1
    assert len(flushed(shard.cancel_jobs(QUEUE, parse(*family.children), "")).asked) == 1
    assert flushed(shard.ack_dequeued_jobs(QUEUE, [ack_of(*family.children)], [])).changed == 1
    assert family.is_awake()


def test_an_ack_that_is_sent_again_tells_the_parent_once(bench, service, shard, proxy):
    """The answer of the first one is lost, and with it that the parent is awake: its queue has it all the same."""
    family = Family(bench, shard, 2)
    family.ack(family.children[0])
    proxy.lose(b"EVALSHA")
    family.shard = bench.shard(proxy)
    family.ack(family.children[1])
    assert proxy.lost == 1
    assert [message.id for message in family.messages()] == ["0", "1"]
    assert family.is_awake()


def test_any_number_of_children_ends_in_one_call(bench, service, shard):
    """Lua cannot unpack more than some thousands of arguments."""
    family = Family(bench, shard, 9000)
    assert family.open_children() == set(family.children)
    assert len(family.open_children(limit=10)) == 10
    assert family.ack(*family.children[:-1], result=b"done").changed == 8999
    assert not family.is_awake()
    assert family.ack(family.children[-1]).changed == 1
    assert family.is_awake()
    messages = family.messages()
    assert [message.number for message in messages] == [*range(1, 9001)]
    assert {message.id for message in messages} == {str(position) for position in range(9000)}
    assert family.open_children() == set()


def test_many_children_that_are_asked_to_stop_already_do_not_hide_the_others(bench, service, shard):
    """A script looks at a limited number of them."""
    family = Family(bench, shard, 5001)
    bench.run(shard.cancel_jobs(QUEUE, parse(*family.children[:-1]), ""))
    for _ in range(3):  # Redis returns entries of a set in any order
        assert family.open_children() == {family.children[-1]}


def test_children_have_their_parents_in_any_order_of_reading(bench, service, shard):
    """A few jobs without parents are between families of which one is not stored as a whole."""
    bench.run(shard.create_queue(PARENTS))
    bench.run(shard.create_queue(QUEUE))
    (parent,) = bench.run(shard.enqueue_jobs(PARENTS, [new_job()]))
    parents: list[Parent | None] = [None, None]
    for name, size in ("crop", 1), ("resize", 1100), ("crop", 3):
        parents += [*(Parent(parent, name, 7 + position) for position in range(size)), None]
    names = bench.run(shard.enqueue_jobs(QUEUE, [new_job(parent=one) for one in parents]))
    bench.run(shard.delete_these_jobs(QUEUE, parse(*names[500:700]), PENDING))
    wanted = dict(zip(names, parents, strict=True))
    left = names[:500] + names[700:]
    for some in left, left[::-1], left[::7] + left[::-11], sorted(left, key=lambda name: name[::-1]):
        found = bench.run(shard.lookup_jobs(parse(*some)))
        assert [job.parent for job in found] == [wanted[name] for name in some]


def test_a_family_of_which_all_have_ended_is_open_again_with_one_that_is_retried(bench, service, shard):
    family = Family(bench, shard, 3)
    bench.run(shard.ack_dequeued_jobs(QUEUE, [], [ack_of(name) for name in family.children]))
    assert not any(b"children:" in key for key in keys_beside(service))
    assert family.open_children() == set()
    assert bench.run(shard.retry_these_jobs(QUEUE, parse(family.children[1]), 1, None)) == 1
    assert family.open_children() == {family.children[1]}


def test_a_deleted_job_leaves_nothing_behind(bench, service, shard):
    family = Family(bench, shard, 3)
    family.ack(family.children[0], result=b"done")
    bench.run(shard.send_message(*parse(family.children[1]), Message("go", "1", b"")))
    bench.run(shard.cancel_jobs(QUEUE, parse(family.children[2]), ""))
    bench.run(shard.ack_dequeued_jobs(QUEUE, [], [ack_of(name) for name in family.children[1:]]))
    assert family.is_awake()
    bench.run(shard.ack_dequeued_jobs(PARENTS, [ack_of(family.parent)], []))
    assert len(keys_beside(service)) > 3
    collected = bench.run(shard.collect_finished(-1000, -1000, 100))
    assert sum(found.succeeded + found.failed for found in collected) == 4
    assert keys_beside(service) == []


def test_what_a_server_that_died_has_left_of_a_queue_another_one_deletes(bench, service, shard):
    family = Family(bench, shard, 600)
    bench.run(shard.send_message(*parse(family.children[0]), Message("go", "1", b"")))
    bench.run(shard._slow_scripts.run("delete_queue", QUEUE))
    assert family.messages() == []
    bench.run(bench.shard(service).forget_results(100))
    assert {message.kind for message in family.messages()} == {MessageKind.DELETED}
    assert len(family.messages()) == 600
    assert family.is_awake()
    bench.run(shard.delete_queue(PARENTS))
    assert keys_beside(service) == []


def children_of_others(bench, shard, count):
    """Enqueue children, of each priority in turn, whose parents are on another shard; return their descriptors."""
    return bench.run(
        shard.enqueue_jobs(
            QUEUE,
            [
                new_job(priority=number % 3 + 1, parent=Parent(f"{PARENTS}:s2:p2:{number // 6}", "resize", number))
                for number in range(count)
            ],
        )
    )


def test_a_deleted_queue_leaves_no_children_of_jobs_on_other_shards(bench, service, shard):
    children_of_others(bench, shard, 600)
    assert len(keys_beside(service)) == 101, "the families, and the children of each parent"
    bench.run(shard.delete_queue(QUEUE))
    assert keys_beside(service) == []
    told = [one for _ in range(3) for one in bench.run(shard.outgoing_messages("2"))]
    assert {one.message.id for one in told} == {str(number) for number in range(600)}


@pytest.mark.parametrize("way", ["collected", "deleted", "deleted with its queue"])
def test_a_cancelled_job_is_no_child_of_one_on_another_shard_once_it_is_deleted(bench, service, shard, way):
    """The server that had cancelled it died before it had cancelled its children."""
    (child,) = parse(*children_of_others(bench, shard, 1))
    bench.run(shard.enqueue_jobs(QUEUE, [new_job(priority=3, parent=Parent(str(child), "crop", 0))]))
    assert bench.run(shard.cancel_jobs(QUEUE, [child], "")).parents == (child,)
    assert any(b"children:2:" in key for key in keys_beside(service))
    if way == "collected":
        bench.run(shard.collect_finished(-1000, -1000, 100))
    elif way == "deleted":
        assert bench.run(shard.delete_these_jobs(QUEUE, [child], FAILED)) == 1
    else:
        bench.run(shard.delete_queue(QUEUE))
    assert not any(b"children:" in key for key in keys_beside(service))


def test_a_full_server_tells_parents_on_other_shards_at_once(bench, service, shard):
    children = children_of_others(bench, shard, 2)
    bench.take(shard)
    with service.client() as client:
        client.config_set("maxmemory", 1)
        bench.run(shard.ack_dequeued_jobs(QUEUE, [ack_of(name) for name in children], []))
        messages = bench.run(shard.outgoing_messages("2"))
        assert [one.message.id for one in messages] == ["0", "1"]
        bench.run(shard.forget_outgoing("2", messages))
        client.config_set("maxmemory", 0)
    assert bench.run(shard.outgoing_shards()) == set()


def test_children_that_an_older_server_has_ended_are_not_open(bench, service, shard):
    """It knows nothing of parents, so it leaves the child among them."""
    family = Family(bench, shard, 2)
    with service.client() as client:
        (jobs,) = client.keys("pinlater:{1:" + QUEUE + "}:*:jobs")
        (member,) = [name for name in client.hkeys(jobs) if name.endswith(family.children[0].split(":")[-1].encode())]
        line = client.hget(jobs, member)
        client.hset(jobs, member, b"2" + line[1:])
    assert family.open_children() == {family.children[1]}


def commands(service):
    """Return how often each command was carried out, also by scripts."""
    with service.client() as client:
        stats = client.info("commandstats")
    return Counter({name.removeprefix("cmdstat_"): value["calls"] for name, value in stats.items()})


def test_the_ends_of_many_children_take_few_commands(bench, service, shard):
    family = Family(bench, shard, 251)
    before = commands(service)
    family.ack(*family.children[:-1])
    ended = commands(service)
    assert (ended - before)["hset"] == 2, "the records; how many messages there are"
    assert len(family.messages()) == 250
    read = commands(service) - ended
    assert read["hget"] + read["hmget"] == 2, "the job; how many there are"
    assert read["zrangebylex"] == 1, "all messages at once"


def test_children_of_one_call_take_few_commands_more_than_others(bench, service, shard):
    family = Family(bench, shard, 1)
    counts = []
    for parent in None, family.parent:
        parents = [parent and Parent(parent, "resize", position) for position in range(1, 401)]
        before = commands(service)
        bench.run(shard.enqueue_jobs(QUEUE, [new_job(parent=one) for one in parents]))
        counts.append(commands(service) - before)
    more = {name: count for name, count in (counts[1] - counts[0]).items() if name not in THEIR_OWN}
    assert more == {"get": 2, "hget": 4, "zadd": 1, "sadd": 1}


def test_a_queue_is_deleted_in_steps_of_many_jobs_even_if_each_was_called_alone(bench, service, shard):
    parents = [Parent(f"{PARENTS}:s2:p2:1", "resize", 2 * number) for number in range(600)]
    bench.run(shard.enqueue_jobs(QUEUE, [new_job(parent=parent) for parent in parents]))
    before = commands(service)
    bench.run(shard.delete_queue(QUEUE))
    assert (commands(service) - before)["evalsha"] < 10
    assert keys_beside(service) == []


def test_jobs_without_any_of_it_take_no_command_more(bench, service, shard):
    """Neither do they while others of the queue sleep, but for two looks at what ties them to others."""

    def taken():
        claim = Claim(f"host:1:1:worker:{next(numbers)}", 30_000)
        bench.run(shard.enqueue_jobs(QUEUE, [new_job()]))
        (job,) = bench.take(shard, claim=claim)
        before = commands(service)
        bench.run(shard.checkpoint_jobs(QUEUE, [checkpoint_of(job.descriptor, claim=claim.descriptor)]))
        bench.run(shard.ack_dequeued_jobs(QUEUE, [ack_of(job.descriptor, claim=claim.descriptor)], []))
        return {name: count for name, count in (commands(service) - before).items() if name not in THEIR_OWN}

    numbers = itertools.count(2)
    taken()
    plain = taken()
    calls = {"evalsha": 2, "time": 2, "get": 2, "persist": 2, "exists": 2, "hmget": 2, "hset": 2, "zadd": 5, "zrem": 1}
    assert plain == calls
    Family(bench, shard, 1)
    bench.run(shard.release_claims(QUEUE, "nobody"))
    assert taken() == plain | {"hmget": 4, "zrangebyscore": 2}


def test_a_body_that_reads_like_a_mark_of_ours_is_a_body(bench, service, shard):
    for body in (b"keyed", b"links", b"keyed links"):
        bench.run(shard.enqueue_jobs(QUEUE, [new_job(body)]))
    jobs = bench.take(shard)
    assert [job.body for job in jobs] == [b"keyed", b"links", b"keyed links"]
    saved = checkpoint_of(jobs[0].descriptor, claim=CLAIM.descriptor, body=b"links")
    assert bench.run(shard.checkpoint_jobs(QUEUE, [saved])).changed == 1


class Server:
    """A shard as one server has it, and which jobs it says were woken."""

    def __init__(self, bench, service):
        self.woken = []
        notifications = JobNotifications()
        notifications.on_claimable = lambda queue, count, locations: self.woken.append((queue, count, set(locations)))
        self.shard = bench.shard(service, notifications=notifications)


def test_the_server_that_ends_the_last_child_hears_that_the_parent_is_awake(bench, service):
    one, two = Server(bench, service), Server(bench, service)
    family = Family(bench, one.shard, 2)
    family.ack(family.children[0])
    assert one.woken == []
    family.ack(family.children[1])
    assert one.woken == [(PARENTS, 1, {JobLocation("1", 1)})]
    assert two.woken == []


def test_acks_of_two_servers_tell_the_parent_each_child_once(bench, service):
    one, two = Server(bench, service), Server(bench, service)
    family = Family(bench, one.shard, 400)

    def acks(number):
        return [ack_of(family.children[number], claim=CLAIM.descriptor, result=b"%d" % number)]

    settled = bench.run(
        *(server.shard.ack_dequeued_jobs(QUEUE, acks(number), []) for number in range(400) for server in (one, two))
    )
    assert sum(done.changed for done in settled) == 400
    assert sorted(message.payload for message in family.messages()) == sorted(b"%d" % number for number in range(400))
    assert len(one.woken) + len(two.woken) == 1
    assert family.is_awake()


def test_a_server_that_is_killed_while_children_end_loses_none_and_doubles_none(bench, durable):
    """Acks are sent again until they are answered, so the store may have carried out any of them before."""
    shards = [bench.shard(durable) for _ in range(2)]
    family = Family(bench, shards[0], 300)
    left = list(enumerate(family.children))
    kills = 0

    async def ack(shard):
        while left:
            number, name = left.pop()
            try:
                acks = [ack_of(name, claim=CLAIM.descriptor, result=b"%d" % number)]
                await shard.ack_dequeued_jobs(QUEUE, acks, [])
            except ServiceError:
                left.append((number, name))
                await asyncio.sleep(0.01)

    async def kill():
        nonlocal kills
        while len(left) > 20:
            goal = len(left) - 40
            while len(left) > max(goal, 0):
                await asyncio.sleep(0)
            durable.kill()
            kills += 1
            await asyncio.to_thread(durable.start)

    bench.run(*(ack(shard) for shard in shards for _ in range(4)), kill())
    assert kills > 3
    messages = bench.until(family.messages)
    assert [message.number for message in messages] == [*range(1, 301)]
    assert sorted(int(message.payload) for message in messages) == [*range(300)]
    assert all(message.payload == message.id.encode() for message in messages)
    assert family.open_children() == set()
    assert family.is_awake()


def test_a_message_is_never_between_the_look_and_the_sleep(bench, service):
    """Many jobs go to sleep at one server while the messages that they wait for arrive at another one."""
    one, two = Server(bench, service), Server(bench, service)
    bench.run(one.shard.create_queue(QUEUE))
    names = bench.run(one.shard.enqueue_jobs(QUEUE, [new_job() for _ in range(300)]))
    bench.take(one.shard, 300)
    waits = [MessageWait("go", 1)]

    def sleep(name):
        item = checkpoint_of(name, claim=CLAIM.descriptor, move_to_pending=True, run_after_ms=FAR_MS)
        return one.shard.checkpoint_jobs(QUEUE, [item._replace(waits_for=waits)])

    def send(name):
        return two.shard.send_message(*parse(name), Message("go", "1", b""))

    bench.run(*(call(name) for name in names for call in (sleep, send)))
    assert {job.descriptor for job in bench.take(two.shard, 300)} == set(names)
    assert bench.count(one.shard, PENDING) == bench.count(one.shard, FAILED) == 0
