"""Sagas: what was done is undone, each once and the last first, if the job gives up; and in no other case."""

import asyncio
import logging
from collections import Counter
from dataclasses import replace
from functools import partial, wraps

import pytest

from pinlater import Constant, Discard, Job, JobFailed, JobInterrupted, SagaUndone, UndoFailed, retrying
from pinlater.errors import BodyInvalid
from pinlater.jobs.job import RawJob
from pinlater.model.body_metadata import read_metadata
from pinlater.model.status import parse_status
from pinlater.testing import FakeContext, killed_everywhere, run_inline
from tests.unit.jobs.bookings import book, book_async, cancel, cancel_async, done, failures, note, run, undone


@pytest.fixture(autouse=True)
def forget():
    done.clear()
    failures.clear()


class Trip(Job, queue="trips", attempts=2, backoff=Constant(0)):
    def run(self, context):
        context.step("plan", note, "plan")
        with context.saga() as saga:
            flight = saga.step("book", book, "flight", undo=cancel)
            saga.step("book", book, f"seat of {flight}", undo=cancel)
            saga.step("look", note, "look")
            saga.step("pay", book, "payment", undo=cancel)
        context.step("mail", note, "mail")


class AsyncTrip(Trip):
    async def run(self, context):
        context.step("plan", note, "plan")
        async with context.saga() as saga:
            flight = await saga.step("book", book_async, "flight", undo=cancel_async)
            await saga.step("book", book_async, f"seat of {flight}", undo=cancel)
            saga.step("look", note, "look")
            await saga.step("pay", book_async, "payment", undo=cancel_async)
        context.step("mail", note, "mail")


FORTH = ["plan", "flight", "seat of ticket of flight", "look"]
BACK = undone("seat of ticket of flight", "flight")


@pytest.fixture(params=[Trip, AsyncTrip])
def kind(request):
    return request.param


def endings(client):
    return [(outcome.ending, outcome.undoes) for outcome in client.outcomes]


def test_a_trip_that_works_undoes_nothing(kind):
    client = run(kind())
    client.assert_succeeded()
    assert done == [*FORTH, "payment", "mail"]


def test_with_attempts_left_the_steps_stay_and_are_continued(kind):
    failures["payment"] = 1
    client = run(kind())
    client.assert_succeeded()
    assert done == [*FORTH, "payment", "mail"]
    assert endings(client) == [("failed", False), ("succeeded", False)]


def test_a_job_that_gives_up_undoes_what_was_done_the_last_first(kind):
    failures["payment"] = 2
    client = run(kind())
    assert done == [*FORTH, *BACK]
    assert endings(client) == [("failed", False), ("failed", True), ("discarded", False)]
    [first, last] = [client.outcomes[1], client.outcomes[-1]]
    assert "OSError: no payment" in first.status
    assert "SagaUndone: the job gave up, and its sagas are undone: OSError: no payment" in last.status
    assert [parse_status(outcome.status)[1][-1].has_undone for outcome in client.outcomes] == [False, False, True]
    with pytest.raises(AssertionError, match="no payment"):
        client.assert_succeeded()


def test_an_undo_that_fails_is_retried(kind):
    failures.update({"payment": 2, BACK[0]: 1, BACK[1]: 1})
    client = run(kind())
    assert done == [*FORTH, *BACK]
    assert [type(outcome.error) for outcome in client.outcomes] == [
        *(OSError, OSError),
        *(UndoFailed, UndoFailed),
        SagaUndone,
    ]
    assert "UndoFailed: cannot undo step 'book#2': OSError: no cancelled" in client.outcomes[2].status


def test_one_that_never_works_is_said_and_the_others_are_undone(kind, caplog):
    failures.update({"payment": 2, BACK[0]: 99})
    client = run(kind())
    assert done == [*FORTH, BACK[1]]
    last = client.outcomes[-1]
    assert last.attempt == last.attempts_allowed == 5
    assert "cannot undo step 'book#2': OSError" in last.status
    assert "not undone, and left so: 'book#2'" in last.status
    assert not parse_status(last.status)[1][-1].has_undone
    assert "gives up to undo 'book#2'" in caplog.text


@pytest.mark.parametrize("trouble", [{"payment": 99}, {"payment": 99, BACK[0]: 1}, {}], ids=["fails", "twice", "works"])
@pytest.mark.parametrize("attempts", [2, 3])
def test_wherever_it_is_killed_each_is_undone_once(kind, trouble, attempts, monkeypatch):
    monkeypatch.setattr(kind, "job_options", replace(kind.job_options, attempts=attempts))
    places = []
    for client in killed_everywhere(kind):
        done.clear()
        failures.clear()
        failures.update(trouble)
        client.enqueue(kind())
        places.append(client.killed_at)
        back = [what for what in done if what.startswith("cancelled")]
        if trouble:
            assert list(dict.fromkeys(back)) == BACK, client.killed_at
            assert isinstance(client.outcomes[-1].error, SagaUndone)
        else:
            client.assert_succeeded()
            assert back == []
        twice = [what for what, number in Counter(done).items() if number > 1]
        is_exact = client.killed_at is None or not client.killed_at.startswith("before save")
        assert len(twice) <= (0 if is_exact else 1), client.killed_at
    assert f"at the end of attempt {attempts}" in places if trouble else "at the end of attempt 1" in places


class Refused(Exception):
    pass


class Catches(Job, queue="trips", attempts=2, backoff=Constant(0), give_up_on=(Refused,)):
    error: str

    def run(self, context):
        try:
            with context.saga() as saga:
                saga.step("book", book, "flight", undo=cancel)
                raise {"discard": Discard, "refused": Refused, "other": OSError}[self.error]("full")
        except (Discard, Refused, OSError, SagaUndone) as error:
            done.append(type(error).__name__)


@pytest.mark.parametrize("error", ["discard", "refused"])
def test_what_is_not_retried_is_undone_at_once_also_if_the_job_catches_it(error):
    client = run(Catches(error=error))
    assert [what for what in done if what.startswith("cancelled")] == undone("flight")
    assert client.outcomes[0].undoes
    assert client.outcomes[0].attempt == 1


def test_a_job_that_catches_what_left_a_saga_is_no_success_before_it_is_undone():
    client = run(Catches(error="other"))
    assert done == ["flight", "OSError", "OSError", "cancelled ticket of flight", "OSError"]
    assert endings(client) == [("failed", False), ("failed", True), ("succeeded", False)]


class Sleepy(Job, queue="trips", attempts=1):
    def run(self, context):
        with context.saga() as saga:
            saga.step("book", book, "flight", undo=cancel)
            context.sleep_for(3600, name="a while")
            saga.step("pay", retrying(book, attempts=2, backoff=Constant(60)), "payment", undo=cancel)


def test_sleeps_and_backoffs_undo_nothing():
    failures["payment"] = 1
    client = run(Sleepy())
    client.assert_succeeded()
    assert done == ["flight", "payment"]


def test_a_drain_undoes_nothing():
    context = FakeContext(Trip(), draining_after=3)
    with pytest.raises(JobInterrupted):
        Trip().run(context)
    assert done == ["plan", "flight"]


def test_only_the_saga_that_failed_is_undone():
    class Two(Job, queue="trips", attempts=1):
        def run(self, context):
            with context.saga() as first:
                first.step("book", book, "first", undo=cancel)
            with context.saga() as outer:
                outer.step("book", book, "outer", undo=cancel)
                with context.saga() as inner:
                    inner.step("book", book, "inner", undo=cancel)
                outer.step("pay", book, "payment", undo=cancel)

    failures["payment"] = 1
    run(Two())
    assert done == ["first", "outer", "inner", *undone("outer")]


def test_when_plain_code_failed_and_works_now_all_is_undone_all_the_same():
    class Fails(Job, queue="trips", attempts=1):
        def run(self, context):
            with context.saga() as saga:
                saga.step("book", book, "flight", undo=cancel)
                note("plain code")

    failures["plain code"] = 1
    client = run(Fails())
    assert done == ["flight", "plain code", *undone("flight")]
    assert isinstance(client.outcomes[-1].error, SagaUndone)


def test_undo_functions_may_be_retried_and_have_steps():
    class Fails(Job, queue="trips", attempts=1):
        def run(self, context):
            def careful(ticket):
                context.step("ask", note, "asked")
                cancel(ticket)

            with context.saga() as saga:
                saga.step("book", book, "flight", undo=retrying(careful, attempts=3, backoff=Constant(60)))
                saga.step("pay", note, "payment")

    failures.update({"payment": 1, "cancelled ticket of flight": 2})
    run(Fails())
    assert done == ["flight", "asked", *undone("flight")]


class Shared(Job, queue="trips", attempts=1):
    async def run(self, context):
        async with context.saga() as saga, asyncio.TaskGroup() as group:
            for name in ("a", "b", "c"):
                group.create_task(saga.step(name, book_async, name, undo=cancel_async))
            group.create_task(saga.step("pay", fails_after_the_others, undo=cancel))


async def fails_after_the_others():
    while len(done) < 3:
        await asyncio.sleep(0)
    raise OSError("no payment")


def test_steps_at_once_are_undone_one_after_the_other():
    run(Shared())
    assert done[:3] == ["a", "b", "c"]
    assert Counter(done[3:]) == Counter(undone("a", "b", "c"))


def test_nothing_new_begins_in_a_job_that_gave_up():
    class Goes(Job, queue="trips", attempts=1):
        def run(self, context):
            with context.saga() as saga:
                saga.step("book", book, "flight", undo=cancel)
                note("payment")
                context.sleep_for(60, name="never")
                context.enqueue(Trip(), name="never")

    failures["payment"] = 1
    client = run(Goes())
    assert done == ["flight", "payment", *undone("flight")]
    assert "SagaUndone" in client.outcomes[-1].status


class Child(Job, queue="trips", attempts=1):
    def run(self, context):
        note("child")


class Calls(Job, queue="trips", attempts=1):
    def run(self, context):
        with context.saga() as saga:
            saga.step("book", book, "flight", undo=cancel)
            context.call(Child(), name="child")


@pytest.mark.parametrize("how_often", [0, 99])
def test_a_called_job_that_fails_makes_its_caller_undo(how_often):
    failures["child"] = how_often
    with run_inline(Calls, Child) as client:
        client.enqueue(Calls())
    assert done == (["flight", *undone("flight")] if how_often else ["flight", "child"])


class Waits(Job, queue="trips", attempts=1):
    def run(self, context):
        with context.saga() as saga:
            saga.step("book", book, "flight", undo=cancel)
            note("payment")
            context.call_all([Child()], name="never")


class WaitsForAnEvent(Waits):
    def run(self, context):
        with context.saga() as saga:
            saga.step("book", book, "flight", undo=cancel)
            note("payment")
            context.wait_for("never")


@pytest.mark.parametrize("waiting", [Waits, WaitsForAnEvent])
def test_a_job_that_gave_up_calls_and_waits_for_nothing(waiting):
    failures["payment"] = 1
    with run_inline(waiting, Child) as client:
        client.enqueue(waiting())
    assert done == ["flight", "payment", *undone("flight")]
    assert isinstance(client.outcomes[-1].error, SagaUndone)


# In tests of users, and mistakes


def test_a_fake_context_gives_up_when_it_is_told_to():
    failures["payment"] = 1
    job = Trip()
    first = FakeContext(job)
    with pytest.raises(OSError, match="no payment"):
        job.run(first)
    assert done == FORTH
    with pytest.raises(SagaUndone, match="no luck"):
        job.run(FakeContext(previous=first, gave_up="no luck"))
    assert done == [*FORTH, *BACK]


def test_the_body_keeps_what_is_to_be_undone_only_while_it_may_be():
    bodies = []

    class Watched(Trip):
        def run(self, context):
            super().run(context)
            bodies.append(context.body.encode())

    run(Watched()).assert_succeeded()
    assert read_metadata(bodies[0]).saga.steps == []


def test_an_undo_that_must_be_awaited_needs_an_async_saga():
    context = FakeContext(Trip())
    with context.saga() as saga, pytest.raises(TypeError, match="write async with"):
        saga.step("book", book, "flight", undo=cancel_async)


def test_a_raw_job_has_no_place_for_it():
    class Raw(RawJob, queue="raw"):
        def run(self, context):
            pass

    with pytest.raises(BodyInvalid, match="no place for a saga"):
        FakeContext(Raw(body=b"")).saga()


class Cheap(Job, queue="trips", attempts=2, backoff=Constant(0)):
    def run(self, context):
        with context.saga() as saga:
            saga.step("book", book, "flight", undo=cancel)
            raise ValueError("too expensive")


def test_a_job_whose_error_comes_again_while_it_undoes_is_said_to_be_given_up(caplog):
    client = run(Cheap())
    assert done == ["flight", *undone("flight")]
    assert endings(client) == [("failed", False), ("failed", True), ("discarded", False)]
    assert "Cheap given up: ValueError: too expensive (its sagas are undone)" in caplog.text
    assert "ValueError: too expensive (its sagas are undone)" in client.outcomes[-1].status
    assert parse_status(client.outcomes[-1].status)[1][-1].has_undone
    assert caplog.text.count("next attempt in") == 1


def test_it_is_logged_that_a_job_undoes(caplog):
    caplog.set_level(logging.WARNING)
    failures["payment"] = 2
    run(Trip())
    assert "Trip gives up; its sagas are undone first" in caplog.text
    assert "Trip given up: SagaUndone" in caplog.text
    assert caplog.text.count("next attempt in") == 1


def test_a_step_outside_the_block_is_refused_since_nothing_would_undo_it():
    context = FakeContext(Trip())
    saga = context.saga()
    with pytest.raises(RuntimeError, match=r"step 'book' is outside .*write: with context\.saga\(\) as saga"):
        saga.step("book", book, "flight", undo=cancel)
    with saga:
        saga.step("book", book, "flight", undo=cancel)
    with pytest.raises(RuntimeError, match="is outside the block"):
        saga.step("pay", book, "payment", undo=cancel)
    assert done == ["flight"]


def test_an_undo_that_was_called_too_early_is_refused_before_the_step():
    with (
        FakeContext(Trip()).saga() as saga,
        pytest.raises(TypeError, match="has to be a function of the step's result"),
    ):
        saga.step("book", book, "flight", undo=note("ticket"))
    assert done == ["ticket"]


@pytest.mark.parametrize("undo", [lambda: None, retrying(lambda: None, attempts=2), cancel.__get__("ticket")])
def test_an_undo_that_does_not_take_the_result_is_refused_before_the_step(undo):
    class Careless(Job, queue="trips", attempts=1):
        def run(self, context):
            with context.saga() as saga:
                saga.step("book", book, "flight", undo=undo)

    with run_inline(Careless) as client:
        handle = client.enqueue(Careless())
        with pytest.raises(JobFailed, match="undo of step 'book' is called with the step's result alone"):
            handle.result(timeout=0)
    assert done == []


def with_session(function):
    @wraps(function)
    def wrapper(ticket):
        return function("session", ticket)

    return wrapper


class ForCheckers:
    """Has a parameter whose type is imported for type checkers only: Python 3.14 then has no signature of it."""

    @property
    def __signature__(self):
        raise NameError("name 'Ticket' is not defined")

    def __call__(self, ticket):
        """Undo it."""


@pytest.mark.parametrize(
    "undo",
    [
        print,
        lambda *_: None,
        lambda ticket, extra=1: None,
        str,
        partial(cancel),
        dict.fromkeys,
        with_session(lambda session, ticket: None),
        ForCheckers(),
    ],
)
def test_an_undo_that_may_take_the_result_is_not_refused(undo):
    with FakeContext(Trip()).saga() as saga:
        saga.step("book", book, "flight", undo=undo)
    assert done == ["flight"]
