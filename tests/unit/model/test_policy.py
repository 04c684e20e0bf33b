"""Failure policies: by type of exception in the class, and by job in the enqueue; from the client to the runner."""

from time import monotonic_ns, sleep

import msgspec
import pytest

from pinlater import Constant, Exponential, Job, JobTimeout, Linear, RawJob, Retry
from pinlater.client.jobs import JobEncoder
from pinlater.errors import BodyInvalid, Discard
from pinlater.jobs.body_codec import JobCodec, encode_body
from pinlater.model.backoff import DEFAULT_BACKOFF
from pinlater.model.body_metadata import BodyMetadata, read_metadata, with_policy
from pinlater.model.jobs import JobInfo
from pinlater.model.policy import Policy, make_policy, read_policy
from pinlater.model.state import JobState
from pinlater.testing import LocalServer, run_inline
from pinlater.worker.running.runner import Runner
from pinlater.worker.session.outcome import Failure
from tests.unit.worker.fakes import batch_of, new_row


class RateLimited(ConnectionError):
    pass


class Call(
    Job,
    queue="calls",
    attempts=3,
    backoff=Constant(1),
    backoff_on={RateLimited: Constant(60), OSError: Linear(2, 2), LookupError: Constant(3)},
    give_up_on=(FileNotFoundError, KeyError, ArithmeticError),
):
    what: str = "connection"

    def run(self, context):
        if self.what == "wait":
            sleep(20)
        if context.attempt < 3:
            raise errors[self.what]


errors = {
    "rate": RateLimited(),
    "connection": ConnectionError(),
    "value": ValueError(),
    "index": IndexError(),
    "key": KeyError(),
    "file": FileNotFoundError(),
    "zero": ZeroDivisionError(),
    "retry": Retry(),
    "retry in 7": Retry(after=7),
}


class Raw(RawJob, queue="raw"):
    def run(self, context):
        seen.append(context.options)


seen = []
codec = JobCodec([Call, Raw])


@pytest.fixture
def runner():
    runner = Runner(codec, FakeSaver())
    yield runner
    runner.close()


class FakeSaver:
    is_draining = False
    is_saving = False


def body_of(job, **options):
    return JobEncoder(**options).struct(job).body


def run(runner, body, queue="calls", **about):
    batch = batch_of(f"{queue}:s1:p1:7", bodies=[body], row=new_row(), **about)
    return runner.run(batch, 0, monotonic_ns()), batch


def delay_of(runner, what, **about):
    outcome, _ = run(runner, encode_body(Call(what=what)), **about)
    return "given up" if outcome.delay_ms is None else outcome.delay_ms / 1000


@pytest.mark.parametrize(
    ("what", "seconds"),
    [
        ("rate", 60),
        ("connection", 4),
        ("value", 1),
        ("index", 3),
        ("key", "given up"),
        ("file", "given up"),
        ("zero", "given up"),
        ("retry", 1),
        ("retry in 7", 7),
    ],
)
def test_the_nearest_class_of_an_exception_says_what_happens(runner, what, seconds):
    assert delay_of(runner, what, allowed=3, remaining=2) == seconds


def test_a_narrower_class_is_retried_out_of_a_wider_one_that_is_given_up():
    class Bold(Job, give_up_on=(OSError,), backoff_on={ConnectionError: Constant(5)}):
        pass

    options = Bold.job_options
    assert options.gives_up_on(FileNotFoundError())
    assert not options.gives_up_on(ConnectionResetError())
    assert options.backoff_after(ConnectionResetError()) == Constant(5)
    assert options.backoff_after(ValueError()) == DEFAULT_BACKOFF
    assert options.gives_up_on(Discard("no"))


@pytest.mark.parametrize("bad", [{ValueError: 3}, {int: Constant(1)}, {"ValueError": Constant(1)}, [ValueError], None])
def test_backoffs_are_those_of_exceptions(bad):
    with pytest.raises(TypeError, match=r"backoff_on=.* must be a dict"):
        type(Job)("Impossible", (Job,), {}, backoff_on=bad)


def test_an_exception_is_either_given_up_on_or_waited_for():
    with pytest.raises(TypeError, match="OSError is in both give_up_on and backoff_on"):
        type(Job)("Impossible", (Job,), {}, give_up_on=(OSError,), backoff_on={OSError: Constant(1)})


# By enqueue


@pytest.mark.parametrize("backoff", [Constant(60), Linear(1, 2, cap=9), Exponential(first=2, cap=600, jitter=0)])
def test_a_backoff_travels_with_the_job(backoff):
    body = body_of(Call(), backoff=backoff, timeout=2.5)
    assert read_policy(body) == read_metadata(body).policy == Policy(backoff, 2.5)
    assert codec.decode("calls", body) == Call()


def test_a_job_without_one_has_the_body_that_it_always_had():
    assert body_of(Call(), attempts=9) == encode_body(Call())


def test_it_holds_instead_of_the_classes_backoff(runner):
    body = body_of(Call(what="value"), backoff=Linear(10, 10))
    outcome, batch = run(runner, body, allowed=3, remaining=2)
    assert outcome.delay_ms == 20_000
    assert batch.area.delays[0] == 20_000, "also should the process die"
    outcome, batch = run(runner, encode_body(Call(what="value")), allowed=3, remaining=2)
    assert (outcome.delay_ms, batch.area.delays[0]) == (1000, 1000), "of this job alone"
    assert run(runner, body_of(Call(what="rate"), backoff=Constant(9)))[0].delay_ms == 60_000, "but not of backoff_on"
    assert run(runner, body_of(Call(what="key"), backoff=Constant(9)))[0].delay_ms is None


def test_a_timeout_holds_instead_of_the_classes(runner):
    outcome, batch = run(runner, body_of(Call(what="wait"), timeout=0.1))
    assert isinstance(outcome, Failure)
    assert "JobTimeout: it ran for longer than its timeout of 0.1 s" in outcome.status
    assert batch.area.kill_ns[0] > 0


@pytest.mark.parametrize(
    ("header", "timeout", "hard_seconds"),
    [({}, 50, 60), ({"timeout": 1}, 50, 60), ({"kill_after": 20}, 50, 60), ({"timeout": 1, "kill_after": 70}, 50, 70)],
)
def test_the_hard_limit_follows(header, timeout, hard_seconds):
    kind = type(Job)("Limited", (Job,), {}, **header)
    options = kind.job_options.with_policy(Policy(timeout=timeout))
    assert (options.timeout, options.hard_seconds) == (timeout, hard_seconds)


def test_a_standstill_holds_instead_of_the_classes(runner):
    outcome, _ = run(runner, body_of(Call(what="wait"), stall_after=0.1))
    assert "JobStalled: it gave no sign of progress for 0.1 s" in outcome.status


def test_saved_bodies_keep_it():
    body = body_of(Call(), backoff=Constant(60))
    kept = read_metadata(body)
    kept.steps["a"] = 1
    assert read_policy(encode_body(Call(), kept)) == Policy(Constant(60))
    assert kept.for_next_run(7).policy == Policy(Constant(60)), "also of the next run"


@pytest.mark.parametrize(
    "policy", [b"7", b'{"timeout":-1}', b'{"backoff":{"kind":"mine"}}', b'{"backoff":{"kind":"constant"}}']
)
def test_a_policy_that_cannot_be_read_is_a_failure(runner, policy):
    outcome, _ = run(runner, b'{"job":"Call","$policy":%s}' % policy)
    assert "BodyInvalid: the body has no valid $policy" in outcome.status


def test_text_that_looks_like_one_is_none(runner):
    job = Call(what='"$policy":7')
    errors[job.what] = ValueError()
    assert run(runner, encode_body(job))[0].delay_ms == 1000


class Mine:
    def delay(self, attempts_spent, chance=None):
        return 1.0


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"backoff": Mine()}, "use Constant, Linear or Exponential"),
        ({"backoff": Exponential(cap=float("inf"))}, "must be finite"),
        ({"timeout": 0}, "timeout=0 is in seconds"),
        ({"timeout": float("inf")}, "timeout=inf is in seconds"),
        ({"stall_after": 0}, "stall_after=0 is in seconds"),
    ],
)
def test_what_cannot_travel_is_refused(options, why):
    with pytest.raises(ValueError, match=why):
        JobEncoder(**options)


def test_nothing_said_is_no_policy():
    assert make_policy(timeout=None) is make_policy() is None


def test_a_raw_job_has_no_place_for_it(runner):
    with pytest.raises(BodyInvalid, match="RawJob"):
        body_of(Raw(body=b"{}"), timeout=3)
    run(runner, b'{"$policy":{"timeout":3}}', "raw")
    assert seen == [Raw.job_options]


def test_a_body_gets_one():
    body = with_policy(b' {"job": "Call", "what": "a"}\n', Policy(timeout=3))
    assert codec.decode("calls", body) == Call(what="a")
    assert read_metadata(body) == BodyMetadata(policy=Policy(timeout=3))
    for other in (b"", b"7", b"[]", b"\xff"):
        with pytest.raises(BodyInvalid, match="JSON object"):
            with_policy(other, Policy(timeout=3))


def test_lookups_show_the_policy():
    policy = Policy(Constant(60), 3)
    info = JobInfo("calls:s1:p1:1", JobState.PENDING, 3, 3, body=with_policy(b"{}", policy))
    assert info.policy == policy
    for body in (None, b"", b"{}", b"\xff", b'{"$policy":7}'):
        assert info._replace(body=body).policy is None


def test_backoffs_are_written_with_their_kind():
    written = msgspec.json.decode(msgspec.json.encode(Policy(Constant(60))))
    assert written == {"backoff": {"kind": "constant", "seconds": 60, "jitter": 0}}


def test_inline_it_holds_too():
    with run_inline(Call) as client:
        client.enqueue(Call(what="value"), backoff=Constant(40))
        client.enqueue_many([Call(what="value")], backoff=Constant(50))
        client.assert_succeeded()
    assert [outcome.retry_delay for outcome in client.outcomes] == [40, 40, 0, 50, 50, 0]


def test_on_a_server_it_holds_for_every_attempt(tmp_path):
    with LocalServer(tmp_path) as server:
        handle = server.client(Call).enqueue(Call(what="value"), backoff=Constant(60), timeout=30, attempts=7)
        for _ in range(2):
            [outcome] = server.run_worker(Call)
            assert (outcome.ending, outcome.retry_delay, outcome.attempts_allowed) == ("failed", 60, 7)
            server.advance(58)
            assert server.run_worker(Call) == []
            server.advance(3)
        assert [outcome.ending for outcome in server.run_worker(Call)] == ["succeeded"]
        assert handle.status(include_body=True).policy == Policy(Constant(60), 30)


def test_a_time_out_can_be_waited_for():
    class Patient(Job, backoff_on={JobTimeout: Constant(90)}):
        pass

    assert Patient.job_options.backoff_after(JobTimeout()) == Constant(90)
