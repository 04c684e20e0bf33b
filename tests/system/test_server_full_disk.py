"""A disk that takes no more: what cannot be stored is refused, and nothing that was answered is lost."""

import contextlib
import resource

import pytest

from pinlater import Client, JobState
from pinlater.errors import NoHealthyShards, UnknownError
from pinlater.model.attempts import Ack, Checkpoint
from pinlater.model.jobs import NewJob
from pinlater.server.log_rate_limit import MOST_A_SECOND
from tests.support.ledger import Ledger
from tests.support.server import ServerProcess, wait_for

REFUSALS = 500
FULL_BYTES = 1 << 20
ROUND_BYTES = 100_000


@pytest.fixture
def server(tmp_path):
    server = ServerProcess(tmp_path / "server")
    yield server
    assert server.stop() == 0


@pytest.fixture
def client(server):
    with Client(server.address, retries=0, timeout=30) as client:
        client.create_queue("q")
        yield client


def let_files_grow_to(server, most_bytes):
    """As on a full disk, writes fail that would make a file larger."""
    pid = server.child().pid
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (most_bytes, resource.prlimit(pid, resource.RLIMIT_FSIZE)[1]))


def store(client):
    """Return the names of jobs that were stored, if they could be."""
    with contextlib.suppress(UnknownError):
        return client.enqueue_jobs("q", [NewJob(b"x" * 1000)])
    return []


def fill(client):
    """Store until that fails again and again; return what was stored."""
    stored, refused = [], 0
    while refused < REFUSALS:
        names = store(client)
        stored += names
        refused += not names
    return stored


def test_nothing_is_lost_and_the_server_is_back_when_there_is_room(server, client):
    process = server.child()
    let_files_grow_to(server, FULL_BYTES)
    stored = fill(client)
    assert client.count("q", JobState.PENDING) == len(stored) > 50
    with pytest.raises(UnknownError, match="nothing was changed"):
        client.enqueue_jobs("q", [NewJob(b"x" * 1000)] * 100)
    let_files_grow_to(server, resource.RLIM_INFINITY)
    stored += wait_for(lambda: store(client))
    done = []
    while jobs := client.dequeue_jobs("q", 100):
        client.ack("q", [Ack(job.descriptor, job.claim) for job in jobs])
        done += [job.descriptor for job in jobs]
    assert sorted(done) == sorted(stored)
    assert server.child() == process


def test_ends_of_jobs_are_refused_as_by_a_store_that_is_away(server, client):
    """Workers send them again until there is room; what is refused for ever, they give up."""
    client.enqueue_jobs("q", [NewJob(b"x")] * 2)
    one, other = client.dequeue_jobs("q", 2)
    let_files_grow_to(server, 1)
    with pytest.raises(NoHealthyShards, match="nothing was changed"):
        client.ack("q", [Ack(one.descriptor, one.claim)])
    with pytest.raises(NoHealthyShards, match="nothing was changed"):
        client.checkpoint("q", [Checkpoint(other.descriptor, other.claim, move_to_pending=True)])
    let_files_grow_to(server, resource.RLIM_INFINITY)
    client.ack("q", [Ack(one.descriptor, one.claim)])
    client.checkpoint("q", [Checkpoint(other.descriptor, other.claim, move_to_pending=True)])
    assert [client.count("q", state) for state in (JobState.SUCCEEDED, JobState.PENDING)] == [1, 1]


def test_it_is_said_until_there_is_room_again(server, client):
    assert wait_for(lambda: server.page("/readyz") == (200, "ok\n"))
    let_files_grow_to(server, FULL_BYTES)
    fill(client)
    status, reason = wait_for(lambda: (page := server.page("/readyz"))[0] == 503 and page)
    assert status == 503
    assert "the store cannot be written" in reason
    let_files_grow_to(server, resource.RLIM_INFINITY)
    assert wait_for(lambda: server.page("/readyz") == (200, "ok\n"))  # nobody has to store anything for that


def size_of(server):
    """Return how much the largest file holds; zeros at the end of the log are still free."""
    return max(len(file.read_bytes().rstrip(b"\0")) for file in server.data.iterdir())


def test_no_job_runs_beyond_its_attempts_or_is_forgotten_however_often_the_disk_is_full(server, client):
    ledger = Ledger()
    with ledger.at_work(server.address, "q"):
        for _ in range(5):
            enough = ledger.refused + 200
            let_files_grow_to(server, size_of(server) + ROUND_BYTES)
            wait_for(lambda enough=enough: ledger.refused >= enough)
            let_files_grow_to(server, resource.RLIM_INFINITY)
            enough = len(ledger.confirmed) + 50
            wait_for(lambda enough=enough: len(ledger.confirmed) >= enough)
    assert ledger.faults() == []
    assert ledger.doubtful == 0
    assert counted(server, "pinlater_commits_failed_total") > 0


def counted(server, metric):
    """Return a metric without labels."""
    [value] = [line.split()[1] for line in server.page("/metrics")[1].splitlines() if line.startswith(f"{metric} ")]
    return float(value)


def test_a_server_starts_on_a_full_disk_and_says_that_its_log_is_not_preallocated(server, client):
    jobs = store(client)
    assert server.stop() == 0
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (FULL_BYTES, before[1]))  # the new server inherits it
    try:
        server.start()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert max(file.stat().st_size for file in server.data.iterdir()) < FULL_BYTES
    assert server.log.count("is not preallocated") == 1
    jobs += store(client)
    assert [job.descriptor for job in client.dequeue_jobs("q", 10)] == jobs
    assert len(jobs) == 2


def test_a_process_that_cannot_open_the_store_on_a_full_disk_tries_until_there_is_room(server, client):
    jobs = store(client)
    limit = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (4096, limit[1]))  # the next process inherits it
    server.child().kill()
    wait_for(lambda: server.log.count("cannot be used at present: ") >= 2)
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, limit)
    with Client(server.address, timeout=60, connect_timeout=60) as again:
        assert [job.descriptor for job in again.dequeue_jobs("q", 10)] == jobs


def test_the_log_does_not_fill_the_disk_with_words_about_it(server, client):
    let_files_grow_to(server, FULL_BYTES)
    fill(client)
    let_files_grow_to(server, resource.RLIM_INFINITY)
    lines = [line for line in server.log.splitlines() if "fail" in line]
    seconds = {line[: len("2026-01-01T00:00:00")] for line in lines}
    assert 0 < len(lines) <= MOST_A_SECOND * 2 * len(seconds)  # the filter's seconds are not those of the log
