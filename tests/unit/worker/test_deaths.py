"""The master's side of a death: what it tells the keeper, and what a stop excuses."""

import signal
from math import inf

import pytest
from pinlater_supervisor import MEMORY_CEILING, TIME_OUT, ChildExit

from pinlater.client.servers import ServerSet
from pinlater.errors import ConfigError
from pinlater.worker.claim_table.snapshot import Identity
from pinlater.worker.master import _job_pool, post_exit, was_interrupted
from pinlater.worker.options import WorkerOptions
from pinlater.worker.pools import JobPool
from pinlater.worker.shared import Shared
from tests.unit.worker.fakes import names


def ended(**info):
    usual = {"pool": "jobs", "slot": 0, "pid": 77, "generation": 0, "code": None, "signal": None}
    usual |= {"peak_rss_bytes": 10**7, "run_seconds": 3.0, "was_ready": True, "stopping": False}
    return ChildExit(**(usual | info))


@pytest.mark.parametrize(
    ("info", "interrupted"),
    [
        ({"signal": signal.SIGKILL}, False),
        ({"signal": signal.SIGSEGV, "stopping": True}, False),
        ({"code": 0}, False),
        ({"code": 3, "stopping": True}, False),
        ({"code": 0, "stopping": True}, True),
        ({"signal": signal.SIGKILL, "stopping": True}, False),
        ({"signal": signal.SIGKILL, "stopping": True, "killed_by_master": "drain deadline"}, True),
        ({"signal": signal.SIGKILL, "killed_by_master": MEMORY_CEILING}, False),
        ({"signal": signal.SIGKILL, "stopping": True, "killed_by_master": MEMORY_CEILING}, False),
        ({"signal": signal.SIGTERM, "stopping": True}, True),
        ({"signal": signal.SIGKILL, "stopping": True, "killed_by_master": TIME_OUT}, False),
    ],
)
def test_only_a_stop_spares_the_attempt_of_a_killed_job(info, interrupted):
    assert was_interrupted(ended(**info)) is interrupted


def test_a_death_is_queued_and_its_row_is_free():
    shared = Shared.for_pools([JobPool()])
    row = shared.claim_table.row(0)
    row.register(Identity("worker:me", ["mail"], ["SendMail"]))
    row.acquire_area().write("claim", names(2))
    post_exit(ended(signal=signal.SIGSEGV), shared)
    [posted] = shared.exit_queue.pending()
    assert posted.info.description == "killed by SIGSEGV, peak 10 MB, ran 3.0 s"
    assert [job.descriptor for job in posted.snapshot.batches[0].jobs] == names(2)
    assert row.snapshot().is_empty


def test_a_process_beyond_the_rows_harms_nobody():
    """As after many reloads while old processes still finish long jobs. It says so, and ends; the master goes on."""
    shared = Shared.for_pools([JobPool()])
    [numbers] = shared.row_numbers.values()
    pool = _job_pool(JobPool(), WorkerOptions(modules=("m",), servers=ServerSet(["localhost"])), shared)
    assert [pool.kill_at(slot) for slot in (0, len(numbers))] == [inf, inf]
    post_exit(ended(slot=len(numbers), code=78), shared)
    assert not shared.exit_queue.has_pending
    with pytest.raises(ConfigError, match="at most 68 processes of one pool"):
        shared.row(JobPool().name, len(numbers))
    assert 2 * pool.most == len(numbers), "a signal starts no more than a reload can replace"


def test_an_exit_without_claims_is_not_queued():
    shared = Shared.for_pools([JobPool()])
    shared.claim_table.row(0).register(Identity("worker:me", ["mail"], ["SendMail"]))
    post_exit(ended(code=0), shared)
    assert not shared.exit_queue.has_pending
