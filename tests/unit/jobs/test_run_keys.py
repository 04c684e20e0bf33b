"""Idempotency keys: the same for all attempts of a run, and for nothing else."""

from uuid import UUID

import pytest

from pinlater import Job
from pinlater.errors import JobInterrupted
from pinlater.jobs.job import RawJob
from pinlater.jobs.run_keys import new_run_id
from pinlater.model.body_metadata import read_metadata
from pinlater.testing import FakeContext, LocalServer, killed_everywhere, run_inline
from pinlater.worker.running.run_context import RunContext
from tests.unit.jobs.workflow_attempts import InAWorker, Saver, WithFakes
from tests.unit.worker.fakes import batch_of


@pytest.fixture(params=[InAWorker, WithFakes])
def attempts(request):
    return request.param()


def test_all_attempts_have_one_key_for_a_name(attempts):
    first = attempts.attempt()
    key = first.key("charge")
    assert str(UUID(key)) == key
    assert first.key("charge") == key
    assert first.key("refund") != key
    attempts.died()
    assert attempts.attempt(2).key("charge") == key


def test_it_is_saved_before_it_is_used_and_once():
    attempts = InAWorker()
    context = attempts.attempt()
    context.key("charge")
    assert [read_metadata(body).run_id != "" for body in attempts.saver.bodies] == [True]
    context.key("refund")
    attempts.died()
    attempts.attempt(2).key("charge")
    assert attempts.saver.bodies == []


def test_runs_and_jobs_and_lives_of_a_descriptor_differ():
    identities = [("a:s1:p1:1", 5, 0), ("a:s1:p1:1", 5, 1), ("a:s1:p1:1", 6, 0), ("a:s1:p1:2", 5, 0)]
    assert len({new_run_id(*identity) for identity in identities}) == 4
    assert new_run_id("a:s1:p1:1", None, 0) == new_run_id("a:s1:p1:1", None, 0)


class Pays(Job, attempts=2):
    def run(self, context):
        charged.append(context.key("charge"))
        if context.scheduled_for is None:
            context.reschedule(after=0)


class Raw(RawJob, queue="raw"):
    def run(self, context):
        charged.append(context.key("charge"))


charged = []


@pytest.fixture(autouse=True)
def forget():
    charged.clear()


def test_wherever_it_is_killed_it_charges_once():
    for client in killed_everywhere(Pays):
        charged.clear()
        client.enqueue(Pays())
        client.assert_succeeded()
        assert len(set(charged)) == 1, client.killed_at


def test_a_job_that_was_moved_to_another_queue_or_store_keeps_its_keys():
    attempts = InAWorker()
    key = attempts.attempt().key("charge")
    attempts.died()
    moved = RunContext(attempts.job, batch_of("other:s2:p1:9", bodies=[attempts.body]), 0, Saver())
    assert moved.key("charge") == key


def test_on_a_server_the_next_run_has_another_key(tmp_path):
    with LocalServer(tmp_path) as server:
        client = server.client(Pays)
        client.enqueue(Pays())
        server.run_worker(Pays)
        assert len(charged) == len(set(charged)) == 2


def test_a_raw_job_has_keys_too():
    with run_inline(Raw) as client:
        client.enqueue(Raw(body=b"x"))
        client.assert_succeeded()
    assert len(charged) == 1


def test_an_interrupted_job_gets_none():
    context = FakeContext(Pays(), draining_after=1)
    with pytest.raises(JobInterrupted):
        context.checkpoint()
    with pytest.raises(JobInterrupted):
        context.key("charge")
