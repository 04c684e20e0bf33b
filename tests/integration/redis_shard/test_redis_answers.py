"""A Redis shard whose server answers late or not at all: what is sent again, and what is given back."""

import asyncio
import contextlib
import threading
import time

import pytest
from redis.exceptions import ResponseError

from pinlater.errors import ShardConnectionFailed
from pinlater.model.descriptor import JobDescriptor
from pinlater.protocol.messages import IN_PROGRESS, PENDING, SUCCEEDED
from pinlater.server.backends.job_notifications import JobNotifications
from pinlater.server.backends.records import Claim, JobFilter
from pinlater.server.backends.redis import RedisEndpoint, connection
from pinlater.server.backends.redis.connection import SharedConnection
from pinlater.server.backends.redis.scripts import scripts
from pinlater.server.backends.sharded import ShardUnreachable
from tests.support.bench import QUEUE, ack_of, checkpoint_of, new_job
from tests.support.redis_bench import CLAIM
from tests.support.server import wait_for


def await_pending(bench, shard, count):
    """Wait until so many jobs are pending, and let the shard do meanwhile what it does by itself."""
    deadline = time.monotonic() + 30
    while bench.until(lambda: bench.count(shard)) != count:
        assert time.monotonic() < deadline
        bench.run(asyncio.sleep(0.02))


def test_an_enqueue_without_an_answer_is_not_sent_again(bench, shard, standing_still):
    bench.run(shard.enqueue_jobs(QUEUE, [new_job()]))
    with standing_still(), pytest.raises(ShardConnectionFailed) as caught:
        bench.run(shard.enqueue_jobs(QUEUE, [new_job()]))
    assert not isinstance(caught.value, ShardUnreachable), "it was sent, so another shard must not get it"
    assert bench.until(lambda: bench.count(shard)) <= 2
    assert len(bench.run(shard.enqueue_jobs(QUEUE, [new_job()]))) == 1


def test_acks_without_an_answer_are_sent_again(bench, shard, standing_still):
    (name,) = bench.run(shard.enqueue_jobs(QUEUE, [new_job()]))
    bench.take(shard)

    async def ack_and_go_on():
        with standing_still():
            ack = asyncio.ensure_future(shard.ack_dequeued_jobs(QUEUE, [ack_of(name)], []))
            await asyncio.sleep(0.4)
        await ack

    bench.run(ack_and_go_on())
    assert bench.count(shard, SUCCEEDED) == 1


def test_what_was_claimed_for_nobody_is_given_back(bench, shard, standing_still):
    names = bench.run(shard.enqueue_jobs(QUEUE, [new_job(attempts=1) for _ in range(10)]))
    with standing_still(), pytest.raises(ShardConnectionFailed):
        bench.take(shard)
    await_pending(bench, shard, 10)  # long before their lease ends, and without a monitor
    another = Claim("host:1:1:worker:2", 30_000)
    assert [job.descriptor for job in bench.take(shard, claim=another)] == names


def test_whoever_waits_here_is_told_of_what_was_given_back(bench, service, proxy):
    heard, commits = [], []
    notifications = JobNotifications()
    notifications.on_claimable = lambda queue, count, _locations: heard.append((queue, count))
    shard = bench.shard_at(
        RedisEndpoint(("127.0.0.1", proxy.port)), notifications=notifications, on_commit=commits.append
    )
    bench.run(shard.create_queue(QUEUE))
    bench.run(shard.enqueue_jobs(QUEUE, [new_job()]))
    proxy.lose(scripts()["claim"].sha.encode())
    with pytest.raises(ShardConnectionFailed):
        bench.take(shard)
    await_pending(bench, shard, 1)
    assert heard == [(QUEUE, None)]
    assert [stats.is_failed for stats in commits].count(True) == 1
    assert sum(stats.claims_undone for stats in commits) == 1


def test_nothing_else_is_claimed_under_a_claim_whose_answer_was_lost(bench, proxy):
    shard = bench.shard_at(RedisEndpoint(("127.0.0.1", proxy.port)))
    bench.run(shard.create_queue(QUEUE))
    bench.run(shard.enqueue_jobs(QUEUE, [new_job() for _ in range(2)]))
    proxy.lose(scripts()["claim"].sha.encode())
    with pytest.raises(ShardConnectionFailed):
        bench.take(shard, 1)
    with pytest.raises(ShardUnreachable, match="did not answer this dequeue"):
        bench.take(shard, 1)
    alive = bench.take(shard, 1, Claim("host:1:1:worker:2", 30_000))
    await_pending(bench, shard, 1)
    assert bench.run(shard.ack_dequeued_jobs(QUEUE, [ack_of(alive[0].descriptor)], [])).changed == 1


def test_what_the_same_dequeue_has_got_before_is_not_given_back(bench, service, proxy):
    shard = bench.shard_at(RedisEndpoint(("127.0.0.1", proxy.port)))
    bench.run(shard.create_queue(QUEUE))
    alive, lost = bench.run(shard.enqueue_jobs(QUEUE, [new_job(priority=1), new_job(priority=2)]))
    held = bench.run(shard.dequeue_jobs(QUEUE, 2, CLAIM, levels=1)).jobs
    proxy.lose(scripts()["claim"].sha.encode())
    with pytest.raises(ShardConnectionFailed):
        bench.run(shard.dequeue_jobs(QUEUE, 1, CLAIM._replace(held=held), levels=2))
    await_pending(bench, shard, 1)
    names = [JobDescriptor.parse(name) for name in (alive, lost)]
    found = bench.run(shard.lookup_jobs(names))
    assert [record.state for record in found] == [IN_PROGRESS, PENDING]


def test_a_server_that_stops_gives_back_what_was_claimed_for_nobody(bench, service, proxy):
    shard = bench.shard_at(RedisEndpoint(("127.0.0.1", proxy.port)))
    bench.run(shard.create_queue(QUEUE))
    bench.run(shard.enqueue_jobs(QUEUE, [new_job(attempts=1)]))
    proxy.lose(scripts()["claim"].sha.encode())
    with pytest.raises(ShardConnectionFailed):
        bench.take(shard)
    bench.run(shard.close())
    assert bench.count(bench.shard(service)) == 1


@pytest.mark.parametrize("script", ["ack", "checkpoint"])
def test_what_ends_an_attempt_without_a_claim_is_not_sent_twice(bench, service, proxy, monkeypatch, script):
    """The second one would end the attempt of the next holder."""
    shard, other = bench.shard_at(RedisEndpoint(("127.0.0.1", proxy.port))), bench.shard(service)
    bench.run(shard.create_queue(QUEUE))
    (name,) = bench.run(shard.enqueue_jobs(QUEUE, [new_job(attempts=5)]))
    bench.take(shard)
    taken = []
    call = connection.SharedConnection.call

    async def let_another_claim(self, *command):
        try:
            return await call(self, *command)
        except ShardConnectionFailed:
            taken.append(await other.dequeue_jobs(QUEUE, 1, Claim("host:2:1:worker:1", 30_000)))
            raise

    monkeypatch.setattr(connection.SharedConnection, "call", let_another_claim)
    proxy.lose(scripts()[script].sha.encode())
    with pytest.raises(ShardConnectionFailed):
        bench.run(
            shard.ack_dequeued_jobs(QUEUE, [], [ack_of(name)])
            if script == "ack"
            else shard.checkpoint_jobs(QUEUE, [checkpoint_of(name, move_to_pending=True)])
        )
    assert [job.descriptor for job in taken[0].jobs] == [name]
    (record,) = bench.run(other.lookup_jobs([JobDescriptor.parse(name)]))
    assert (record.state, record.claim) == (IN_PROGRESS, "host:2:1:worker:1"), "the next holder keeps it"


def run_until_killed(service):
    with service.client() as client, contextlib.suppress(ResponseError):
        client.eval("while true do end", 0)


def is_busy(client):
    try:
        client.ping()
    except ResponseError as error:
        return "BUSY" in str(error)
    return False


def test_a_server_that_is_busy_with_a_script_of_somebody_counts_as_away(bench, service, shard):
    with service.client() as client:
        client.config_set("busy-reply-threshold", 10)
        endless = threading.Thread(target=run_until_killed, args=(service,))
        endless.start()
        wait_for(lambda: is_busy(client))
        for call in (shard.enqueue_jobs(QUEUE, [new_job()]), shard.count_jobs(QUEUE, JobFilter(PENDING)), shard.ping()):
            with pytest.raises(ShardUnreachable, match=r"shard 1 .*cannot .*BUSY"):
                bench.run(call)
        client.script_kill()
        endless.join()
        client.config_set("busy-reply-threshold", 5000)
    assert bench.count(shard) == 0


def test_scripts_may_be_flushed_at_any_time(bench, service, shard, monkeypatch):
    """Also between two commands of a call."""
    send = SharedConnection.call

    def flush_and_send(self, *command):
        with service.client() as client:
            client.script_flush()
        return send(self, *command)

    monkeypatch.setattr(SharedConnection, "call", flush_and_send)
    (name,) = bench.run(shard.enqueue_jobs(QUEUE, [new_job()]))
    assert [job.descriptor for job in bench.take(shard)] == [name]
