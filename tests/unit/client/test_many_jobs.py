"""Many jobs at once: stored in order, and counted when that ends early."""

import threading
import time

import pytest

from pinlater.errors import NoHealthyShards, QueueNotFound
from tests.unit.client.fake_server import Ping, client_of, stored


def bodies(server):
    return [job.body for call in server.calls for job in call.arguments.request.jobs]


def expected_bodies(count):
    return [b'{"job":"Ping","number":%d}' % number for number in range(count)]


def test_many_jobs_are_stored_in_order_on_one_connection(serve):
    server = serve(stored)
    seen = []
    with client_of(server) as client:
        count = client.enqueue_many(
            (Ping(number=number) for number in range(1050)), batch_size=100, progress=seen.append
        )
    assert count == 1050
    assert bodies(server) == expected_bodies(1050)
    assert seen == [*range(100, 1001, 100), 1050]
    assert len(server.connections) == 1


def test_the_iterable_is_not_read_far_ahead(serve):
    gate = threading.Event()
    drawn = []

    def jobs():
        for number in range(100):
            drawn.append(number)
            yield Ping(number=number)

    def answer(call):
        gate.wait(10)
        return stored(call)

    with client_of(serve(answer), timeout=20) as client:
        thread = threading.Thread(target=lambda: client.enqueue_many(jobs(), batch_size=10))
        thread.start()
        time.sleep(0.2)
        ahead = len(drawn)
        gate.set()
        thread.join(10)
    assert ahead <= 50
    assert len(drawn) == 100


@pytest.mark.parametrize("failure", ["hang up", "stopping", NoHealthyShards("none"), b"\0\0\0\4junk"])
def test_a_failure_in_the_middle_loses_nothing(serve, failure, connect):
    seen = []

    def answer(call):
        seen.append(call)
        return failure if len(seen) == 4 else stored(call)

    server = serve(answer)
    with connect(server) as client:
        if isinstance(failure, bytes):  # not our protocol: not repeated
            with pytest.raises(Exception, match="not a Thrift message") as caught:
                client.enqueue_many((Ping(number=number) for number in range(100)), batch_size=10)
            assert "30 jobs stored" in caught.value.__notes__[0]
            return
        assert client.enqueue_many((Ping(number=number) for number in range(100)), batch_size=10) == 100
    assert set(bodies(server)) == set(expected_bodies(100))


def test_a_server_that_restarts_in_the_middle_loses_nothing(serve):
    server = serve(stored)

    def jobs():
        for number in range(100):
            if number in {35, 70}:
                server.hang_up()
            yield Ping(number=number)

    with client_of(server) as client:
        assert client.enqueue_many(jobs(), batch_size=10) == 100
    assert set(bodies(server)) == set(expected_bodies(100))


def test_a_refused_batch_ends_it_and_says_how_many_were_stored(serve, connect):
    server = serve(lambda call: QueueNotFound("no queue") if len(server.calls) == 3 else stored(call))
    with connect(server) as client:
        with pytest.raises(QueueNotFound) as caught:
            client.enqueue_many((Ping(number=number) for number in range(100)), batch_size=10)
        assert caught.value.__notes__ == ["20 jobs stored before this"]
        assert client.enqueue(Ping()).descriptor == "pings:s1:p1:0"


def test_an_error_of_the_iterable_passes_through_and_says_how_many_were_stored(serve):
    def jobs():
        for number in range(70):
            yield Ping(number=number)
        raise KeyError("theirs")

    with client_of(serve(stored)) as client, pytest.raises(KeyError, match="theirs") as caught:
        client.enqueue_many(jobs(), batch_size=10)
    [note] = caught.value.__notes__
    assert note in {f"{stored} jobs stored before this" for stored in (30, 40, 50, 60, 70)}, "4 are in flight"
