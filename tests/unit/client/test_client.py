"""Both clients: verbs, retries, fail-over; with threads and forks, the blocking one."""

import os
import pickle
import re
import threading
import time
import traceback
from pathlib import Path

import pytest

from pinlater import AsyncClient, Client, JobState
from pinlater.client import Ack, NewJob
from pinlater.errors import (
    CallTimeout,
    CallUnsendable,
    NoHealthyShards,
    NotConnected,
    QueueNotFound,
    ServerUnavailable,
    ShardConnectionFailed,
)
from pinlater.protocol.codec import Codec
from pinlater.protocol.messages import PinLaterDequeueResponse, PinLaterJobInfo
from pinlater.protocol.stopping import STOPPING_FRAME
from tests.unit.client.fake_server import Ping, after, client_of, free_address, stored


def test_enqueue_returns_a_handle(serve, connect):
    server = serve(stored)
    with connect(server) as client:
        assert client.enqueue(Ping(number=3)).descriptor == "pings:s1:p1:0"
    assert server.calls[0].arguments.request.jobs[0].body == b'{"job":"Ping","number":3}'


@pytest.mark.parametrize("kind", [Client, AsyncClient])
@pytest.mark.parametrize("name", ["timeout", "connect_timeout"])
@pytest.mark.parametrize("value", [0, -1, float("inf"), float("nan"), 86_401])
def test_a_timeout_that_cannot_be_kept_is_refused_at_once(kind, name, value):
    with pytest.raises(ValueError, match=f"{name}={value!r} is in seconds"):
        kind("localhost:9010", **{name: value})


@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_a_timeout_that_is_no_number_is_refused_at_once(kind):
    with pytest.raises(TypeError, match="timeout=None has to be a number of seconds"):
        kind("localhost:9010", timeout=None)


def test_a_cancellation_that_cannot_be_sent_deletes_nothing(serve):
    server = serve(lambda _: 1)
    with client_of(server) as client, pytest.raises(CallUnsendable):
        client.handle("q:s1:p1:1").cancel("by \ud800")
    assert server.methods == []


def test_one_connection_serves_one_thread(serve, connect):
    server = serve(lambda _: {"q"})
    with connect(server) as client:
        assert [client.queue_names() for _ in range(5)] == [{"q"}] * 5
    assert len(server.connections) == 1


def test_threads_have_a_connection_each(serve):
    both_called = threading.Barrier(2)

    def answer(_):
        both_called.wait(60)
        return {"q"}

    server = serve(answer)
    with client_of(server) as client:
        threads = [threading.Thread(target=client.queue_names) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert len(server.connections) == 2
    assert not both_called.broken


def test_a_refusal_is_raised_as_its_class_and_not_repeated(serve, connect):
    server = serve(lambda _: QueueNotFound("no queue q"))
    with connect(server) as client, pytest.raises(QueueNotFound, match="no queue q"):
        client.count("q", JobState.PENDING)
    assert len(server.calls) == 1


@pytest.mark.parametrize("refusal", [NoHealthyShards("none"), ShardConnectionFailed("gone")])
def test_a_store_that_was_away_is_asked_again(serve, refusal, connect):
    server = serve(after([refusal, refusal], lambda _: 5))
    with connect(server) as client:
        assert client.count("q", JobState.PENDING) == 5
    assert len(server.calls) == 3


def test_retries_are_bounded_and_the_last_error_is_raised(serve, connect):
    server = serve(lambda _: ShardConnectionFailed("gone"))
    with connect(server, retries=2) as client, pytest.raises(ShardConnectionFailed):
        client.count("q", JobState.PENDING)
    assert len(server.calls) == 3


def test_without_retries_there_is_one_try(serve, connect):
    server = serve(lambda _: "hang up")
    with connect(server, retries=0) as client, pytest.raises(ServerUnavailable):
        client.queue_names()
    assert len(server.calls) == 1


def test_a_lost_answer_is_asked_for_again_where_that_is_safe(serve, connect):
    server = serve(after(["hang up"], stored))
    with connect(server) as client:
        assert client.enqueue_jobs("q", [NewJob(b"x")]) == ["q:s1:p1:0"]
    assert server.methods == ["enqueueJobs", "enqueueJobs"]


def test_a_dequeue_is_never_repeated_by_itself(serve, connect):
    server = serve(after(["hang up"], lambda _: PinLaterDequeueResponse()))
    with connect(server) as client:
        with pytest.raises(ServerUnavailable):
            client.dequeue_jobs("q", 1)
        assert client.dequeue_jobs("q", 1) == []
    assert len(server.calls) == 2


def test_an_idle_connection_that_the_server_closed_does_not_fail_a_dequeue(serve):
    server = serve(lambda _: PinLaterDequeueResponse())
    with client_of(server) as client:
        client.dequeue_jobs("q", 1)
        server.hang_up()
        time.sleep(0.05)
        assert client.dequeue_jobs("q", 1) == []


def test_a_call_ends_at_its_deadline_retries_included(serve, connect):
    server = serve(lambda _: "silence")
    started = time.monotonic()
    with connect(server, timeout=1) as client, pytest.raises(CallTimeout):
        client.queue_names()
    assert time.monotonic() - started < 20


def test_a_long_poll_waits_longer_than_the_timeout(serve, connect):
    def answer(_):
        time.sleep(0.4)
        return PinLaterDequeueResponse({"d": b"x"})

    with connect(serve(answer), timeout=0.2) as client:
        assert [job.descriptor for job in client.dequeue_jobs("q", 1, wait=5)] == ["d"]


def test_a_late_answer_is_never_taken_for_another(serve):
    is_late = threading.Event()

    def answer(call):
        if call.method == "getQueueNames":
            is_late.wait(60)
            return {"late"}
        return 7

    with client_of(serve(answer), timeout=0.1, retries=0) as client:
        with pytest.raises(CallTimeout):
            client.queue_names()
        is_late.set()
        client._timeout = 60
        assert client.count("q", JobState.PENDING) == 7


def test_it_fails_over_to_a_server_that_lives(serve, connect):
    server = serve(lambda _: {"q"})
    for _ in range(4):  # whichever it starts with
        with connect(free_address(), server) as client:
            assert client.queue_names() == {"q"}


def test_it_fails_over_when_its_server_dies(serve, connect):
    servers = [serve(lambda _: {"q"}), serve(lambda _: {"q"})]
    with connect(*servers) as client:
        client.queue_names()
        used = next(server for server in servers if server.calls)
        used.close()
        assert client.queue_names() == {"q"}


def test_nobody_there_names_every_server(connect):
    first, second = free_address(), free_address()
    with connect(first, second, patience=0.2) as client, pytest.raises(ServerUnavailable) as caught:
        client.queue_names()
    assert f"{first}: connection refused" in caught.value.reasons
    assert f"{second}: connection refused" in caught.value.reasons


def test_the_last_line_of_a_traceback_says_what_to_do(connect):
    address = free_address()
    with connect(address, patience=0.2) as client, pytest.raises(NotConnected) as caught:
        client.queue_names()
    assert str(caught.value) == (
        f"cannot reach {address}: connection refused; is pinlater-server running? "
        'name another server with Client("host:port") or PINLATER_SERVERS'
    )
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_a_traceback_leads_from_the_caller_to_the_client_and_no_further(connect):
    with connect(free_address(), patience=0.2) as client, pytest.raises(NotConnected) as caught:
        client.queue_names()
    files = [Path(frame.filename) for frame in traceback.extract_tb(caught.tb)]
    assert files[0] == Path(__file__)
    assert [file for file in files if "tenacity" in file.parts or file.parent.name == "futures"] == []


@pytest.mark.parametrize("retries", [0, 3])
def test_a_server_that_comes_back_in_time_is_found(serve, retries, connect):
    address = free_address()
    threading.Timer(1.5, lambda: serve(lambda _: {"q"}, address=address)).start()
    with connect(address, retries=retries, timeout=60) as client:
        assert client.queue_names() == {"q"}


def test_less_patience_reports_unreachable_servers_sooner(connect):
    with connect(free_address(), timeout=3600, patience=0.2) as client, pytest.raises(NotConnected):
        client.queue_names()


def test_a_store_that_is_away_for_long_is_asked_until_the_timeout(serve, connect):
    server = serve(after([NoHealthyShards("none")] * 6, lambda _: 5))
    with connect(server, retries=1, timeout=60) as client:
        assert client.count("q", JobState.PENDING) == 5


def test_without_retries_what_a_server_has_answered_is_not_asked_again(serve, connect):
    server = serve(lambda _: NoHealthyShards("none"))
    with connect(server, retries=0) as client, pytest.raises(NoHealthyShards):
        client.count("q", JobState.PENDING)
    assert len(server.calls) == 1


def test_a_call_refused_by_a_stopping_server_is_always_retried(serve, connect):
    server = serve(after(["stopping"] * 6, lambda _: PinLaterDequeueResponse({"d": b"x"})))
    with connect(server, retries=0, timeout=60) as client:
        assert [job.descriptor for job in client.dequeue_jobs("q", 1)] == ["d"]
    assert len(server.calls) == 7


def test_an_answer_that_comes_with_the_end_counts_and_the_connection_is_not_used_again(serve):
    reply = Codec().encode_reply("dequeueJobs", 1, PinLaterDequeueResponse({"d": b"x"}))
    server = serve(after([reply + STOPPING_FRAME], lambda _: PinLaterDequeueResponse()))
    with client_of(server, retries=0) as client:
        assert [job.descriptor for job in client.dequeue_jobs("q", 1)] == ["d"]
        assert client.dequeue_jobs("q", 1) == []
    assert len(server.connections) == 2


def test_it_does_not_say_that_nothing_was_done_after_an_answer_was_lost(serve, connect):
    def answer(_):
        server.close()
        return "hang up"

    server = serve(answer)
    with (
        connect(server, timeout=60, patience=2) as client,
        pytest.raises(ServerUnavailable, match="may have been") as caught,
    ):
        client.enqueue_jobs("q", [NewJob(b"x")])
    assert not isinstance(caught.value, NotConnected)
    assert "connection refused" in str(caught.value).lower()


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_does_not_use_its_parents_connection(serve):
    server = serve(lambda call: {call.arguments.context.source})
    with client_of(server) as client:
        mine = client.queue_names()
        pid = os.fork()
        if pid == 0:
            try:
                theirs = client.queue_names()
                os._exit(0 if theirs != mine and str(os.getpid()) in theirs.pop() else 1)
            finally:
                os._exit(2)
        _, status = os.waitpid(pid, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        assert client.queue_names() == mine
    assert len(server.connections) == 2


def test_scan_all_pages(serve):
    from pinlater.protocol.messages import PinLaterScanJobsResponse

    def answer(call):
        page = {"0": ("a", "t1"), "t1": ("b", "t2"), "t2": ("c", "-1")}[call.arguments.request.continuation]
        return PinLaterScanJobsResponse([PinLaterJobInfo(page[0], 0, 1, 1, "", 1)], page[1])

    with client_of(serve(answer)) as client:
        assert [info.descriptor for info in client.scan_all("q", JobState.PENDING)] == ["a", "b", "c"]


def test_a_handle_waits_for_the_end(serve):
    states = [0, 1, 2]

    def answer(call):
        if call.method == "enqueueJobs":
            return stored(call)
        descriptor = call.arguments.request.jobDescriptors[0]
        return {descriptor: PinLaterJobInfo(descriptor, states.pop(0), 1, 1, "", 1)}

    with client_of(serve(answer)) as client:
        assert client.enqueue(Ping()).wait(10).state is JobState.SUCCEEDED
    assert states == []


@pytest.mark.parametrize(
    ("state", "due_ms", "status", "said"),
    [
        (0, 1, "", r"d is still PENDING; does a worker serve its queue \(pinlater workers\)\?$"),
        (0, 2**62, "", "d is still PENDING$"),
        (
            0,
            2**62,
            "[attempt 1/3 2026-11-21T13:38:38Z kiel 25027 0.01 s] KeyError: 7\n",
            "d is still PENDING; its last failed attempt: KeyError: 7$",
        ),
        (1, 1, "", "d is still IN_PROGRESS$"),
    ],
)
def test_a_handle_gives_up_waiting(serve, state, due_ms, status, said):
    info = PinLaterJobInfo("d", state, 1, 1, status, 1, due_ms)

    def answer(call):
        return stored(call) if call.method == "enqueueJobs" else {"pings:s1:p1:0": info}

    with client_of(serve(answer)) as client, pytest.raises(CallTimeout, match=said):
        client.enqueue(Ping()).wait(0.1)


@pytest.mark.parametrize("kind", [Client, AsyncClient])
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("get", "object has no attribute 'get'; write result(timeout=10)"),
        ("state", "; write status().state"),
        ("ready", "; write status().state.is_final"),
        ("revoke", "; write cancel()"),
        ("progress", "; write status(include_body=True).progress"),
        ("colour", "object has no attribute 'colour'"),
    ],
)
def test_a_handle_says_what_to_write_for_what_it_has_elsewhere(kind, name, said):
    handle = kind("127.0.0.1:1").handle("pings:s1:p1:0")
    with pytest.raises(AttributeError, match=re.escape(said) + "$"):
        getattr(handle, name)


def test_a_wait_without_an_end_says_once_why_it_may_have_none(serve, caplog, monkeypatch):
    monkeypatch.setattr("pinlater.client.polling._PARKED_SECONDS", 0.0)
    states = [0, 0, 0, 2]

    def answer(call):
        return {"pings:s1:p1:0": PinLaterJobInfo("pings:s1:p1:0", states.pop(0), 1, 1, "", 1)}

    with client_of(serve(answer)) as client:
        client.handle("pings:s1:p1:0").wait()
    assert caplog.messages == ["pings:s1:p1:0 is still PENDING; does a worker serve its queue (pinlater workers)?"]


def test_a_deleted_job_raises_lookup_error(serve):
    with client_of(serve(lambda call: stored(call) if call.method == "enqueueJobs" else {})) as client:
        handle = client.enqueue(Ping())
        with pytest.raises(LookupError, match="deleted after a while"):
            handle.status()


def test_acks_and_checkpoints_return_nothing(serve, connect):
    from pinlater.client import Checkpoint

    with connect(serve(lambda _: None)) as client:
        assert client.ack("q", [Ack("d")]) is None
        assert client.checkpoint("q", [Checkpoint("d")]) is None
