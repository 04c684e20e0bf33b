"""Sagas of jobs whose time is over, or that cannot be stored; and of periodic ones."""

from typing import Any

import pytest

from pinlater import Constant, Job, JobInterrupted
from pinlater.testing import LocalServer
from tests.unit.jobs.bookings import book, cancel, done, failures, note, run, undone


@pytest.fixture(autouse=True)
def forget():
    done.clear()
    failures.clear()


class Limited(Job, queue="trips", attempts=9, give_up_after=3600, backoff=Constant(2000)):
    def run(self, context):
        with context.saga() as saga:
            saga.step("book", book, "flight", undo=cancel)
            saga.step("pay", book, "payment", undo=cancel)


@pytest.mark.parametrize("seconds", [2100, 4000], ids=["too late to try again", "handed out too late"])
def test_a_job_whose_time_is_over_undoes_its_sagas(tmp_path, seconds):
    failures["payment"] = 99
    with LocalServer(tmp_path) as server:
        handle = server.client(Limited).enqueue(Limited())
        server.run_worker(Limited)
        server.advance(seconds)
        server.run_worker(Limited)
        assert done == ["flight", *undone("flight")]
        assert handle.status().state.name == "FAILED"


class Sleeps(Job, queue="trips", give_up_after=3600):
    def run(self, context):
        with context.saga() as saga:
            saga.step("book", book, "flight", undo=cancel)
            context.sleep_for(86_400, name="a day")


def test_what_would_sleep_for_too_long_is_undone_because_its_time_is_over():
    client = run(Sleeps())
    assert done == ["flight", *undone("flight")]
    assert "its give_up_after of 3600 s is over" in str(client.outcomes[-1].error)


class Broken(Job, queue="trips", attempts=1):
    note: Any = ""

    def run(self, context):
        with context.saga() as saga:
            saga.step("book", book, "flight", undo=self.refuse)
            note("payment")

    def refuse(self, ticket):
        self.note = object()
        raise JobInterrupted


def test_what_is_left_undone_is_said_once_if_the_job_cannot_even_be_stored():
    failures["payment"] = 1
    client = run(Broken())
    assert client.outcomes[-1].status.count("not undone, and left so") == 1


class Ticks(Job, every=60, attempts=2, backoff=Constant(0)):
    def run(self, context):
        with context.saga() as saga:
            saga.step("book", book, "flight", undo=cancel)
            saga.step("pay", book, "payment", undo=cancel)


def test_a_periodic_job_undoes_and_goes_on_with_its_next_tick(tmp_path):
    failures["payment"] = 2
    with LocalServer(tmp_path) as server:
        server.run_worker(Ticks)
        server.advance(60)
        server.run_worker(Ticks)
        assert done == ["flight", *undone("flight")]
        server.advance(60)
        server.run_worker(Ticks)
        assert done[2:] == ["flight", "payment"]
