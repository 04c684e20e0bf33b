"""run_inline: jobs run at once, as a worker would run them."""

import asyncio
import inspect

import pytest

from pinlater import Client, Discard, Job, JobContext, JobState, Retry
from pinlater.errors import BodyInvalid, ClaimLost, ConfigError, EnqueueRejected
from pinlater.testing import Ending, FakeContext, InlineClient, run_inline
from tests.unit.testing.jobs import Count, Lines, Once, Polite, Report


@pytest.fixture
def client():
    with run_inline(Count, Once, Polite, Report) as client:
        yield client


def endings(client):
    return [(outcome.attempt, str(outcome.ending)) for outcome in client.outcomes]


def test_a_job_has_run_when_enqueue_returns(client):
    job = Count(end=3)
    handle = client.enqueue(job)
    [outcome] = client.outcomes
    assert (outcome.ending, outcome.job.cursor, outcome.error) == (Ending.SUCCEEDED, 3, None)
    assert job.cursor == 0, "what ran was decoded from a body"
    assert handle.descriptor == outcome.descriptor == "counts:s1:p1:1"
    assert handle.wait(timeout=0).state is JobState.SUCCEEDED


def test_what_every_server_refuses_is_refused(client):
    with pytest.raises(EnqueueRejected, match="201 characters"):
        client.enqueue(Count(end=1), unique="x" * 201)
    assert client.outcomes == []
    with pytest.raises(EnqueueRejected, match="the id of the message has 1000 characters"):
        client.enqueue(Count(end=1)).send("go", id="x" * 1000)


def test_a_failed_job_is_tried_again_and_keeps_its_steps(client):
    client.enqueue(Report())
    first, second = client.outcomes
    assert (first.ending, first.retry_delay, type(first.error), first.runs_again) == ("failed", 5.0, OSError, True)
    assert "the printer is on fire" in first.status
    assert second.ending == "succeeded"
    assert second.job.log == ["rows [1, 2, 3]", "rows [1, 2, 3]", "total 6"], "it went on from what the step sum saved"


def test_attempts_end(client):
    handle = client.enqueue(Polite(word="fail"), attempts=2)
    assert endings(client) == [(1, "failed"), (2, "failed")]
    assert not client.outcomes[-1].runs_again
    info = handle.status(include_body=True)
    assert (info.state, info.attempts_remaining, info.body) == (JobState.FAILED, 0, b'{"job":"Polite","word":"fail"}')
    assert info.status.count("ValueError: never") == 2


class AskInVain(Job, queue="questions", attempts=1):
    async def run(self, context: JobContext) -> None:
        raise ValueError("no answer")


def test_the_traceback_of_an_async_job_begins_with_its_own_error():
    with run_inline(AskInVain) as client:
        client.enqueue(AskInVain())
        [outcome] = client.outcomes
    assert isinstance(outcome.error, ValueError)
    assert outcome.error.__context__ is None


def test_retry_and_discard(client):
    client.enqueue(Polite(word="retry"))
    client.enqueue(Polite(word="discard"))
    assert endings(client) == [(1, "failed"), (2, "failed"), (3, "succeeded"), (1, "discarded")]
    assert (client.outcomes[0].retry_delay, type(client.outcomes[0].error)) == (30.0, Retry)
    assert (type(client.outcomes[3].error), client.outcomes[3].runs_again) == (Discard, False)


def test_an_interrupted_job_goes_on_and_no_attempt_is_spent(client):
    client.enqueue(Once())
    assert endings(client) == [(1, "interrupted"), (1, "succeeded")]
    assert client.outcomes[0].body == b'{"job":"Once","was_interrupted":true}'


def test_delays_are_not_waited_for_but_noted(client):
    handle = client.enqueue(Count(end=1), run_at=4_000_000_000, priority=3, status="mine")
    info = handle.status()
    assert (info.run_after_ms, info.status) == (4_000_000_000_000, "mine")
    assert handle.descriptor == "counts:s1:p3:1"
    client.assert_succeeded()


def test_what_does_not_succeed_is_told(client):
    client.enqueue(Count(end=1))
    client.enqueue(Polite(word="fail"))
    with pytest.raises(AssertionError, match=r"1 of 2 jobs did not succeed\n.*polite:s1:p1:2: .*never") as caught:
        client.assert_succeeded()
    assert isinstance(caught.value.__cause__, ValueError)


def test_a_test_that_enqueues_nothing_proves_nothing(client):
    with pytest.raises(AssertionError, match="no job was enqueued"):
        client.assert_succeeded()


def test_enqueue_many(client):
    stored = []
    assert client.enqueue_many((Count(end=n) for n in range(3)), queue="other", progress=stored.append) == 3
    assert (stored, len(client.outcomes), client.outcomes[0].descriptor) == ([1, 2, 3], 3, "other:s1:p1:1")


def test_each_of_many_jobs_may_have_a_key(client):
    jobs = (Count(end=n) for n in (1, 1, 2))
    with pytest.raises(TypeError, match="unique='all' would store one of the jobs only; give a function that returns"):
        client.enqueue_many(jobs, unique="all")
    assert client.enqueue_many(jobs, unique=lambda job: f"count to {job.end}") == 3


def test_options_are_checked_as_a_client_checks_them(client):
    with pytest.raises(ValueError, match="attempts=0"):
        client.enqueue(Count(end=1), attempts=0)


@pytest.mark.parametrize("name", ["enqueue", "enqueue_many"])
def test_it_can_stand_where_a_client_stands(name, client):
    assert isinstance(client, Client)
    assert inspect.signature(getattr(InlineClient, name)) == inspect.signature(getattr(Client, name))


def test_what_needs_a_server_says_so(client):
    client.create_queue("counts")
    with pytest.raises(RuntimeError, match="getJobCount; use pinlater_server"):
        client.count("counts", JobState.PENDING)


def test_a_job_of_another_class_fails_where_it_is_enqueued(client):
    with pytest.raises(BodyInvalid, match="known: Count") as caught:
        client.enqueue(Lines(body=b'{"job":"Lines"}'))
    assert "run_inline(…) takes every class" in caught.value.__notes__[0]
    with pytest.raises(BodyInvalid, match="does not fit its class Count: end: expected int, got str") as caught:
        client.enqueue(Count(end="many"))
    assert not hasattr(caught.value, "__notes__")
    assert client.outcomes == []


def test_two_classes_of_one_name_are_refused():
    class Count(Job):
        def run(self, context): ...

    with pytest.raises(ConfigError), run_inline(Count, *[type(job) for job in (Once(), globals()["Count"](end=1))]):
        pass


chain_client = None


class Chain(Job):
    """Enqueues jobs while it runs."""

    depth: int
    trail: str = ""

    async def run(self, context: JobContext) -> None:
        if self.depth:
            before = len(chain_client.outcomes)
            chain_client.enqueue(Chain(depth=self.depth - 1, trail=self.trail + "a"))
            chain_client.enqueue(Chain(depth=0, trail=self.trail + "b"))
            assert len(chain_client.outcomes) == before, "they wait for us"


def test_jobs_of_jobs_run_afterwards_in_order(monkeypatch):
    with run_inline(Chain) as client:
        monkeypatch.setitem(globals(), "chain_client", client)
        client.enqueue(Chain(depth=2))
        client.assert_succeeded()
        assert [outcome.job.trail for outcome in client.outcomes] == ["", "a", "b", "aa", "ab"]


def test_a_chain_without_end_is_noticed(monkeypatch):
    with run_inline(Chain, most_runs=20) as client:
        monkeypatch.setitem(globals(), "chain_client", client)
        with pytest.raises(AssertionError, match="20 attempts"):
            client.enqueue(Chain(depth=1000))
        assert len(client.outcomes) == 20


class Aborts(Job):
    def run(self, context: JobContext) -> None:
        pytest.fail("seen from within a job")


class Refresh(Job):
    account: int
    depth: int = 0

    def run(self, context: JobContext) -> None:
        for _ in range(2):
            chain_client.enqueue(Refresh(account=self.account), unique="mine")
            chain_client.enqueue(Refresh(account=self.account), unique="mine", unique_until="finished")
        if self.depth:
            chain_client.enqueue(Refresh(account=self.account + 1), unique="next")


def test_keys_are_good_for_one_job_at_a_time(monkeypatch):
    with run_inline(Refresh) as client:
        monkeypatch.setitem(globals(), "chain_client", client)
        first = client.enqueue(Refresh(account=1, depth=1), unique="mine")
        assert [outcome.job.account for outcome in client.outcomes] == [1, 2, 2]
        assert client.enqueue(Refresh(account=3), unique="other").descriptor != first.descriptor
        assert client.enqueue(Refresh(account=1), unique="mine").descriptor != first.descriptor, "it has finished"


class Follows(Job, queue="follows"):
    depth: int = 0

    def run(self, context):
        if self.depth:
            for _ in range(2):
                chain_client.enqueue(Follows(), unique="mine", unique_until="started")


def test_a_key_until_the_start_is_free_while_its_job_runs(monkeypatch):
    with run_inline(Follows) as client:
        monkeypatch.setitem(globals(), "chain_client", client)
        client.enqueue(Follows(depth=1), unique="mine")
        assert [outcome.job.depth for outcome in client.outcomes] == [1, 0]


def test_a_key_for_a_time_is_taken_when_its_job_has_finished():
    with run_inline(Follows) as client:
        first = client.enqueue(Follows(), unique="mine", unique_for=3600)
        assert client.enqueue(Follows(), unique="mine", unique_until="started").descriptor == first.descriptor
        assert client.enqueue(Follows(), unique="yours").descriptor != first.descriptor
        assert len(client.outcomes) == 2


def test_a_key_for_a_time_is_free_when_the_time_has_passed():
    with run_inline(Follows) as client:
        first = client.enqueue(Follows(), unique="mine", unique_for=3600)
        client.advance(3599)
        assert client.enqueue(Follows(), unique="mine").descriptor == first.descriptor
        client.advance(1)
        assert client.enqueue(Follows(), unique="mine").descriptor != first.descriptor


def test_a_key_for_a_time_is_taken_although_its_job_was_deleted_after_its_end():
    with run_inline(Follows) as client:
        first = client.enqueue(Follows(), unique="mine", unique_for=3600)
        assert client.delete_these("follows", [first.descriptor], JobState.SUCCEEDED) == 1
        assert client.enqueue(Follows(), unique="mine").descriptor == first.descriptor


def test_jobs_are_enqueued_at_the_time_of_the_client():
    with run_inline(Count) as client:
        client.advance(3600)
        early = client.enqueue(Count(end=1))
        late = client.enqueue(Count(end=1), delay=60, give_up_after=600)
        assert late.status().run_after_ms >= early.status().created_at_ms + 60_000
        client.assert_succeeded()


class Replaces(Job, queue="follows"):
    depth: int = 0

    def run(self, context):
        for depth in range(self.depth):
            chain_client.enqueue(Replaces(depth=-depth), unique="mine", on_duplicate="replace")


def test_a_waiting_job_is_replaced(monkeypatch):
    with run_inline(Replaces) as client:
        monkeypatch.setitem(globals(), "chain_client", client)
        client.enqueue(Replaces(depth=3), unique="other")
        assert [outcome.job.depth for outcome in client.outcomes] == [3, -2]


class Debounces(Job, queue="follows"):
    max_delay: float | None

    def run(self, context):
        for number in range(3):
            chain_client.enqueue(
                Follows(),
                unique="mine",
                on_duplicate="debounce",
                delay=5,
                max_delay=self.max_delay,
                status=f"number {number}",
            )
            chain_client.advance(2)


@pytest.mark.parametrize(("max_delay", "due_seconds"), [(8, 8), (None, 9)])
def test_a_waiting_job_is_put_off_as_far_as_it_may(monkeypatch, max_delay, due_seconds):
    with run_inline(Debounces, Follows) as client:
        monkeypatch.setitem(globals(), "chain_client", client)
        client.enqueue(Debounces(max_delay=max_delay))
        [_, follows] = client.outcomes
        info = client.handle(follows.descriptor).status()
        assert info.status.startswith("number 2")
        assert (info.run_after_ms - info.created_at_ms) // 1000 == due_seconds


class Withdraws(Job, queue="follows"):
    def run(self, context):
        chain_client.enqueue(Follows(), unique="mine", unique_for=3600).cancel()
        chain_client.enqueue(Follows(), unique="mine", unique_for=3600)


def test_a_key_for_a_time_is_free_when_its_job_was_cancelled_before_it_began(monkeypatch):
    with run_inline(Withdraws, Follows) as client:
        monkeypatch.setitem(globals(), "chain_client", client)
        client.enqueue(Withdraws())
        assert [outcome.descriptor for outcome in client.outcomes] == ["follows:s1:p1:1", "follows:s1:p1:3"]


class Changes(Job, queue="follows"):
    def run(self, context):
        one = chain_client.enqueue(Follows(), unique="mine", status="one")
        one.cancel("cancelled")
        chain_client.enqueue(Follows(depth=0), unique="mine", on_duplicate="replace", status="two")


def test_a_cancelled_job_is_not_replaced(monkeypatch):
    with run_inline(Changes, Follows) as client:
        monkeypatch.setitem(globals(), "chain_client", client)
        client.enqueue(Changes())
        statuses = [client.handle(f"follows:s1:p1:{number}").status().status for number in (2, 3)]
        assert [status.startswith(word) for status, word in zip(statuses, ("one", "two"), strict=True)] == [True, True]


class Books(Job, queue="books", attempts=4):
    def run(self, context):
        with context.saga() as saga:
            saga.step("book", dict, undo=print)
        context.reschedule(after=60)


def test_the_next_run_has_the_attempts_of_the_job():
    with run_inline(Books) as client:
        info = client.enqueue(Books()).status()
        assert (info.state, info.attempts_allowed, info.attempts_remaining) == (JobState.PENDING, 4, 4)


class Deletes(Job, queue="deletes", attempts=2):
    how: str

    def run(self, context):
        chain_client.delete_these("deletes", [context.descriptor], JobState.IN_PROGRESS)
        if self.how == "save":
            context.checkpoint(flush=True)
            raise AssertionError("it does not get here")
        if self.how == "fail":
            raise ValueError("never again")


@pytest.mark.parametrize(("how", "ending"), [("save", "lost"), ("fail", "failed"), ("return", "succeeded")])
def test_a_job_may_be_deleted_while_it_runs(monkeypatch, how, ending):
    with run_inline(Deletes) as client:
        monkeypatch.setitem(globals(), "chain_client", client)
        handle = client.enqueue(Deletes(how=how))
        assert endings(client) == [(1, ending)]
        assert (client.outcomes[0].error is None) == (how == "return")
        assert how != "save" or isinstance(client.outcomes[0].error, ClaimLost)
        assert client.lookup([handle.descriptor]) == {}


def test_what_is_meant_for_the_test_reaches_it():
    with run_inline(Aborts, Count) as client:
        with pytest.raises(pytest.fail.Exception, match="within a job"):
            client.enqueue(Aborts())
        client.enqueue(Count(end=1))
        assert [outcome.ending for outcome in client.outcomes] == ["succeeded"]


def test_names_of_the_kit():
    import pinlater.testing

    for name in pinlater.testing.__all__:
        assert getattr(pinlater.testing, name).__name__ == name
    assert pinlater.testing.FakeContext is FakeContext
    with pytest.raises(AttributeError):
        pinlater.testing.Nothing  # noqa: B018


def test_files_for_tls_in_the_environment_are_not_its_business(monkeypatch):
    monkeypatch.setenv("PINLATER_TLS_CA", "/nowhere/ca.pem")
    with run_inline(Count) as client:
        client.enqueue(Count(end=3))
        client.assert_succeeded()


class Calls(Job, queue="calls"):
    def run(self, context):
        context.call_all([Waits(), Waits()], name="waits")


class Waits(Job, queue="calls"):
    ends: bool = False

    def run(self, context):
        if self.ends:
            assert chain_client.handle(context.descriptor).cancel("while it ran")
        else:
            context.wait_for("never")


def test_a_cancellation_counts_and_tells_what_that_of_a_server_does(monkeypatch):
    with run_inline(Calls, Waits) as client:
        monkeypatch.setitem(globals(), "chain_client", client)
        parent = client.enqueue(Calls()).descriptor
        assert client.cancel_these("calls", [parent, parent], status="no more") == 3
        assert client.cancel_these("calls", [parent], status="no more") == 1, "it is cancelled"
        assert client.handle(parent).status().status == "no more"
        assert client.handle("calls:s1:p1:2").status().status == "cancelled with its parent\n"
        succeeded = client.enqueue(Waits(ends=True))
        info = succeeded.status()
        assert (info.state, info.is_cancelled, succeeded.cancel()) == (JobState.SUCCEEDED, False, False)


def test_a_job_that_has_not_begun_can_be_cancelled():
    class Cancelling(Job, queue="counts"):
        def run(self, context):
            follow_up = context.enqueue(Count(end=1), name="count", unique="only one")
            assert client.handle(follow_up).cancel(), "it waits for this one to end"
            assert client.handle(follow_up).status().is_cancelled

    with run_inline(Cancelling, Count) as client:
        client.enqueue(Cancelling())
        assert [type(outcome.job) for outcome in client.outcomes] == [Cancelling]
        client.enqueue(Count(end=1), unique="only one")
        assert [outcome.descriptor for outcome in client.outcomes] == ["counts:s1:p1:1", "counts:s1:p1:3"]


@pytest.mark.parametrize("given", [[Refresh], "Refresh", Discard], ids=["list", "text", "another class"])
def test_what_is_no_class_is_refused_in_words(given, local_server):
    refusal = "is no job class; give classes that inherit from Job, one by one"
    with pytest.raises(TypeError, match=refusal), run_inline(given):
        pass
    for take in (local_server.run_worker, local_server.client):
        with pytest.raises(TypeError, match=refusal):
            take(given)


def test_async_jobs_run_in_a_test_that_is_async_itself(client, local_server):
    async def test():
        client.enqueue(Polite(word="retry"))
        local_server.client(Polite).enqueue(Polite(word="well"))
        return local_server.run_worker(Polite)

    [outcome] = asyncio.run(test())
    assert outcome.ending == "succeeded"
    assert endings(client) == [(1, "failed"), (2, "failed"), (3, "succeeded")]
