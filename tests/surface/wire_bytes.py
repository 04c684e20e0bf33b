"""What the clients send for each method, byte for byte, and what they make of the server's replies."""

import asyncio
import contextlib
import dataclasses
import functools
import os
import random
import time
from unittest import mock

from pinlater import AsyncClient, Client, Constant, Exponential, Job, JobState
from pinlater.client import (
    Ack,
    Acks,
    Checkpoint,
    JobClass,
    JobInfo,
    NewJob,
    QueueLoad,
    RunningJob,
    StatisticsKind,
    UnknownJobs,
    WorkerProcess,
    WorkerReport,
)
from pinlater.errors import SERVICE_ERRORS, PinLaterError, service_error
from pinlater.model.messages import Message, MessageWait, Parent
from tests.surface.places import encode_error, encode_reply, idl
from tests.surface.recorder import BODY, DESCRIPTOR, NOW_MS, Recorder, decoded, success_of, text_of

SOURCE = "surface:host:1"
WIDTH = 120

CLAIM = "claim-1"
INFO = JobInfo(DESCRIPTOR, JobState.FAILED, 5, 3, "text", 1, 2, 3, CLAIM, BODY, "key")
REPORT = WorkerReport(
    *("worker-1", "host", 7, "0.1.0", "3.11.1", NOW_MS, True),
    processes=[WorkerProcess(8, "pool", ["mail", "sms"], NOW_MS, 9000, 4, 11, [RunningJob(DESCRIPTOR, NOW_MS)], 8000)],
    unknown=[UnknownJobs("mail", "Sms", 2, NOW_MS)],
    classes=[JobClass("Sms", "mail", 1, 5, '{"type":"object"}')],
    loads=[QueueLoad("mail", 5000, 4, 1, 60_000, 11, 9000)],
    sent_ms=NOW_MS,
)


class Mail(Job, queue="mail"):
    """A job of the snapshot."""

    user: int
    text: str = ""


CALLS = {
    "createQueue": lambda client: client.create_queue("mail"),
    "deleteQueue": lambda client: client.delete_queue("mail", "secret"),
    "enqueueJobs minimal": lambda client: client.enqueue_jobs("mail", [NewJob(b"\xff\0")]),
    "enqueueJobs full": lambda client: client.enqueue_jobs("mail", [NewJob(BODY, 3, NOW_MS, 7, "new", "key")] * 2),
    "enqueueJobs of a job": lambda client: client.enqueue(Mail(user=42)),
    "enqueueJobs of a job, full": lambda client: client.enqueue(
        Mail(user=42, text="hé"),
        queue="sms",
        priority=2,
        attempts=4,
        delay=60,
        status="new",
        unique="key",
        backoff=Exponential(first=2, cap=600),
        timeout=30,
        stall_after=20,
        give_up_after=3600,
    ),
    "enqueueJobs of a job, until it starts": lambda client: client.enqueue(
        Mail(user=42), unique="key", unique_until="started"
    ),
    "enqueueJobs of a job, for a time": lambda client: client.enqueue(Mail(user=42), unique="key", unique_for=60),
    "enqueueJobs of a job, debounced": lambda client: client.enqueue(
        Mail(user=42), unique="key", on_duplicate="debounce", delay=5, max_delay=60
    ),
    "enqueueJobs of a moment": lambda client: client.enqueue(Mail(user=42), run_at=1_800_000_000.5),
    "enqueueJobs of many": lambda client: client.enqueue_many(
        [Mail(user=1), Mail(user=2)], backoff=Constant(5), unique=lambda job: f"user {job.user}", status="new"
    ),
    "enqueueJobs of a child": lambda client: client.enqueue_jobs(
        "mail", [NewJob(BODY, parent=Parent(DESCRIPTOR, "resize", 7))]
    ),
    "dequeueJobs minimal": lambda client: client.dequeue_jobs("mail", 1),
    "dequeueJobs full": lambda client: client.dequeue_jobs(
        "mail",
        10,
        wait=1.5,
        lease=30,
        dry_run=True,
        acks=Acks([Ack(DESCRIPTOR, CLAIM, "done")], [Ack(DESCRIPTOR, CLAIM, "why", 2.5, final=True)], "sms"),
        other_queues=["sms", "push"],
    ),
    "ackDequeuedJobs minimal": lambda client: client.ack("mail"),
    "ackDequeuedJobs plain": lambda client: client.ack("mail", [Ack(DESCRIPTOR)], [Ack(DESCRIPTOR)]),
    "ackDequeuedJobs full": lambda client: client.ack(
        "mail", [Ack(DESCRIPTOR, CLAIM, "done")], [Ack(DESCRIPTOR, CLAIM, "why", 2.5, final=True)]
    ),
    "ackDequeuedJobs with a result": lambda client: client.ack("mail", [Ack(DESCRIPTOR, CLAIM, result=b"\xff\0")]),
    "ackDequeuedJobs of a failure with its class": lambda client: client.ack(
        "mail", [], [Ack(DESCRIPTOR, CLAIM, "why", 2.5, job="Mail")]
    ),
    "ackDequeuedJobs of a cancelled job": lambda client: client.ack(
        "mail", [], [Ack(DESCRIPTOR, CLAIM, cancelled=True)]
    ),
    "ackDequeuedJobs of a long job": lambda client: client.ack("mail", [Ack(DESCRIPTOR, CLAIM, run_ms=81_234)]),
    "checkpointJobs minimal": lambda client: client.checkpoint("mail", [Checkpoint(DESCRIPTOR)]),
    "checkpointJobs full": lambda client: client.checkpoint(
        "mail", [Checkpoint(DESCRIPTOR, CLAIM, body, True, NOW_MS, 4, "why") for body in (BODY, b"\xff")]
    ),
    "checkpointJobs of a job that waits": lambda client: client.checkpoint(
        "mail", [Checkpoint(DESCRIPTOR, CLAIM, BODY, True, NOW_MS, waits_for=[MessageWait("approval", 2)])]
    ),
    "lookupJobs minimal": lambda client: client.lookup([DESCRIPTOR]),
    "lookupJobs full": lambda client: client.lookup([DESCRIPTOR, "sms:s1:p1:1"], include_body=True),
    "lookupJobs with results": lambda client: client.lookup([DESCRIPTOR], include_result=True),
    "lookupJobs that waits": lambda client: client.lookup([DESCRIPTOR], wait=2.5),
    "lookupJobs with bodies cut": lambda client: client.lookup([DESCRIPTOR], include_body=True, max_body_bytes=512),
    "getJobCount minimal": lambda client: client.count("mail", JobState.PENDING),
    "getJobCount full": lambda client: client.count(
        "mail", JobState.PENDING, priority=2, future=True, body_regex="a.c"
    ),
    "getJobCount of retrying jobs": lambda client: client.count("mail", JobState.PENDING, retrying=True),
    "getJobCount of a failure group": lambda client: client.count("mail", JobState.FAILED, failure_group=2**62),
    "getQueueNames": lambda client: client.queue_names(),
    "scanJobs minimal": lambda client: client.scan("mail", JobState.FAILED),
    "scanJobs full": lambda client: client.scan(
        "mail", JobState.PENDING, priority=2, future=True, limit=7, body_regex="a.c", continuation="here"
    ),
    "scanJobs of a failure group": lambda client: client.scan(
        "mail", JobState.PENDING, retrying=True, failure_group=2**62, oldest_first=True
    ),
    "scanJobs, all": lambda client: client.scan_all("mail", JobState.SUCCEEDED, page_size=5),
    "scanJobs, fairly": lambda client: client.scan_fairly(["mail"], JobState.IN_PROGRESS, limit=50),
    "retryFailedJobs minimal": lambda client: client.retry_failed("mail"),
    "retryFailedJobs full": lambda client: client.retry_failed(
        "mail", priority=2, attempts=3, run_after_ms=NOW_MS, limit=9
    ),
    "retryFailedJobs, named": lambda client: client.retry_these("mail", [DESCRIPTOR], attempts=3, run_after_ms=NOW_MS),
    "deleteJobs minimal": lambda client: client.delete_jobs("mail", JobState.SUCCEEDED),
    "deleteJobs full": lambda client: client.delete_jobs(
        "mail", JobState.FAILED, priority=2, body_regex="a.c", limit=9
    ),
    "deleteJobs, named": lambda client: client.delete_these("mail", [DESCRIPTOR], JobState.PENDING),
    "runJobsNow": lambda client: client.run_now("mail", [DESCRIPTOR]),
    "scheduleJobs": lambda client: client.schedule("mail", [DESCRIPTOR], NOW_MS),
    "cancelJobs minimal": lambda client: client.cancel_these("mail", [DESCRIPTOR]),
    "cancelJobs full": lambda client: client.cancel_these("mail", [DESCRIPTOR, "mail:s1:p1:1"], status="by ada"),
    "sendMessage": lambda client: client.send_message(DESCRIPTOR, Message("approval", "id-1", b"\xff\0")),
    "readMessages minimal": lambda client: client.read_messages(DESCRIPTOR, "approval"),
    "readMessages full": lambda client: client.read_messages(DESCRIPTOR, "approval", after=3, limit=20),
    "getCancelledJobs minimal": lambda client: client.cancelled_jobs(),
    "getCancelledJobs full": lambda client: client.cancelled_jobs(NOW_MS, wait=2.5),
    "releaseClaims": lambda client: client.release_claims("mail", "worker:host:2"),
    "importJobs minimal": lambda client: client.import_jobs("mail", [JobInfo(DESCRIPTOR, JobState.PENDING, 2, 1)]),
    "importJobs full": lambda client: client.import_jobs("mail", [INFO]),
    "getQueueSettings": lambda client: client.queue_settings(),
    "changeQueueSettings minimal": lambda client: client.change_queue("mail"),
    "changeQueueSettings full": lambda client: client.change_queue(
        "mail", paused=True, jobs_per_second=2.5, max_running=8, shards=4
    ),
    "reportWorker minimal": lambda client: client.report_worker(WorkerReport("worker-1", "host"), 0),
    "reportWorker full": lambda client: client.report_worker(REPORT, 60),
    "getWorkers": lambda client: client.workers(),
    "getOldestDueTimestamps minimal": lambda client: client.oldest_due(),
    "getOldestDueTimestamps full": lambda client: client.oldest_due(["mail", "sms"]),
    "getFailureGroups minimal": lambda client: client.failure_groups(),
    "getFailureGroups full": lambda client: client.failure_groups(["mail", "sms"], limit=7),
    "getStatistics minimal": lambda client: client.statistics(StatisticsKind.QUEUE, resolution=60, since_ms=NOW_MS),
    "getStatistics full": lambda client: client.statistics(
        StatisticsKind.CLASS, resolution=3600, since_ms=NOW_MS, until_ms=NOW_MS + 1, queues=["", "mail"], name="Mail"
    ),
    "handle, status": lambda client: client.handle(DESCRIPTOR).status(include_body=True),
    "handle, wait": lambda client: client.handle(DESCRIPTOR).wait(1),
    "handle, cancel": lambda client: client.handle(DESCRIPTOR).cancel(),
    "handle, run now": lambda client: client.handle(DESCRIPTOR).run_now(),
    "periodic jobs": lambda client: client.periodic_jobs(["mail"]),
}
"""What to do with a client -> what it sends. Names begin with the method, where one is called."""

NOT_CALLED = {"keepsResults", "checkpointAndKeep"}
"""Methods that a client calls only when an answer was lost, and that only workers call."""


@contextlib.contextmanager
def fixed_moment():
    """Let keys, times and orders be the same every time."""
    with (
        mock.patch.object(os, "urandom", lambda size: b"\x11" * size),
        mock.patch.object(time, "time", return_value=NOW_MS / 1000),
        mock.patch.object(random, "shuffle"),
    ):
        yield


def render_calls():
    """Return each call of the blocking client: its name, the fields as they are read, and the bytes."""
    blocks = []
    for name, payloads in calls_of_client().items():
        for payload in payloads:
            method, _, arguments = decoded(payload)
            blocks.append(f"== {name}: {method}\n{text_of(arguments)}\n{lines_of(payload)}")
    return "\n".join(blocks)


@functools.cache
def calls_of_client():
    """Return what the blocking client sends, by the name of the call."""
    with Recorder() as server, Client(server.address, source=SOURCE) as client, fixed_moment():
        return {name: _sent(server, lambda: _whole(call(client))) for name, call in CALLS.items()}  # noqa: B023


def calls_of_async_client():
    """Return what the asyncio client sends, by the name of the call."""

    async def run(server):
        found = {}
        async with AsyncClient(server.address, source=SOURCE) as client:
            for name, call in CALLS.items():
                with contextlib.suppress(PinLaterError, LookupError):
                    await _awaited(call(client))
                found[name] = [_first(payload) for payload in server.take()]
        return found

    with Recorder() as server, fixed_moment():
        return asyncio.run(run(server))


async def _awaited(made):
    if hasattr(made, "__aiter__"):
        return [each async for each in made]
    return await made


def _whole(made):
    return list(made) if hasattr(made, "__next__") else made


def _sent(server, act):
    with contextlib.suppress(PinLaterError, LookupError):
        act()
    return [_first(payload) for payload in server.take()]


def _first(payload):
    """Return a call as the first of its connection: which of several carries it, and when, does not matter."""
    at = 8 + int.from_bytes(payload[4:8], "big")
    return payload[:at] + (1).to_bytes(4, "big") + payload[at + 4 :]


def render_replies():
    """Return each reply as the server encodes it, and what the client returns of it; then each error."""
    blocks = []
    for method in sorted(idl().PinLater.thrift_services):
        for title, is_full in (("full", True), ("minimal", False)):
            frame = encode_reply(method, 1, success_of(method, is_full=is_full))
            blocks.append(f"== {method}, {title}\n{text_of(decoded(frame[4:])[2])}\n{lines_of(frame)}")
    for code in sorted(SERVICE_ERRORS):
        frame = encode_error("ackDequeuedJobs", 1, service_error(code, "what happened", [DESCRIPTOR]))
        blocks.append(f"== error {code}\n{text_of(decoded(frame[4:])[2])}\n{lines_of(frame)}")
    return "\n".join(blocks)


def render_results():
    """Return what the client returns or raises: for full and minimal replies, and for each error."""
    lines = []
    with Recorder() as server, Client(server.address, source=SOURCE, retries=0) as client, fixed_moment():
        for title, server.is_full in (("full", True), ("minimal", False)):
            lines.append(f"== {title}")
            lines += [f"{name}: {_result(client, call)}" for name, call in CALLS.items() if name != "handle, wait"]
        lines.append("== errors")
        for code in (*sorted(SERVICE_ERRORS), 999):
            error = service_error(code, "what happened", [DESCRIPTOR])
            server.answers["ackDequeuedJobs"] = lambda number, _, error=error: encode_error(
                "ackDequeuedJobs", number, error
            )
            lines.append(f"{code}: {_result(client, CALLS['ackDequeuedJobs full'])}")
    return "\n".join(lines) + "\n"


def _result(client, call):
    try:
        return _shown(_whole(call(client)))
    except Exception as error:  # what it raises is what is to be seen
        more = {name: value for name, value in vars(error).items() if not name.startswith("_")}
        return f"raises {type(error).__name__}({str(error)!r}){more or ''}"


def _shown(value):
    if isinstance(value, set):
        return f"{{{', '.join(sorted(map(repr, value)))}}}"
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        said = ", ".join(f"{name}={_shown(each)}" for name, each in value._asdict().items())
        return f"{type(value).__name__}({said})"
    if isinstance(value, list):
        return f"[{', '.join(map(_shown, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r}: {_shown(each)}" for key, each in value.items()) + "}"
    if dataclasses.is_dataclass(value):
        fields = dataclasses.fields(value)
        said = ", ".join(f"{each.name}={_shown(getattr(value, each.name))}" for each in fields)
        return f"{type(value).__name__}({said})"
    return repr(value)


def lines_of(data):
    """Return bytes as hexadecimal lines."""
    text = data.hex()
    return "".join(f"  {text[start : start + WIDTH]}\n" for start in range(0, len(text), WIDTH)).rstrip("\n")


def methods_called():
    """Return the methods that the calls above reach."""
    return {decoded(payload)[0] for payloads in calls_of_client().values() for payload in payloads}
