"""Enqueues of the MySQL store: their round trips, deleted queues, and connections that break."""

import asyncio
import os

import pytest
from asyncmy.errors import OperationalError

from pinlater.errors import QueueNotFound
from pinlater.model.attempts import StoredAck
from pinlater.model.descriptor import JobDescriptor
from pinlater.model.jobs import JobRecord
from pinlater.model.keys import JobKey
from pinlater.model.unique import OnDuplicate, UniqueRule
from pinlater.protocol.messages import PENDING
from pinlater.server.backends.mysql import group_commit, ids, queries
from pinlater.server.backends.mysql.connection import MysqlConnection
from pinlater.server.backends.mysql.errors import PacketNotSent
from pinlater.server.backends.records import Claim, IdempotencyKey, JobFilter
from tests.support.bench import QUEUE, START_MS, new_job
from tests.support.lossy_proxy import LossyProxy
from tests.support.mariadb_service import shared_service
from tests.support.mysql_bench import endpoint_of, fresh_prefix, make_fleet, with_servers
from tests.support.waiting import until

OTHER = "thumbnails"


def key():
    return IdempotencyKey(os.urandom(16), 60_000)


def with_connected(scenario, count=1, **where):
    """Run ``scenario(*servers)`` with servers on one shard that has two queues, all connected."""

    async def connected(*servers):
        for server in servers:
            await server.enqueue_jobs(OTHER, [new_job()])
            await server.delete_jobs(OTHER, JobFilter(PENDING, 1), 10)
        return await scenario(*servers)

    with_servers(connected, count, queues=(QUEUE, OTHER), **where)


async def statements(packets, call):
    """Make a call; return how many statements each of its packets had."""
    packets.clear()
    await call
    return list(packets)


def test_an_enqueue_is_one_round_trip(packets):
    async def scenario(server):
        jobs = [new_job(b"%d" % number) for number in range(100)]
        assert await statements(packets, server.enqueue_jobs(QUEUE, jobs[:1])) == [1]
        assert await statements(packets, server.enqueue_jobs(QUEUE, jobs)) == [1]
        assert await statements(packets, server.enqueue_jobs(QUEUE, jobs[:1], once=key())) == [4]
        # Who has the key is asked first: a job, or the time for which it is taken.
        assert await statements(packets, server.enqueue_jobs(QUEUE, [new_job(unique_key="k")])) == [3, 2]
        at_once = asyncio.gather(*(server.enqueue_jobs(queue, jobs[:2], once=key()) for queue in (QUEUE, OTHER) * 9))
        sent = await statements(packets, at_once)
        assert set(sent) <= {1, 4}, "1: the ids of queues are looked up anew now and then"
        assert sent.count(4) < 18, "calls at once share a transaction"

    with_connected(scenario)


def test_an_ack_of_one_outcome_is_one_statement(packets):
    async def scenario(server):
        await server.enqueue_jobs(QUEUE, [new_job(), new_job()])
        claim = Claim("h:1:1:w:1", 60_000)
        found = await server.dequeue_jobs(QUEUE, 2, claim)
        acks = [StoredAck(JobDescriptor.parse(job.descriptor), claim.descriptor, "", 0, False) for job in found.jobs]
        assert await statements(packets, server.ack_dequeued_jobs(QUEUE, acks, [])) == [1]

    with_connected(scenario)


@pytest.mark.parametrize("once", [None, key()], ids=["without a key", "with a key"])
def test_a_queue_that_another_server_deletes_takes_no_job_and_others_do(once):
    async def scenario(first, second):
        await first.delete_queue(OTHER)
        gone = second.enqueue_jobs(OTHER, [new_job(b"lost")] * 3, once=once)
        answers = await asyncio.gather(
            second.enqueue_jobs(QUEUE, [new_job()]),
            gone,
            second.enqueue_jobs(QUEUE, [new_job(unique_key="k")], once=key()),
            return_exceptions=True,
        )
        assert isinstance(answers[1], QueueNotFound)
        assert await second.count_jobs(QUEUE, JobFilter(PENDING)) == 2
        with pytest.raises(QueueNotFound):
            await second.enqueue_jobs(OTHER, [new_job()], once=once)
        # Its jobs would be deleted with it; none was stored after that.
        await first.collect_finished(10**6, 10**6, 100)
        await first.collect_finished(10**6, 10**6, 100)
        await first.create_queue(OTHER)
        assert await second.count_jobs(OTHER, JobFilter(PENDING)) == 0
        if once is not None:  # nor a result of the call
            assert len(await second.enqueue_jobs(OTHER, [new_job()], once=once._replace(is_repeat=True))) == 1
            assert await second.count_jobs(OTHER, JobFilter(PENDING)) == 1

    with_connected(scenario, 2)


def test_a_deleted_queue_keeps_all_statements_of_a_large_enqueue_from_being_committed(monkeypatch, packets):
    monkeypatch.setattr(queries, "STATEMENT_BYTES", 1000)

    async def scenario(first, second):
        large = [new_job(b"x" * 400) for _ in range(50)]
        assert max(await statements(packets, second.enqueue_jobs(OTHER, large))) > 20
        await first.delete_queue(OTHER)
        answers = await asyncio.gather(
            second.enqueue_jobs(QUEUE, large), second.enqueue_jobs(OTHER, large), return_exceptions=True
        )
        assert len(answers[0]) == 50
        assert isinstance(answers[1], QueueNotFound)
        assert await first.count_jobs(QUEUE, JobFilter(PENDING)) == 50

    with_connected(scenario, 2)


def test_a_queue_is_not_deleted_while_jobs_are_stored_in_it():
    """Deletes and enqueues at once: each enqueue is refused, or its job is swept with the queue."""

    async def scenario(first, second, third):
        async def store(server, stored):
            for _ in range(15):
                try:
                    stored += await server.enqueue_jobs(OTHER, [new_job()], once=key())
                except QueueNotFound:
                    return

        for _ in range(5):
            stored = []
            storing = asyncio.gather(*(store(server, stored) for server in (second, third) * 2))
            await asyncio.sleep(0.01)
            await first.delete_queue(OTHER)
            await storing
            for _ in range(4):
                await first.collect_finished(10**6, 10**6, 1000)
            records = await first.lookup_jobs([JobDescriptor.parse(name) for name in stored])
            assert records == [None] * len(stored)
            await first.create_queue(OTHER)
            assert await first.count_jobs(OTHER, JobFilter(PENDING)) == 0

    with_connected(scenario, 3)


async def forget_reservations(prefix):
    """Do to the shard what a fail-over to a replica does that lacks the latest changes."""
    connection = await MysqlConnection.open(endpoint_of(shared_service()))
    await connection.run(f"UPDATE {prefix}1.settings SET value = 1 WHERE name = 'next_job_id'".encode())
    connection.close()


@pytest.mark.parametrize("unique", [False, True], ids=["without keys", "with keys"])
@pytest.mark.parametrize("once", [False, True], ids=["without a call key", "with a call key"])
def test_servers_store_jobs_though_the_database_has_forgotten_which_ids_they_have(monkeypatch, once, unique):
    monkeypatch.setattr(ids, "GAP", 1)  # so that their blocks are the same
    prefix = fresh_prefix()

    async def scenario(first):
        await forget_reservations(prefix)
        second = make_fleet([endpoint_of(shared_service())], lambda: START_MS, prefix=prefix)
        names = []
        for number in range(8):
            jobs = [new_job(unique_key=f"{number} {at}" if unique else None) for at in range(3)]
            names += await (first, second)[number % 2].enqueue_jobs(QUEUE, jobs, once=key() if once else None)
        assert len(set(names)) == 24
        assert await first.count_jobs(QUEUE, JobFilter(PENDING)) == 24
        await second.close()

    with_connected(scenario, prefix=prefix)


def test_no_job_gets_the_descriptor_of_one_that_a_fail_over_has_lost():
    prefix = fresh_prefix()

    async def scenario(first):
        lost = await first.enqueue_jobs(QUEUE, [new_job()] * 50)
        await forget_reservations(prefix)
        await first.delete_jobs(QUEUE, JobFilter(PENDING), 50)
        second = make_fleet([endpoint_of(shared_service())], lambda: START_MS, prefix=prefix)
        assert not set(lost) & set(await second.enqueue_jobs(QUEUE, [new_job()] * 50))
        await second.close()

    with_connected(scenario, prefix=prefix)


@pytest.fixture
def proxy():
    """Stands before the server, and loses answers."""
    with LossyProxy(shared_service().port) as proxy:
        yield proxy


@pytest.mark.parametrize("unique", [None, "k"])
@pytest.mark.parametrize("once", [None, key()], ids=["without a key", "with a key"])
def test_an_enqueue_whose_answer_is_lost_stores_one_job(proxy, once, unique):
    async def scenario(server):
        proxy.lose(b"INSERT INTO")
        names = await server.enqueue_jobs(QUEUE, [new_job(b"a", unique_key=unique), new_job(b"b")], once=once)
        assert proxy.lost == 1
        found = await server.dequeue_jobs(QUEUE, 9, Claim("h:1:1:w:1", 60_000))
        assert [job.descriptor for job in found.jobs] == names

    with_connected(scenario, endpoint=endpoint_of(shared_service(), port=proxy.port))


@pytest.mark.parametrize("number", [3032, 3100, 3101, 3782])
@pytest.mark.parametrize("once", [None, key()], ids=["without a key", "with a key"])
def test_what_the_others_of_a_group_commit_though_their_primary_rolls_it_back_is_stored_once(monkeypatch, once, number):
    send, failures = MysqlConnection._send, [number]

    async def send_to_primary(connection, packet, results):
        await send(connection, packet, results)
        if b"INSERT INTO" in packet and failures:
            raise OperationalError(failures.pop(), "Plugin instructed the server to rollback the current transaction.")

    async def scenario(server):
        monkeypatch.setattr(MysqlConnection, "_send", send_to_primary)
        names = await server.enqueue_jobs(QUEUE, [new_job(), new_job()], once=once)
        assert not failures
        found = await server.dequeue_jobs(QUEUE, 9, Claim("h:1:1:w:1", 60_000))
        assert [job.descriptor for job in found.jobs] == names

    with_connected(scenario)


def test_a_call_that_meets_its_own_repeat_after_a_long_wait_returns_what_that_has_stored(monkeypatch):
    monkeypatch.setattr(group_commit, "RETRY_SECONDS", 0.0)  # as if the database had stood still for that long

    async def scenario(first, second):
        once = key()
        stored = await first.enqueue_jobs(QUEUE, [new_job()], once=once)
        others = [second.enqueue_jobs(QUEUE, [new_job()], once=key()) for _ in range(3)]
        answers = await asyncio.gather(second.enqueue_jobs(QUEUE, [new_job()], once=once), *others)
        assert answers[0] == stored
        assert await first.count_jobs(QUEUE, JobFilter(PENDING)) == 4

    with_connected(scenario, 2)


def test_a_queue_that_is_deleted_before_a_lost_enqueue_is_repeated_is_not_found(proxy):
    prefix = fresh_prefix()

    async def delete():
        other = make_fleet([endpoint_of(shared_service())], lambda: START_MS, prefix=prefix)
        await other.delete_queue(OTHER)
        await other.close()

    async def scenario(server):
        proxy.lose(b"INSERT INTO", before_cut=lambda: asyncio.run(delete()))
        with pytest.raises(QueueNotFound):
            await server.enqueue_jobs(OTHER, [new_job()])
        assert proxy.lost == 1
        assert await server.queue_names() == {QUEUE}

    with_connected(scenario, endpoint=endpoint_of(shared_service(), port=proxy.port), prefix=prefix)


def test_a_connection_that_the_server_has_closed_leaves_nothing_uncertain():
    """Nothing was sent on it, so that a shard that is gone for good is left for another one at once."""

    async def scenario():
        connection = await MysqlConnection.open(endpoint_of(shared_service()))
        [(rows, _, _)] = await connection.run(b"SELECT CONNECTION_ID()")
        other = await MysqlConnection.open(endpoint_of(shared_service()))
        await other.run(b"KILL %d" % rows[0][0])
        other.close()
        await until(lambda: connection._raw._stream_broken)
        with pytest.raises(PacketNotSent):
            await connection.run(b"SELECT 1")
        assert not connection.is_open

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (1114, b"The table is full"),
        (1030, b'Got error 28 "No space left on device" from storage engine InnoDB'),
        (1026, b'Error writing file "/tmp/x" (Errcode: 28 "No space left on device")'),
    ],
)
def test_what_the_disk_of_a_shard_has_no_room_for_goes_to_another(number, text):
    full = b"SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = %d, MESSAGE_TEXT = '%b'" % (number, text)

    async def scenario():
        place, prefix = endpoint_of(shared_service()), fresh_prefix()
        fleet = make_fleet([place, place], lambda: START_MS, prefix=prefix)
        await fleet.create_queue(QUEUE)
        connection = await MysqlConnection.open(place)
        await connection.run(
            b"CREATE TRIGGER %b1.full BEFORE INSERT ON %b1.jobs FOR EACH ROW %b" % (*[prefix.encode()] * 2, full)
        )
        await connection.run(
            b"CREATE TRIGGER %b1.fuller BEFORE INSERT ON %b1.queues FOR EACH ROW %b" % (*[prefix.encode()] * 2, full)
        )
        await fleet.create_queue(OTHER)
        for queue in (QUEUE, OTHER):
            names = [name for _ in range(20) for name in await fleet.enqueue_jobs(queue, [new_job()])]
            assert {JobDescriptor.parse(name).shard for name in names} == {"2"}
        assert fleet.unhealthy_shards == 0, "what it has can be worked off"
        for trigger in (b"full", b"fuller"):
            await connection.run(b"DROP TRIGGER %b1.%b" % (prefix.encode(), trigger))
        connection.close()
        await fleet.close()

    asyncio.run(scenario())


def test_no_statement_lists_so_many_unique_keys_that_no_packet_holds_them(monkeypatch):
    real = MysqlConnection.open

    async def opened(endpoint):
        connection = await real(endpoint)
        connection.max_packet_bytes = 2_400_000
        return connection

    monkeypatch.setattr(MysqlConnection, "open", opened)
    jobs = [new_job(unique_key=f"{number:06}" + "é" * 194, rule=UniqueRule(period_ms=60_000)) for number in range(6000)]

    async def scenario(server):
        names = await server.enqueue_jobs(QUEUE, jobs)
        cancelled = await server.cancel_jobs(QUEUE, list(map(JobDescriptor.parse, names)), "not needed\n")
        assert len(cancelled.ended) == 6000
        assert set(names).isdisjoint(await server.enqueue_jobs(QUEUE, jobs)), "the keys are free"

    with_servers(scenario)


@pytest.mark.parametrize("kind", [OnDuplicate.REPLACE, OnDuplicate.DEBOUNCE])
@pytest.mark.parametrize("key", [None, JobKey("customer", 1, is_ordered=True)])
def test_a_job_that_is_imported_in_the_same_transaction_is_replaced_too(kind, key):
    rule = UniqueRule(on_duplicate=kind, max_delay_ms=1000)
    due, is_put_off = START_MS + 300, kind == OnDuplicate.DEBOUNCE
    old = JobRecord(
        "elsewhere:s7:p2:42", PENDING, 3, 2, "Timeout", START_MS - 100, due, START_MS, None, b"old", "a", key,
        failure_group=7,
    )  # fmt: skip

    async def scenario(server):
        shard = next(iter(server.group.registry)).shard
        new = new_job(b"new", attempts=5, unique_key="a", rule=rule, run_after_ms=START_MS + 5000)
        [imported], [stored] = await asyncio.gather(
            shard.import_jobs(QUEUE, [old]),
            shard.enqueue_jobs(QUEUE, [new]),  # one transaction, in this order
        )
        assert stored == imported
        [found] = await server.lookup_jobs([JobDescriptor.parse(stored)], body_bytes=100)
        assert found == old._replace(
            descriptor=stored, body=b"new", attempts_allowed=5, attempts_remaining=5, status="", failure_group=None,
            run_after_ms=START_MS + 900 if is_put_off else due,
        )  # fmt: skip
        assert await server.count_jobs(QUEUE, JobFilter(PENDING, is_retrying=True)) == 0

    with_connected(scenario)
