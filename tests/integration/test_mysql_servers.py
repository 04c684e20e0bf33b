"""Several servers on one MySQL store: no job has two holders, no work is done twice, queues are everybody's."""

import asyncio
import time
from contextlib import asynccontextmanager
from functools import partial

import pytest

from pinlater.errors import QueueNotFound, UnknownError
from pinlater.model.attempts import StoredAck
from pinlater.model.descriptor import JobDescriptor
from pinlater.protocol.messages import FAILED, IN_PROGRESS, PENDING, SUCCEEDED
from pinlater.server.backends.mysql import database
from pinlater.server.backends.mysql.connection import MysqlConnection
from pinlater.server.backends.records import JobFilter
from pinlater.server.backends.sharded import ClockUpdater, ShardClock, ShardSpec, StoreClock
from pinlater.server.backends.unavailable import ChangeRefused
from tests.integration.mysql_servers import claim, with_servers
from tests.support.bench import QUEUE, checkpoint_of, new_job
from tests.support.mariadb_service import shared_service
from tests.support.mysql_bench import endpoint_of, fresh_prefix, make_fleet

pytestmark = pytest.mark.usefixtures("patience")


@pytest.mark.parametrize("shards", [1, 2])
def test_no_job_has_two_holders(shards):
    async def consumer(server, taken):
        while True:
            found = await server.dequeue_jobs(QUEUE, 7, claim())
            taken += [job.descriptor for job in found.jobs]
            if not found.jobs:
                return

    async def scenario(servers, _):
        batches = await asyncio.gather(
            *(server.enqueue_jobs(QUEUE, [new_job(priority=n % 3 + 1) for n in range(50)]) for server in servers * 6)
        )
        names = [name for batch in batches for name in batch]
        assert len(set(names)) == len(names) == 900
        taken = []
        await asyncio.gather(*(consumer(server, taken) for server in servers * 4))
        # While all claim at once, one may find nothing but what others are just taking.
        await consumer(servers[0], taken)
        assert sorted(taken) == sorted(names)

    with_servers(scenario, shards=shards)


def test_servers_that_enqueue_claim_and_ack_at_once_lose_nothing():
    async def work(server, done):
        for _ in range(15):
            await server.enqueue_jobs(QUEUE, [new_job()] * 10)
            held = claim()
            found = await server.dequeue_jobs(QUEUE, 10, held)
            acks = [StoredAck(JobDescriptor.parse(job.descriptor), held.descriptor, "", 0, False) for job in found.jobs]
            settled = await server.ack_dequeued_jobs(QUEUE, acks[::2], acks[1::2])
            assert settled.changed == len(acks)
            done.append(len(acks))

    async def scenario(servers, _):
        done = []
        await asyncio.gather(*(work(server, done) for server in servers * 3))
        counts = [await servers[0].count_jobs(QUEUE, JobFilter(state)) for state in (PENDING, IN_PROGRESS, SUCCEEDED)]
        failed = await servers[0].count_jobs(QUEUE, JobFilter(FAILED))
        assert sum(counts) + failed == 15 * 10 * 9
        assert counts[1] == 0

    with_servers(scenario)


async def overdue_job(server, clock):
    """Store and claim a job; return its descriptor and claim, whose lease has ended."""
    await server.enqueue_jobs(QUEUE, [new_job(attempts=2)])
    held = claim(lease_ms=1000)
    [job] = (await server.dequeue_jobs(QUEUE, 1, held)).jobs
    clock.advance(2000)
    return job.descriptor, held.descriptor


@asynccontextmanager
async def refusing(prefix, change):
    """Let the database run a statement before each update of a job."""
    connection = await MysqlConnection.open(endpoint_of(shared_service()))
    name = prefix.encode()
    await connection.run(
        b"CREATE TRIGGER %b1.refusing BEFORE UPDATE ON %b1.jobs FOR EACH ROW %b" % (name, name, change)
    )
    yield
    await connection.run(b"DROP TRIGGER %b1.refusing" % name)
    connection.close()


@pytest.mark.parametrize("is_seen", [True, False], ids=["by the one that was asked to renew", "by another server"])
@pytest.mark.parametrize("number", [1114, 1969], ids=["full", "locked"])
def test_after_changes_were_refused_claims_get_time_to_be_renewed(is_seen, number):
    """As with a full disk, or while a backup locks the tables."""
    prefix = fresh_prefix()
    refuse = b"SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = %d, MESSAGE_TEXT = 'not now'" % number

    async def scenario(servers, clock):
        asked, other = servers
        reaper = asked if is_seen else other
        job, held = await overdue_job(asked, clock)
        renewal = [checkpoint_of(job, claim=held)]
        async with refusing(prefix, refuse):
            with pytest.raises(ChangeRefused, match="nothing was changed"):
                await asked.checkpoint_jobs(QUEUE, renewal)
            if not is_seen:
                with pytest.raises(ChangeRefused, match="nothing was changed"):
                    await reaper.reap_expired(10, server_age_ms=10**9, quiet_ms=50_000)
        assert await reaper.reap_expired(10, server_age_ms=10**9, quiet_ms=50_000) == []
        assert (await asked.checkpoint_jobs(QUEUE, renewal)).changed == 1

    with_servers(scenario, count=2, prefix=prefix)


def test_a_refused_body_keeps_no_claim_from_expiring():
    """A worker may try again and again to save one that is too large, while others renew their claims."""
    prefix = fresh_prefix()
    full = b"IF NEW.body <> OLD.body THEN SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1114, MESSAGE_TEXT = 'full'; END IF"

    async def scenario(servers, clock):
        [server] = servers
        job, held = await overdue_job(server, clock)
        async with refusing(prefix, full):
            with pytest.raises(UnknownError, match="nothing was changed"):
                await server.checkpoint_jobs(QUEUE, [checkpoint_of(job, claim=held, body=b"too large")])
        assert await server.reap_expired(10, server_age_ms=10**9, quiet_ms=50_000) == [(QUEUE, 1, 0)]

    with_servers(scenario, count=1, prefix=prefix)


def test_after_a_shard_has_moved_claims_get_time_to_be_renewed():
    """Its former server may have been lost a while before the shard file named another one."""

    async def scenario(servers, clock):
        [server] = servers
        job, held = await overdue_job(server, clock)
        server.update([ShardSpec("1", endpoint_of(shared_service(), host="localhost"))])
        assert await server.reap_expired(10, server_age_ms=10**9, quiet_ms=50_000) == []
        renewal = [checkpoint_of(job, claim=held)]
        assert (await server.checkpoint_jobs(QUEUE, renewal)).changed == 1

    with_servers(scenario, count=1)


def test_each_expired_claim_is_ended_once():
    async def scenario(servers, clock):
        await servers[0].enqueue_jobs(QUEUE, [new_job(attempts=n % 2 + 1) for n in range(300)])
        await servers[0].dequeue_jobs(QUEUE, 300, claim(lease_ms=1000))
        clock.advance(1000)
        reaped = await asyncio.gather(
            *(server.reap_expired(60, server_age_ms=10**9, quiet_ms=0) for server in servers * 4)
        )
        ended = [one for found in reaped for one in found]
        assert sum(one.retried for one in ended) + sum(one.failed for one in ended) <= 300
        ended += await servers[0].reap_expired(1000, server_age_ms=10**9, quiet_ms=0)
        assert (sum(one.retried for one in ended), sum(one.failed for one in ended)) == (150, 150)
        page = await servers[0].scan_jobs(QUEUE, JobFilter(PENDING), 1000, None)
        assert {record.attempts_remaining for record in page.jobs} == {1}

    with_servers(scenario)


def test_each_finished_job_is_collected_once():
    async def scenario(servers, clock):
        await servers[0].enqueue_jobs(QUEUE, [new_job() for _ in range(300)])
        held = claim()
        found = await servers[0].dequeue_jobs(QUEUE, 300, held)
        acks = [StoredAck(JobDescriptor.parse(job.descriptor), held.descriptor, "", 0, False) for job in found.jobs]
        await servers[0].ack_dequeued_jobs(QUEUE, acks, [])
        clock.advance(10)
        rounds = await asyncio.gather(*(server.collect_finished(1, 1, 60) for server in servers * 4))
        collected = [one for found in (*rounds, await servers[0].collect_finished(1, 1, 1000)) for one in found]
        assert sum(one.succeeded for one in collected) == 300

    with_servers(scenario)


def test_a_key_is_unique_over_all_servers():
    async def scenario(servers, _):
        for key in map(str, range(10)):
            answers = await asyncio.gather(
                *(server.enqueue_jobs(QUEUE, [new_job(), new_job(unique_key=key)]) for server in servers * 4)
            )
            assert len({keyed for _, keyed in answers}) == 1
            assert len({plain for plain, _ in answers}) == 12

    with_servers(scenario)


def test_a_limit_of_running_jobs_holds_over_all_servers():
    async def scenario(servers, _):
        await servers[0].enqueue_jobs(QUEUE, [new_job() for _ in range(60)])
        for _ in range(3):
            await asyncio.gather(*(server.dequeue_jobs(QUEUE, 5, claim(), max_running=17) for server in servers * 4))
            assert await servers[0].count_jobs(QUEUE, JobFilter(IN_PROGRESS)) == 17

    with_servers(scenario)


def test_a_queue_made_by_one_server_is_there_for_all_and_gone_for_all():
    async def scenario(servers, _):
        first, second, third = servers
        await first.create_queue("thumbnails")
        [name] = await second.enqueue_jobs("thumbnails", [new_job()])
        assert [job.descriptor for job in (await third.dequeue_jobs("thumbnails", 1, claim())).jobs] == [name]
        await second.enqueue_jobs("thumbnails", [new_job()])
        await first.delete_queue("thumbnails")
        # The others may still know it; neither do they store anything in it, nor hand out anything.
        for call in (
            second.enqueue_jobs("thumbnails", [new_job()]),
            third.dequeue_jobs("thumbnails", 1, claim()),
        ):
            with pytest.raises(QueueNotFound):
                await call
        assert await third.queue_names() == {QUEUE}
        await third.create_queue("thumbnails")
        [again] = await second.enqueue_jobs("thumbnails", [new_job()])
        assert (await first.dequeue_jobs("thumbnails", 9, claim())).jobs[0].descriptor == again

    with_servers(scenario)


def test_a_deleted_queue_is_swept_bit_by_bit_by_whoever_comes():
    async def scenario(servers, _):
        await servers[0].create_queue("thumbnails")
        await servers[0].enqueue_jobs("thumbnails", [new_job() for _ in range(250)])
        await servers[0].delete_queue("thumbnails")
        for _ in range(4):
            await asyncio.gather(*(server.collect_finished(1, 1, 50) for server in servers))
        await servers[0].create_queue("thumbnails")
        assert await servers[1].count_jobs("thumbnails", JobFilter(PENDING)) == 0

    with_servers(scenario)


def test_the_clocks_of_all_servers_follow_the_store():
    async def scenario(servers, _):
        clocks = [StoreClock(machine=lambda ahead=ahead: 1_000_000.0 + ahead) for ahead in (0, -500, 3600)]
        for server, clock in zip(servers, clocks, strict=True):
            await ClockUpdater(server.group, clock).update()
        shown = [clock.now_ms() for clock in clocks]
        assert max(shown) - min(shown) < 10_000

    with_servers(scenario)


def test_a_server_whose_own_clock_is_ahead_hands_nothing_out_early(monkeypatch):
    """Also when nobody could read the database's clock before the first call."""
    monkeypatch.setattr(database, "ShardClock", partial(ShardClock, machine=lambda: time.time() + 3600))

    async def scenario():
        server = make_fleet([endpoint_of(shared_service())], None, prefix=fresh_prefix())
        await server.create_queue(QUEUE)
        await server.enqueue_jobs(QUEUE, [new_job(b"later", run_after_ms=int(time.time() * 1000) + 60_000)])
        await server.enqueue_jobs(QUEUE, [new_job(b"now")])
        found = await server.dequeue_jobs(QUEUE, 5, claim())
        await server.close()
        return [job.body for job in found.jobs]

    assert asyncio.run(scenario()) == [b"now"]


# While a backlog is worked off, claims start where the last one ended.


def backlog(clock):
    return [new_job(b"%d" % at, run_after_ms=clock.now_ms - 1000 + at) for at in range(200)]


async def bodies(server, limit=10):
    return [job.body for job in (await server.dequeue_jobs(QUEUE, limit, claim())).jobs]


def test_a_job_that_this_server_puts_ahead_of_a_backlog_comes_first():
    async def scenario(servers, clock):
        server = servers[0]
        await server.enqueue_jobs(QUEUE, backlog(clock))
        held = claim()
        first = (await server.dequeue_jobs(QUEUE, 10, held)).jobs
        assert await bodies(server) == [b"%d" % at for at in range(10, 20)]
        await server.enqueue_jobs(QUEUE, [new_job(b"ahead", run_after_ms=0)])
        assert (await bodies(server))[0] == b"ahead"
        await server.release_claims(QUEUE, "worker")
        assert (await bodies(server))[:3] == [b"ahead", b"0", b"1"]
        assert len(first) == 10

    with_servers(scenario)


def test_a_job_that_another_server_puts_ahead_of_a_backlog_comes_soon():
    async def scenario(servers, clock):
        await servers[0].enqueue_jobs(QUEUE, backlog(clock))
        await bodies(servers[1])
        await servers[0].enqueue_jobs(QUEUE, [new_job(b"ahead", run_after_ms=0)])
        seen = []
        async with asyncio.timeout(30):
            while b"ahead" not in seen:
                seen += await bodies(servers[1], 1)
                await asyncio.sleep(0.02)
        assert len(seen) < 200, "before the backlog was at its end"

    with_servers(scenario)


def test_all_of_a_backlog_is_handed_out_whatever_was_put_behind_the_cursor():
    async def scenario(servers, clock):
        await servers[0].enqueue_jobs(QUEUE, backlog(clock))
        taken = await bodies(servers[1], 50)
        await servers[0].enqueue_jobs(QUEUE, [new_job(b"ahead", run_after_ms=0)])
        taken += await bodies(servers[1], 1000)
        assert len(taken) == len(set(taken)) == 201

    with_servers(scenario)
