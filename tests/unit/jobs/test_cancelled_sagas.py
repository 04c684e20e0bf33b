"""A cancelled job undoes what its open sagas did, each once and the last first, before it ends."""

from collections import Counter
from contextlib import suppress

import pytest

from pinlater import Constant, Job, JobCancelled, JobState, SagaUndone, retrying
from pinlater.testing import LocalServer, killed_everywhere, run_inline
from tests.unit.jobs.test_sagas import book, book_async, cancel, cancel_async, done, failures, undone

BACK = undone("hotel", "flight")
cancelling = []
"""Clients by which the jobs cancel themselves."""


def cancel_now(descriptor):
    while cancelling:
        cancelling.pop().handle(descriptor).cancel("not needed;")


class Trip(Job[str], queue="trips", attempts=2, backoff=Constant(0)):
    waits: bool = False

    def run(self, context):
        try:
            with context.saga() as saga:
                saga.step("book", book, "flight", undo=cancel)
                saga.step("book", book, "hotel", undo=cancel)
                if self.waits:
                    context.wait_for("approval")
                else:
                    context.step("cancel", cancel_now, context.descriptor)
                saga.step("pay", book, "payment", undo=cancel)
        except JobCancelled:
            done.append("heard")
            raise
        return "travelled"


class AsyncTrip(Trip):
    async def run(self, context):
        async with context.saga() as saga:
            await saga.step("book", book_async, "flight", undo=cancel_async)
            await saga.step("book", book_async, "hotel", undo=cancel_async)
            if self.waits:
                context.wait_for("approval")
            else:
                context.step("cancel", cancel_now, context.descriptor)
            await saga.step("pay", book_async, "payment", undo=cancel_async)
        return "travelled"


@pytest.fixture(autouse=True)
def forget():
    done.clear()
    failures.clear()
    cancelling.clear()


@pytest.fixture(params=[Trip, AsyncTrip])
def kind(request):
    return request.param


def is_cancelled(handle):
    found = handle.status()
    return found.state is JobState.FAILED and found.is_cancelled


def ran():
    return [what for what in done if what != "heard"]


def test_one_that_runs_undoes_and_then_ends(kind):
    with run_inline(kind) as client:
        cancelling.append(client)
        handle = client.enqueue(kind())
        assert ran() == ["flight", "hotel", *BACK]
        assert is_cancelled(handle)
        assert "not needed;" in handle.status().status
    assert [outcome.undoes for outcome in client.outcomes] == [True, False]
    assert "SagaUndone: the job gave up, and its sagas are undone: it was cancelled" in client.outcomes[-1].status


@pytest.mark.parametrize("trouble", [0, 2], ids=["at once", "in the third attempt"])
def test_one_that_waits_undoes_and_begins_nothing_more(kind, trouble):
    failures[BACK[1]] = trouble
    with run_inline(kind) as client:
        handle = client.enqueue(kind(waits=True))
        assert ran() == ["flight", "hotel"]
        assert handle.cancel()
        assert ran() == ["flight", "hotel", *BACK]
        assert is_cancelled(handle)


def test_a_saga_that_has_ended_well_is_not_undone():
    class Later(Job, queue="trips"):
        def run(self, context):
            with context.saga() as saga:
                saga.step("book", book, "flight", undo=cancel)
            context.wait_for("approval")

    with run_inline(Later) as client:
        handle = client.enqueue(Later())
        assert handle.cancel()
        assert is_cancelled(handle)
    assert done == ["flight"]


class Counts(Job, queue="trips", attempts=2, backoff=Constant(0)):
    def run(self, context):
        context.checkpoint(flush=True)
        with context.saga() as saga:
            saga.step("book", book, "flight", undo=cancel)
            context.checkpoint(flush=True)
            saga.step("book", book, "hotel", undo=cancel)
            context.step("cancel", cancel_now, context.descriptor)
            for number in range(10):
                done.append(f"count {number}")
                context.checkpoint(flush=True)


def test_one_that_checkpoints_goes_past_all_that_it_has_to_undo_and_no_further():
    with run_inline(Counts) as client:
        cancelling.append(client)
        handle = client.enqueue(Counts())
        assert is_cancelled(handle)
    assert ran() == ["flight", "hotel", "count 0", *BACK]


def test_one_that_catches_what_says_that_all_is_undone_is_cancelled_all_the_same():
    class Stoic(Trip, queue="trips"):
        def run(self, context):
            with suppress(SagaUndone):
                return super().run(context)

    with run_inline(Stoic) as client:
        cancelling.append(client)
        handle = client.enqueue(Stoic())
        assert ran() == ["flight", "hotel", *BACK]
        assert is_cancelled(handle)


@pytest.mark.parametrize("waits", [False, True], ids=["running", "waiting"])
@pytest.mark.parametrize("trouble", [{}, {BACK[0]: 1}], ids=["works", "fails once"])
def test_wherever_it_is_killed_each_is_undone_once(kind, waits, trouble):
    places = []
    for client in killed_everywhere(kind):
        done.clear()
        failures.clear()
        failures.update(trouble)
        cancelling[:] = [client]
        handle = client.enqueue(kind(waits=waits), attempts=3)
        if waits:
            handle.cancel()
        places.append(client.killed_at)
        back = [what for what in done if what.startswith("cancelled")]
        assert list(dict.fromkeys(back)) == BACK, client.killed_at
        assert "ticket of payment" not in done
        assert is_cancelled(handle), client.killed_at
        twice = [what for what, number in Counter(ran()).items() if number > 1]
        is_exact = client.killed_at is None or not client.killed_at.startswith("before save")
        assert len(twice) <= (0 if is_exact else 1), client.killed_at
    assert "at the end of attempt 1" in places


def test_on_a_server_it_is_cancelled_while_it_sleeps_and_again_while_it_undoes(kind, tmp_path):
    failures[BACK[0]] = 1
    with LocalServer(tmp_path) as server:
        client = server.client(kind)
        handle = client.enqueue(kind(waits=True))
        server.run_worker(kind)
        assert handle.cancel()
        assert handle.status().state is JobState.PENDING
        first, second = (server.run_worker(kind, until_empty=False)[0] for _ in range(2))
        assert (first.undoes, second.undoes, second.ending) == (True, False, "failed")
        assert handle.cancel(), "it is on its way"
        server.run_worker(kind)
        assert ran() == ["flight", "hotel", *BACK]
        assert is_cancelled(handle)


class PatientTrip(Job, queue="trips", attempts=2):
    def run(self, context):
        with context.saga() as saga:
            saga.step("book", book, "flight", undo=retrying(cancel, attempts=3, backoff=Constant(60)))
            context.wait_for("approval")


def test_on_a_server_an_undo_is_retried_after_its_backoff(tmp_path):
    with LocalServer(tmp_path) as server:
        handle = server.client(PatientTrip).enqueue(PatientTrip())
        server.run_worker(PatientTrip)
        handle.cancel()
        failures["cancelled ticket of flight"] = 2
        for _ in range(2):
            server.run_worker(PatientTrip)
            assert ran() == ["flight"]
            assert server.run_worker(PatientTrip) == []
            server.advance(61)
        server.run_worker(PatientTrip)
        assert ran() == ["flight", *undone("flight")]
        assert is_cancelled(handle)


def test_on_a_server_one_that_undoes_for_a_failure_is_cancelled(kind, tmp_path):
    failures.update({"payment": 2, BACK[0]: 1})
    with LocalServer(tmp_path) as server:
        handle = server.client(kind).enqueue(kind())
        outcomes = [server.run_worker(kind, until_empty=False)[0] for _ in range(3)]
        assert [outcome.undoes for outcome in outcomes] == [False, True, False]
        assert handle.cancel()
        server.run_worker(kind)
        assert ran() == ["flight", "hotel", *BACK]
        assert is_cancelled(handle)
