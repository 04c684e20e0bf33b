"""How a worker hears at once which of its jobs were cancelled."""

import queue

import pytest

from pinlater.client.servers import ServerSet
from pinlater.errors import NoHealthyShards, StaleClaims
from pinlater.protocol.messages import PinLaterCancelledJobs
from pinlater.worker.claim_table.snapshot import RUNNING, Identity
from pinlater.worker.claim_table.table import ClaimTable
from pinlater.worker.keeper import cancel_watch
from pinlater.worker.keeper.cancel_watch import CancelWatch
from tests.support.server import wait_for
from tests.unit.client.fake_server import FakeServer
from tests.unit.worker.fakes import FakeChild, names

FIRST, SECOND, THIRD = names(3)


class Service:
    """A server that tells of ``cancelled`` jobs what the test puts into ``told``."""

    def __init__(self):
        self.told = queue.Queue()
        self.cancelled = set()
        self.moments = []
        self.renewed = []
        self.server = FakeServer(self._answer)

    def _answer(self, call):
        request = call.arguments.request
        if call.method == "getCancelledJobs":
            self.moments.append(request.sinceTimestampMillis)
            told = self.told.get()
            return PinLaterCancelledJobs(told, 5000 + len(self.moments)) if isinstance(told, list) else told
        self.renewed.append([one.jobDescriptor for one in request.requests])
        cancelled = [name for name in self.renewed[-1] if name in self.cancelled]
        return StaleClaims("some", [], cancelled) if cancelled else None


@pytest.fixture
def service():
    service = Service()
    yield service
    service.told.put("hang up")
    service.server.close()


@pytest.fixture
def table():
    table = ClaimTable(4)
    table.row(0).register(Identity("worker:me", ["mail"], ["SendMail"]))
    return table


@pytest.fixture
def watch(service, table):
    child = FakeChild()
    with CancelWatch(child, ServerSet([service.server.address]), table) as watch:
        yield watch
        service.told.put([])
    child.close()


def hold(table, *descriptors):
    area = table.row(0).acquire_area()
    area.write("claim", descriptors)
    area.states[0] = RUNNING
    return area


def cancelled(table):
    return [job.descriptor for batch in table.row(0).snapshot().batches for job in batch.jobs if job.is_cancelled]


def test_jobs_that_it_holds_are_marked_and_the_master_hears_of_them(service, table, watch):
    hold(table, FIRST, SECOND)
    service.cancelled = {SECOND, THIRD}
    service.told.put([SECOND, THIRD])
    wait_for(lambda: cancelled(table) == [SECOND])
    wait_for(lambda: watch._child.master_wakes == 1)
    assert service.renewed[0] == [SECOND]
    wait_for(lambda: len(service.moments) == 2)
    assert service.moments == [0, 5001]


def test_a_job_that_was_named_wrongly_goes_on(service, table, watch):
    hold(table, FIRST)
    service.told.put([FIRST])  # it was, but has been retried by hand since
    wait_for(lambda: service.renewed)
    assert cancelled(table) == []


def test_a_job_that_arrives_just_after_it_was_cancelled_is_found(service, table, watch):
    service.cancelled = {FIRST}
    service.told.put([FIRST])
    wait_for(lambda: len(service.moments) == 2)
    hold(table, FIRST)
    wait_for(lambda: cancelled(table) == [FIRST])


def test_a_new_connection_is_told_what_was_missed(service, table, watch):
    service.told.put([THIRD])
    service.told.put("hang up")
    wait_for(lambda: len(service.moments) == 3)
    assert service.moments == [0, 5001, 0]


@pytest.mark.parametrize("trouble", [NoHealthyShards("gone"), "hang up"])
def test_after_an_error_it_asks_again(service, table, watch, trouble):
    hold(table, FIRST)
    service.cancelled = {FIRST}
    service.told.put(trouble)
    service.told.put([FIRST])
    wait_for(lambda: cancelled(table) == [FIRST])


@pytest.fixture
def idle(service, table):
    """A watch that asks when the test says so."""
    child = FakeChild()
    watch = CancelWatch(child, ServerSet([service.server.address]), table)
    yield watch
    watch._close()
    child.close()


def test_a_server_that_does_not_know_the_call_is_left_alone_for_a_while(service, idle):
    service.told.put("unknown")
    assert idle._ask_safely() == cancel_watch.ASK_AGAIN_SECONDS
    service.told.put([])
    assert idle._ask_safely() < cancel_watch.ASK_AGAIN_SECONDS


def test_a_server_that_lets_nobody_wait_is_not_asked_in_a_hurry(service, idle, monkeypatch):
    monkeypatch.setattr(cancel_watch, "_LEAST_SECONDS", 3600)
    service.told.put([])
    assert idle._ask_safely() == 3600
    service.told.put([FIRST])
    assert idle._ask_safely() == 0
