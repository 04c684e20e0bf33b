"""Calls in flight on a real connection to a small server."""

import random
import time

import pytest

from pinlater.client.connection import Connection
from pinlater.client.servers import ServerSet
from pinlater.errors import CallError, CallUnsendable, QueueNotFound, ServerUnavailable
from pinlater.protocol.operations import Calls
from pinlater.worker.session.connector import Connector
from pinlater.worker.session.pipeline import Pipeline
from tests.unit.client.fake_server import FakeServer, free_address


def names_call():
    return Calls("me", is_plain=True).queue_names()


def create_call(name):
    return Calls("me", is_plain=True).create_queue(name)


@pytest.fixture
def pipeline_to(child):
    pipelines = []

    def connect(address):
        pipelines.append(Pipeline(Connector(ServerSet([address])), child.wakeup_fd))
        return pipelines[-1]

    yield connect
    for pipeline in pipelines:
        pipeline.close()


def test_replies_go_to_those_who_asked_in_order(pipeline_to):
    with FakeServer(lambda call: {"a"} if call.method == "getQueueNames" else None) as server:
        pipeline = pipeline_to(server.address)
        pipeline.open()
        heard = []
        pipeline.send(names_call(), lambda reply: heard.append(("first", list(reply))))
        pipeline.send(create_call("b"), lambda reply: heard.append(("second", reply)))
        assert pipeline.in_flight == 2
        while pipeline.in_flight:
            assert pipeline.wait(5)
            pipeline.receive()
        assert heard == [("first", ["a"]), ("second", None)]


def test_a_refusal_is_a_reply(pipeline_to):
    with FakeServer(lambda call: QueueNotFound("no")) as server:
        pipeline = pipeline_to(server.address)
        pipeline.open()
        heard = []
        pipeline.send(names_call(), heard.append)
        pipeline.receive()
        assert isinstance(heard[0], QueueNotFound)
        assert pipeline.is_open


def test_a_call_hands_on_the_replies_before_its_own(pipeline_to):
    with FakeServer(lambda call: {"x"} if call.method == "getQueueNames" else None) as server:
        pipeline = pipeline_to(server.address)
        pipeline.open()
        heard = []
        pipeline.send(create_call("b"), heard.append)
        assert list(pipeline.call(names_call())) == ["x"]
        assert heard == [None]


class Alarm(Exception):
    """What a job has its signal handler raise."""


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("method", ["send", "receive"])
def test_an_exception_that_breaks_into_a_call_gives_no_other_call_its_reply(pipeline_to, monkeypatch, method, when):
    usual = getattr(Connection, method)

    def broken_into(*args):
        monkeypatch.setattr(Connection, method, usual)
        if when == "after":
            usual(*args)
        raise Alarm

    with FakeServer(lambda call: {"x"} if call.method == "getQueueNames" else None) as server:
        pipeline = pipeline_to(server.address)
        pipeline.open()
        heard = []
        pipeline.send(create_call("b"), heard.append)
        monkeypatch.setattr(Connection, method, broken_into)
        with pytest.raises(Alarm):
            pipeline.call(create_call("c"))
        assert [type(reply) for reply in heard] == [ServerUnavailable]
        pipeline.open()
        assert list(pipeline.call(names_call())) == ["x"]


def test_all_calls_hear_of_a_lost_connection(pipeline_to):
    with FakeServer(lambda call: "hang up") as server:
        pipeline = pipeline_to(server.address)
        pipeline.open()
        heard = []
        for _ in range(3):
            pipeline.send(names_call(), heard.append)
        while pipeline.in_flight:
            pipeline.receive()
        assert [isinstance(error, CallError) for error in heard] == [True] * 3
        assert not pipeline.is_open
        pipeline.open()
        with pytest.raises(CallError):
            pipeline.call(names_call())


def test_without_a_connection_a_call_fails_at_once(pipeline_to):
    heard = []
    pipeline_to(free_address()).send(names_call(), heard.append)
    assert isinstance(heard[0], ServerUnavailable)


def test_a_request_to_stop_ends_a_wait(pipeline_to, child):
    with FakeServer(lambda call: "silence") as server:
        pipeline = pipeline_to(server.address)
        pipeline.open()
        pipeline.send(Calls("me").dequeue_jobs("q", 1, wait=30), lambda _: None)
        assert pipeline.wait(0.01) is False
        child.drain()
        began = time.monotonic()
        assert pipeline.wait() is False
        assert time.monotonic() - began < 20


def test_a_server_that_says_nothing_is_given_up(pipeline_to, monkeypatch):
    monkeypatch.setattr("pinlater.worker.session.pipeline.CALL_SECONDS", 0.05)
    with FakeServer(lambda call: "silence") as server:
        pipeline = pipeline_to(server.address)
        pipeline.open()
        heard = []
        pipeline.send(names_call(), heard.append)
        assert pipeline.wait() is True
        pipeline.receive()
        assert isinstance(heard[0], CallError)


@pytest.mark.parametrize(("lease_seconds", "most"), [(1.0, 3.0), (12.0, 4.0), (30.0, 10.0), (3600.0, 10.0)])
def test_a_reply_is_given_up_while_its_claims_can_be_given_back(lease_seconds, most, child):
    with FakeServer(lambda call: "silence") as server:
        pipeline = Pipeline(Connector(ServerSet([server.address])), child.wakeup_fd, lease_seconds)
        pipeline.open()
        began = time.monotonic()
        pipeline.send(Calls("me").dequeue_jobs("mails", 1, wait=lease_seconds / 3), lambda _: None)
        remaining = pipeline.remaining_seconds - lease_seconds / 3
        assert most - (time.monotonic() - began) - 0.01 < remaining < most + 0.01
        pipeline.close()


def test_a_connection_closed_while_idle_is_replaced(pipeline_to):
    with FakeServer(lambda call: set()) as server:
        pipeline = pipeline_to(server.address)
        pipeline.open()
        pipeline.call(names_call())
        server.hang_up()
        deadline = time.monotonic() + 60
        while len(server.connections) < 1 and time.monotonic() < deadline:
            time.sleep(0.01)
            pipeline.open()
        assert list(pipeline.call(names_call())) == []


def test_loss_and_return_of_a_server_are_each_said_once(caplog):
    caplog.set_level("INFO", "pinlater.worker")
    address = free_address()
    connector = Connector(ServerSet([address]), chance=random.Random(1).random)
    delays = []
    for _ in range(9):
        with pytest.raises(ServerUnavailable):
            connector.connect()
        delays.append(connector.delay_seconds)
    assert 0.02 < delays[0] < 0.08
    assert 0.5 <= delays[-1] <= 1.5
    with FakeServer(lambda call: set(), (address.host, address.port)):
        connector.connect().close()
    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == 2
    assert messages[0].startswith(f"cannot reach {address}")
    assert messages[1] == f"connected to {address}"


def test_a_call_that_cannot_be_sent_costs_no_other_call_and_no_connection(pipeline_to):
    with FakeServer(lambda call: set()) as server:
        pipeline = pipeline_to(server.address)
        pipeline.open()
        heard = []
        pipeline.send(names_call(), heard.append)
        pipeline.send(create_call("half of a \udce9"), heard.append)
        [unsendable] = heard
        assert isinstance(unsendable, CallUnsendable)
        pipeline.receive()
        assert heard == [unsendable, []]
        assert pipeline.in_flight == 0
        assert pipeline.is_open
        assert len(server.connections) == 1
