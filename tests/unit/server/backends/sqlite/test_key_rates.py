"""What jobs cost beside others that wait for the rate of their key: instructions of SQLite's machine are counted."""

import pytest

from pinlater.model.attempts import StoredAck
from pinlater.model.descriptor import JobDescriptor
from pinlater.model.keys import JobKey
from pinlater.server.backends.sqlite.ack import SqliteAckRequest, ack_jobs
from pinlater.server.backends.sqlite.claim import SqliteClaimRequest, claim_jobs
from pinlater.server.backends.sqlite.enqueue import EnqueueRequest, enqueue_keyed
from tests.support.bench import new_job
from tests.unit.server.backends.sqlite.memory_store import PREFIXES, Store

CLAIM = "h:1:1:w:1"


class Counted:
    """A store in which jobs of one key wait for its rate."""

    def __init__(self, waiting):
        self._store = Store([])
        self._transaction = self._store.transaction
        self._put(*[new_job(key=JobKey("flood", rate="1/h"))] * (waiting + 1))
        self._take()

    def _put(self, *jobs):
        enqueue_keyed(self._transaction, [EnqueueRequest(1, jobs)])

    def _take(self):
        [found] = claim_jobs(self._transaction, [SqliteClaimRequest(1, PREFIXES, 10, 10**6, CLAIM, 10, True, None)])
        return [JobDescriptor.parse(job.descriptor).local_id for job in found.jobs]

    def round(self, key):
        """Enqueue a job, take and end it; return how many statements and tens of instructions that takes."""
        ticks = []
        self._store.statements.clear()
        self._transaction._cursor.connection.set_progress_handler(lambda: ticks.append(1), 10)
        self._put(new_job(key=key))
        [taken] = self._take()
        ack = StoredAck(JobDescriptor("q", "1", 1, taken), CLAIM, "", 0, False)
        assert ack_jobs(self._transaction, [SqliteAckRequest(1, [ack], [])])[0].changed == 1
        self._transaction._cursor.connection.set_progress_handler(None, 0)
        return len(self._store.statements), len(ticks)


@pytest.mark.parametrize("key", [None, JobKey("other"), JobKey("other", 1), JobKey("other", rate="999999/s")])
def test_jobs_that_wait_for_a_rate_cost_others_nothing(key):
    few, many = Counted(10), Counted(10_000)
    for counted in (few, many):
        counted.round(key)
    (statements, instructions), (statements_then, instructions_then) = few.round(key), many.round(key)
    assert statements_then == statements
    assert instructions_then <= instructions + 5


def test_the_job_of_a_full_key_costs_the_same_however_many_wait():
    def cost(waiting):
        counted = Counted(waiting)
        ticks = []
        counted._transaction._cursor.connection.set_progress_handler(lambda: ticks.append(1), 10)
        counted._put(new_job(key=JobKey("flood", rate="1/h")))
        assert counted._take() == []
        return len(ticks)

    assert cost(10_000) <= cost(10) + 5


def test_jobs_without_a_rate_cost_no_statement_more_than_without_rates():
    plain = Store([]).transaction
    assert plain.queues.rated == set()
    without, beside = Counted(10), Counted(10)
    without._transaction.queues.rated.clear()
    assert without.round(None) == beside.round(None)
