"""A process that runs one job after the other: what it says and when, with a server that the test plays."""

import pytest

from pinlater import Job
from pinlater.client.servers import ServerSet
from pinlater.errors import DequeueRateLimited
from pinlater.jobs.body_codec import JobCodec, encode_body
from pinlater.model.body_metadata import PERIODIC_SPARE_ATTEMPTS, BodyMetadata, Recurrence
from pinlater.worker.claim_table.counters import RunCounts
from pinlater.worker.claim_table.snapshot import SOLO_LAYOUT
from pinlater.worker.options import WorkerOptions
from pinlater.worker.pools import JobPool
from pinlater.worker.processes import process as process_module
from pinlater.worker.processes import solo as solo_module
from pinlater.worker.processes.solo import SoloProcess
from pinlater.worker.session.outcome import Failure
from pinlater.worker.shared import Shared
from tests.support.counting import functions_called
from tests.unit.worker.fakes import FakeChild, FakePipeline, names, reply

BODY = b'{"job":"Quick"}'
FUNCTIONS_OF_A_JOB = 11
"""Of ours, from a reply that brings the job to the one that confirms its ack; ``run`` is not among them."""


class Quick(Job, queue="mail"):
    def run(self, context):
        pass


class Answer(Job[str], queue="mail"):
    size: int

    def run(self, context):
        return "x" * self.size


class Broken(Job, queue="mail"):
    def run(self, context):
        raise ValueError("no")


class Weekly(Job, queue="mail", every=604800, attempts=2):
    def run(self, context):
        raise AssertionError("its attempts are spent")


@pytest.fixture
def pipeline(monkeypatch):
    pipeline = FakePipeline()
    monkeypatch.setattr(process_module, "Pipeline", lambda *_: pipeline)
    return pipeline


@pytest.fixture
def process(request, pipeline, monkeypatch):
    """A process of a worker with the options that a test gives as its parameter."""
    monkeypatch.setattr(solo_module, "hear_again", lambda _: None)  # needs a real child
    child, pool = FakeChild(), JobPool()
    child.kill_at = child.status = lambda *_: None
    given = getattr(request, "param", {})
    options = WorkerOptions(modules=(), servers=ServerSet.of("127.0.0.1:1"), pools=(pool,), **given)
    yield SoloProcess(child, options, pool, JobCodec([Quick, Answer, Broken, Weekly]), Shared.for_pools([pool]))
    child.close()


def test_few_functions_are_called_for_a_job(process, pipeline):
    """From the reply that brings it to the reply that confirms its ack."""

    def work_off(count):
        assert process._fetcher.dequeue(0.0, count)
        jobs = reply(*names(count), bodies=[BODY] * count)

        def work():
            pipeline.answer(jobs)
            process._run(process._fetcher.next_batch())
            process._ack_buffer.flush()
            pipeline.answer()

        return functions_called(work)

    work_off(1)
    few, many = work_off(10), work_off(110)
    assert (many - few) / 100 <= FUNCTIONS_OF_A_JOB


def test_acks_do_not_wait_for_a_dequeue_that_waits_for_their_room(process, pipeline):
    """As after a store was away, when replies came while nothing could be settled."""
    fetcher = process._fetcher
    for name in names(SOLO_LAYOUT.batches):
        assert fetcher.dequeue(0.0)
        pipeline.answer(reply(name, bodies=[BODY]))
    while (batch := fetcher.next_batch()) is not None:
        process._run(batch)
    assert not fetcher.dequeue(0.0), "there is no room"
    process._fetch()
    assert pipeline.methods[SOLO_LAYOUT.batches :] == ["ackDequeuedJobs"]
    pipeline.answer()
    assert fetcher.dequeue(0.0)


@pytest.mark.parametrize("process", [{"burst": True}], indirect=True)
def test_a_burst_waits_for_the_rate_of_its_queue_at_the_server(process, pipeline):
    """A bucket of one token is full while the process waits by itself, and loses what the rate brings meanwhile."""
    waits = []
    for answer in (DequeueRateLimited("at its rate"), reply(*names(1), bodies=[BODY]), reply()):
        assert process._request_jobs()
        waits.append(pipeline.sent[-1][2])
        pipeline.answer(answer)
    assert waits == [0.0, 1.0, 0.0]


@pytest.fixture
def fetched(process, pipeline, monkeypatch):
    """Return four fetched jobs; a function of batch and position says how many milliseconds pass when each starts."""

    def fetch(passing):
        clock, run_really = [0], process._runner.run
        monkeypatch.setattr(solo_module, "monotonic_ns", lambda: clock[0])

        def run(batch, position, now):
            clock[0] += passing(batch, position) * 1_000_000
            return run_really(batch, position, now)

        monkeypatch.setattr(process._runner, "run", run)
        assert process._fetcher.dequeue(0.0, 4)
        pipeline.answer(reply(*names(4), bodies=[BODY] * 4))
        return process._fetcher.next_batch()

    return fetch


def test_acks_sent_by_the_keeper_are_not_sent_again(process, pipeline, fetched):
    def passing(batch, position):
        if position < 3:
            return 0
        for before in range(3):  # it takes long, so the keeper tells what went before
            batch.area.mark_acked(before, batch.area.fetched_ns)
        return 1000

    batch = fetched(passing)
    process._run(batch)
    assert pipeline.methods == ["dequeueJobs", "ackDequeuedJobs"]
    assert [job.jobDescriptor for job in pipeline.last.jobsSucceeded] == names(4)[3:]
    pipeline.answer()
    assert batch.area.is_free
    assert process._ack_buffer.is_empty


def test_each_success_is_sent_once_however_often_that_is_done(process, pipeline, fetched):
    sent_to = []

    def passing(_batch, _position):
        [held] = process._row.snapshot().batches
        sent_to.append(held.sent_to)
        return 60

    process._run(fetched(passing))
    assert sent_to == [0, 0, 2, 2], "the claim table says what the keeper need not tell"
    sent = [arguments.request.jobsSucceeded for method, arguments, _ in pipeline.sent if method == "ackDequeuedJobs"]
    assert [job.jobDescriptor for jobs in sent for job in jobs] == names(4)


def test_successes_that_cannot_be_sent_are_left_to_the_keeper(process, pipeline, fetched):
    """As when a server restarts: the keeper reaches it again during the next long job."""
    sent_to = []

    def passing(batch, position):
        [held] = process._row.snapshot().batches
        sent_to.append(held.sent_to)
        if position < 3:
            return 60
        for before in range(3):
            batch.area.mark_acked(before, batch.area.fetched_ns)
        return 1000

    batch = fetched(passing)
    pipeline.lose()
    process._run(batch)
    assert sent_to == [0, 0, 0, 0]
    pipeline.is_open = True
    process._ack_buffer.flush()
    assert [job.jobDescriptor for job in pipeline.last.jobsSucceeded] == names(4)[3:]


def test_a_tick_that_was_not_run_is_counted_for_its_class(process, pipeline):
    """After a job of another class, whose place on the board it may have."""
    schedule = Weekly.job_options.schedule
    body = encode_body(Weekly(), BodyMetadata(recurrence=Recurrence(schedule.next_ms(0), schedule=schedule.text)))
    for spent, name in ((0, "mail:s1:p1:1"), (3, "mail:s1:p1:2")):
        assert process._fetcher.dequeue(0.0)
        pipeline.answer(
            reply(name, bodies=[body if spent else BODY], allowed=2 + PERIODIC_SPARE_ATTEMPTS, remaining=18 - spent)
        )
        process._run(process._fetcher.next_batch())
        process._ack_buffer.flush()
        pipeline.answer()
    endings = {name: RunCounts(numbers).endings for (_, name), numbers in process._counters.rows()}
    assert {name: sum(endings[name].values()) for name in ("Quick", "Weekly")} == {"Quick": 1, "Weekly": 1}
    assert endings["Weekly"]["tick_failed"] == 1


def test_acks_do_not_wait_for_the_end_of_a_long_job(process, pipeline, monkeypatch):
    """Where no dequeue that could take them along is sent before it, since there seems to be no more to fetch."""
    fetcher, said = process._fetcher, []

    def run(batch):
        said.append(pipeline.methods[2:])
        if len(said) == 2:
            process._child.drain()
        run_really(batch)

    run_really = process._run
    monkeypatch.setattr(process, "_run", run)
    monkeypatch.setattr(process, "_shut_down", lambda: None)
    for name in names(2):
        assert fetcher.dequeue(0.0, 2)
        pipeline.answer(reply(name, bodies=[BODY]))
    process.work()
    assert said == [[], ["ackDequeuedJobs"]]


def test_a_large_result_is_sent_at_once_since_nobody_else_can_send_it(process, pipeline, monkeypatch):
    monkeypatch.setattr(solo_module, "monotonic_ns", lambda: 0)
    assert process._fetcher.dequeue(0.0, 4)
    bodies = [b'{"job":"Answer","size":%d}' % size for size in (1, 2, 50_000, 3)]
    pipeline.answer(reply(*names(4), bodies=bodies))
    process._run(process._fetcher.next_batch())
    sent = [arguments.request.jobsSucceeded for method, arguments, _ in pipeline.sent if method == "ackDequeuedJobs"]
    assert [[len(job.result) - 2 for job in jobs] for jobs in sent] == [[1, 2, 50_000]]
    [held] = process._row.snapshot().batches
    assert held.jobs[-1].result == b'"xxx"'


def test_the_reason_of_a_failure_is_in_the_claim_table_until_its_ack_is_confirmed(process, pipeline):
    assert process._fetcher.dequeue(0.0, 2)
    pipeline.answer(reply(*names(2), bodies=[b'{"job":"Broken"}', BODY]))
    process._run(process._fetcher.next_batch())
    [held] = process._row.snapshot().batches
    failure = Failure.decode(held.jobs[0].failure)
    sent = [arguments.request.jobsFailed for method, arguments, _ in pipeline.sent if method == "ackDequeuedJobs"]
    assert [[job.appendCustomStatus for job in jobs] for jobs in sent] == [[failure.status]]
    assert "ValueError: no" in failure.status
    assert failure.job == "Broken"


@pytest.mark.parametrize("is_retried", [True, False])
def test_failures_acked_by_the_keeper_are_not_sent_again(process, pipeline, is_retried):
    """As when no server was there when the job had failed."""
    assert process._fetcher.dequeue(0.0, 1)
    pipeline.answer(reply(*names(1), bodies=[b'{"job":"Broken"}'], remaining=2 if is_retried else 1))
    batch = process._fetcher.next_batch()
    pipeline.lose()
    process._run(batch)
    batch.area.mark_acked(0, batch.area.fetched_ns)
    process._ack_buffer.drop_acked()
    assert process._ack_buffer.is_empty
    assert batch.area.is_free
    assert bool(process._row.retries_due_ms) is is_retried, "a burst waits for it"
