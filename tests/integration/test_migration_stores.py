"""A queue goes round through all kinds of stores, and comes back as it was."""

import itertools
import os
import signal
import time

import pytest

from pinlater import Client, JobState
from pinlater.client import Ack, JobKey, NewJob
from pinlater.client.migration import Migration
from tests.support.server import ServerProcess
from tests.support.stores import KEYED_SETTINGS, SHARED_STORES

QUEUE = "pins"
ROUND = ("sqlite", "mysql", "redis", "sqlite again")
AWKWARD = 'it\'s 100% \\ "odd"\n\0\x1f\u2028 ünï ☃ 😀 ${x} %s {0} -- /*'
KINDS = [(JobState.PENDING, False), (JobState.PENDING, True), (JobState.FAILED, False), (JobState.SUCCEEDED, False)]


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stores")
    servers = {}
    for name in ROUND:
        settings = SHARED_STORES[name](folder) if name in SHARED_STORES else {}
        servers[name] = ServerProcess(folder / name.replace(" ", "-"), **settings)
    yield servers
    for server in servers.values():
        assert server.stop() == 0
        assert "Traceback" not in server.log


@pytest.fixture
def clients(servers):
    """An empty queue in every store."""
    clients = {name: Client(server.address, timeout=60) for name, server in servers.items()}
    for client in clients.values():
        client.create_queue(QUEUE)
    yield clients
    for client in clients.values():
        client.delete_queue(QUEUE, "open sesame")
        client.close()


def fill(client):
    """Store jobs of every kind."""
    later = int(time.time() * 1000) + 3_600_000
    client.enqueue_jobs(QUEUE, [NewJob(b"failed", attempts=1, status=AWKWARD), NewJob(b"done", unique="of the done")])
    failed, done = client.dequeue_jobs(QUEUE, 2)
    client.ack(QUEUE, [Ack(done.descriptor, done.claim, AWKWARD)], [Ack(failed.descriptor, failed.claim, AWKWARD)])
    client.enqueue_jobs(QUEUE, [NewJob(b"tried", priority=3, attempts=5, status=AWKWARD)])
    (tried,) = client.dequeue_jobs(QUEUE, 1)
    client.ack(QUEUE, failed=[Ack(tried.descriptor, tried.claim, AWKWARD, retry_delay=3600)])
    client.enqueue_jobs(
        QUEUE,
        [
            NewJob(b"nightly", run_after_ms=later, unique="nightly"),
            NewJob(b"keyed", priority=2, unique=" a key: %s '\"\\ ☃ "),
            NewJob(b"", attempts=7),
            NewJob(bytes(range(256)), priority=3),
            NewJob(b"long past", run_after_ms=1),
            NewJob(b"far away", run_after_ms=2**52),
        ],
    )
    client.enqueue_jobs(QUEUE, [NewJob(b"%d" % at, priority=at % 3 + 1) for at in range(600)])


def all_jobs(client):
    """Return what is to stay the same of all jobs, by kind."""
    found = {}
    for state, future in KINDS:
        names = [info.descriptor for info in client.scan_all(QUEUE, state, future=future)]
        jobs = [
            job
            for start in range(0, len(names), 100)
            for job in client.lookup(names[start : start + 100], include_body=True).values()
        ]
        found[state.name, future] = sorted(map(traits, jobs))
    return found


def traits(job):
    key = job.unique if job.unique and not job.unique.startswith("moved:") else None
    priority = int(job.descriptor.split(":")[2][1:])
    allowed, remaining = job.attempts_allowed, job.attempts_remaining
    return (job.body, priority, allowed, remaining, job.status, key or "", job.run_after_ms, job.created_at_ms)


def move(source, target, **options):
    migration = Migration(source, target, QUEUE, QUEUE, with_succeeded=True, **options)
    assert migration.move(patience_seconds=20) == 0
    return migration.moved


def test_every_kind_of_job_goes_round_through_all_stores(clients):
    fill(clients["sqlite"])
    before = all_jobs(clients["sqlite"])
    assert [len(jobs) for jobs in before.values()] == [604, 3, 1, 1]
    for one, other in itertools.pairwise(ROUND):
        moved = move(clients[one], clients[other])
        assert moved == {"due": 604, "scheduled": 3, "failed": 1, "succeeded": 1}, other
        after = all_jobs(clients[other])
        for kind, jobs in before.items():
            assert after[kind] == jobs, (other, kind)
    order = [job.body for job in clients[ROUND[-1]].dequeue_jobs(QUEUE, 700)]
    assert order[:4] == [b"long past", b"", b"0", b"3"], "priority and age count as before"


def test_keys_go_round_and_ordered_ones_keep_their_order(clients):
    stores = [name for name in ROUND if name.split()[0] in KEYED_SETTINGS]
    ordered, limited = JobKey("ordered ☃", 1, is_ordered=True), JobKey("limited", 2)
    for number in range(30):
        clients[stores[0]].enqueue_jobs(QUEUE, [NewJob(b"%d" % number, key=key) for key in (ordered, limited)])
    for one, other in itertools.pairwise(stores):
        assert move(clients[one], clients[other]).total() == 60
        waiting = clients[other].count(QUEUE, JobState.PENDING, waiting_for_key=True)
        assert (clients[other].count(QUEUE, JobState.PENDING), waiting) == (3, 57), other
    last, ran = clients[stores[-1]], []
    while claimed := last.dequeue_jobs(QUEUE, 10):
        keys = {name: info.key for name, info in last.lookup([job.descriptor for job in claimed]).items()}
        ran += [int(job.body) for job in claimed if keys[job.descriptor] == ordered]
        last.ack(QUEUE, [Ack(job.descriptor, job.claim) for job in claimed])
    assert ran == list(range(30))
    assert last.count(QUEUE, JobState.SUCCEEDED) == 60


def test_rates_of_keys_go_round(clients):
    stores = [name for name in ROUND if name.split()[0] in KEYED_SETTINGS]
    rated = JobKey("rated", rate="1/d")
    clients[stores[0]].enqueue_jobs(QUEUE, [NewJob(b"%d" % number, key=rated) for number in range(5)])
    for one, other in itertools.pairwise(stores):
        assert move(clients[one], clients[other]).total() == 5
        assert clients[other].count(QUEUE, JobState.PENDING, waiting_for_key=True) == 4, other
    last = clients[stores[-1]]
    [job] = last.dequeue_jobs(QUEUE, 10)
    assert last.lookup([job.descriptor])[job.descriptor].key == rated
    assert last.dequeue_jobs(QUEUE, 10) == []


def test_large_bodies_go_round(clients):
    bodies = [bytes([at]) * 1_000_000 for at in range(40)]
    later = int(time.time() * 1000) + 3_600_000
    for at, body in enumerate(bodies):
        clients["sqlite"].enqueue_jobs(QUEUE, [NewJob(body, run_after_ms=later if at % 2 else None)])
    for one, other in itertools.pairwise(ROUND):
        moved = move(clients[one], clients[other])
        assert (moved["due"], moved["scheduled"]) == (20, 20), other
    last = clients[ROUND[-1]]
    found = [
        info.descriptor for future in (False, True) for info in last.scan_all(QUEUE, JobState.PENDING, future=future)
    ]
    there = [job.body for name in found for job in last.lookup([name], include_body=True).values()]
    assert sorted(there) == sorted(bodies)


def test_a_mover_between_stores_that_is_killed_doubles_and_loses_nothing(servers, clients, monkeypatch):
    monkeypatch.setattr("pinlater.client.migration.LEASE_SECONDS", 1.0)
    source, target = clients["mysql"], clients["redis"]
    later = int(time.time() * 1000) + 3_600_000
    bodies = [b"%d" % number for number in range(2000)]
    source.enqueue_jobs(QUEUE, [NewJob(body, run_after_ms=later if body[-1] % 2 else None) for body in bodies])
    for batches in range(1, 6):
        pid = os.fork()
        if pid == 0:
            die_after(servers, batches)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) in {0, -signal.SIGKILL}
    move(source, target)
    kinds = all_jobs(target)
    assert sorted(job[0] for jobs in kinds.values() for job in jobs) == sorted(bodies)


def die_after(servers, batches):
    """Move, and die between the import of a batch and its removal at the source."""
    with Client(servers["mysql"].address) as old, Client(servers["redis"].address) as new:
        importing, left = new.import_jobs, itertools.count(batches, -1)

        def import_jobs(queue, jobs):
            imported = importing(queue, jobs)
            if any(job.body for job in jobs) and not next(left):
                os.kill(os.getpid(), signal.SIGKILL)
            return imported

        new.import_jobs = import_jobs
        Migration(old, new, QUEUE, QUEUE, with_succeeded=True).move(patience_seconds=0)
    os._exit(0)
