"""Follow-up jobs: each is enqueued once in a run of the job that wants it."""

from time import monotonic_ns

import pytest

from pinlater import Constant, Job, RawJob
from pinlater.errors import BodyInvalid, QueueNotFound, ServerUnavailable
from pinlater.jobs.body_codec import JobCodec, encode_body
from pinlater.jobs.follow_ups import follow_up_key, idempotency_key
from pinlater.model.body_metadata import BodyMetadata, Recurrence, read_metadata
from pinlater.model.policy import Policy, read_policy
from pinlater.testing import FakeContext, LocalServer, run_inline
from pinlater.worker.running.run_context import RunContext
from pinlater.worker.running.run_services import DEFAULT_SERVICES, RunServices
from pinlater.worker.running.runner import Runner
from pinlater.worker.session.outcome import Failure
from tests.support.savers import InBody
from tests.unit.worker.fakes import batch_of, new_row


class Mail(Job, queue="mail", attempts=7, priority=2):
    to: str = "ada"

    def run(self, context):
        sent.append(self.to)


class Bill(Job, queue="bills", attempts=3):
    months: int = 2

    def run(self, context):
        for month in range(self.months):
            context.enqueue(Mail(to=f"month {month}"), name="month")
        context.enqueue(Mail(to="boss"), name="boss", delay=3600)
        if context.attempt < 3:
            raise ValueError("not yet")


class Raw(RawJob, queue="raw"):
    def run(self, context):
        context.enqueue(Mail(), name="a")


sent = []


@pytest.fixture(autouse=True)
def forget():
    sent.clear()


class Saver(InBody):
    is_draining = False

    def __init__(self):
        self.said = []
        self.keys = []
        self.refusal = None

    def save(self, batch, position, encode):
        self.said.append(read_metadata(encode().body).enqueued)
        return True

    def enqueue(self, follow_up):
        if self.refusal is not None:
            raise self.refusal
        [job] = follow_up.jobs
        self.said.append((follow_up.queue, job))
        self.keys.append(follow_up[2:])
        return [f"{follow_up.queue}:s1:p1:{len(self.said)}"]


def worker_context(job, body=None, saver=None, services=DEFAULT_SERVICES):
    return RunContext(job, batch_of("bills:s1:p1:7", bodies=[body or encode_body(job)]), 0, saver or Saver(), services)


@pytest.fixture
def saver():
    return Saver()


def test_a_follow_up_is_sent_and_kept(saver):
    context = worker_context(Bill(), saver=saver)
    descriptor = context.enqueue(Mail(to="bob"), name="bob", attempts=2, run_at=5.0)
    (queue, struct), kept = saver.said
    assert (queue, struct.body, struct.priority) == ("mail", b'{"job":"Mail","to":"bob"}', 2)
    assert (struct.numAttemptsAllowed, struct.runAfterTimestampMillis) == (2, 5000)
    assert struct.uniqueKey == "bills:s1:p1:7/0/bob"
    assert kept == {"bob": descriptor} == read_metadata(context.body.encode()).enqueued


def test_a_delay_counts_from_the_time_of_the_server(saver):
    context = worker_context(Bill(), saver=saver, services=RunServices(now=lambda: 2_000_000_000.0))
    context.enqueue(Mail(), name="a", delay=60)
    assert saver.said[0][1].runAfterTimestampMillis == 2_000_000_060_000


def test_a_follow_up_may_have_a_policy(saver):
    worker_context(Bill(), saver=saver).enqueue(Mail(), name="a", backoff=Constant(60), timeout=30)
    assert read_policy(saver.said[0][1].body) == Policy(Constant(60), 30)


@pytest.mark.parametrize("kind", [worker_context, FakeContext])
def test_a_policy_that_cannot_travel_is_refused(kind):
    with pytest.raises(ValueError, match="timeout=0"):
        kind(Bill()).enqueue(Mail(), name="a", timeout=0)


def test_a_later_attempt_does_not_send_it_again(saver):
    first = worker_context(Bill())
    descriptors = [first.enqueue(Mail(), name="a") for _ in range(2)]
    second = worker_context(Bill(), body=first.body.encode(), saver=saver)
    assert [second.enqueue(Mail(), name="a") for _ in range(2)] == descriptors
    assert saver.said == []
    second.enqueue(Mail(), name="a")
    assert saver.said[0][1].uniqueKey == "bills:s1:p1:7/0/a#3"


def test_one_that_was_sent_and_not_kept_is_sent_with_the_same_key(saver):
    for _ in range(2):
        worker_context(Bill(), saver=saver).enqueue(Mail(), name="a")
    assert saver.said[0][1].uniqueKey == saver.said[2][1].uniqueKey
    assert saver.keys[0] == saver.keys[1]


def test_each_run_has_its_own(saver):
    body = encode_body(Bill(), BodyMetadata(recurrence=Recurrence(1, run=4)))
    worker_context(Bill(), body=body, saver=saver).enqueue(Mail(), name="a")
    assert saver.said[0][1].uniqueKey == "bills:s1:p1:7/4/a"
    worker_context(Bill(), saver=saver).enqueue(Mail(), name="a")
    worker_context(Bill(), saver=saver).enqueue(Mail(), name="b")
    assert len({key for key, _ in saver.keys}) == 3
    assert {len(key) for key, _ in saver.keys} == {16}


def test_a_follow_up_may_have_a_key_of_its_own_and_is_known_again_all_the_same(saver):
    for key in (None, "report of May"):
        worker_context(Bill(), saver=saver).enqueue(Mail(), name="a", unique=key)
    assert saver.said[2][1].uniqueKey == "report of May"
    assert saver.keys[0] == saver.keys[1]


def test_jobs_of_another_store_have_other_follow_ups():
    here, there = (idempotency_key("bills:s1:p1:7/0/a", moment) for moment in (1, 2))
    assert here != there
    assert {len(idempotency_key("a", moment)) for moment in (None, -1, 2**63)} == {16}


@pytest.mark.parametrize("refusal", [QueueNotFound("mail"), ServerUnavailable("gone")])
def test_what_no_server_took_is_an_error_and_not_kept(saver, refusal):
    saver.refusal = refusal
    codec = JobCodec([Bill])
    batch = batch_of("bills:s1:p1:7", bodies=[encode_body(Bill())], row=new_row())
    outcome = Runner(codec, saver).run(batch, 0, monotonic_ns())
    assert isinstance(outcome, Failure)
    assert type(refusal).__name__ in outcome.status
    assert saver.said == []


@pytest.fixture(params=[worker_context, FakeContext])
def kind(request):
    return request.param


def test_bad_options_are_refused(kind):
    context = kind(Bill())
    with pytest.raises(ValueError, match="delay"):
        context.enqueue(Mail(), name="a", delay=-1)
    with pytest.raises(ValueError, match="without #number"):
        context.enqueue(Mail(), name="a#2")
    with pytest.raises(ValueError, match="too long, 200 characters"):
        context.enqueue(Mail(), name="a" * 200)
    with pytest.raises(BodyInvalid):
        context.enqueue(Mail(to=object()), name="b")


def test_keys_fit_the_longest_queue_name():
    assert len(follow_up_key(f"{'q' * 58}:s99d9:p99:{2**63 - 1}", 10**9, "a name of some length")) <= 200


def test_a_raw_job_has_no_follow_ups(kind):
    job = Raw(body=b"\xff")
    with pytest.raises(BodyInvalid, match="RawJob"):
        job.run(kind(job))


def test_the_fake_context_notes_them():
    context = FakeContext(attempt=3)
    job = Bill()
    job.run(context)
    assert {name: mail.to for name, mail in context.enqueued.items()} == {
        "month": "month 0",
        "month#2": "month 1",
        "boss": "boss",
    }
    assert len(context.checkpoints) == 3
    again = FakeContext(attempt=3, enqueued=context.enqueued)
    job.run(again)
    assert again.checkpoints == []
    assert again.enqueued == context.enqueued


def test_the_fake_context_gives_each_a_descriptor():
    context = FakeContext(Bill())
    first, second = (context.enqueue(Mail(), name=name) for name in "ab")
    assert first != second
    assert first.startswith("mail:")
    assert FakeContext(Bill(), enqueued=context.enqueued).enqueue(Mail(), name="b") == second


def test_inline_they_run_once_after_their_parent():
    with run_inline(Bill, Mail) as client:
        client.enqueue(Bill())
        client.assert_succeeded()
    assert sent == ["month 0", "month 1", "boss"]
    assert [outcome.job.job_options.name for outcome in client.outcomes] == ["Bill"] * 3 + ["Mail"] * 3


def test_on_a_real_server_they_are_enqueued_once(tmp_path):
    with LocalServer(tmp_path) as server:
        server.client(Bill, Mail).enqueue(Bill())
        server.run_worker(Bill)
        server.advance(60)
        server.run_worker(Bill)
        server.advance(60)
        server.run_worker(Bill)
        server.run_worker(Mail)
        assert sent == ["month 0", "month 1"]
        server.advance(3600)
        server.run_worker(Mail)
        assert sent == ["month 0", "month 1", "boss"]
