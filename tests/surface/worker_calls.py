"""What a worker sends: a real one is given a few jobs by the recorder, one by one, each of which ends in another way.

When it sends what depends on time, and how much it puts into one call. So what is kept are the parts of its calls, each
once, without moments, process ids and places.
"""

import contextlib
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.surface.places import ROOT, encode_reply, idl
from tests.surface.recorder import NOW_MS, Recorder, decoded, success_of, text_of

JOBS = """
from pinlater import Constant, Discard, Job, JobContext, Retry


class Fine(Job, queue="mail"):
    def run(self, context: JobContext):
        pass


class Saves(Job, queue="mail"):
    number: int = 0

    def run(self, context: JobContext):
        self.number = 7
        context.progress(1, 2, "half")
        context.checkpoint(flush=True)


class Steps(Job, queue="mail"):
    def run(self, context: JobContext):
        context.step("one", sum, [1, 2])


class Sleeps(Job, queue="mail"):
    def run(self, context: JobContext):
        context.sleep_for(600, name="nap")


class Follows(Job, queue="mail"):
    def run(self, context: JobContext):
        context.enqueue(Fine(), name="next", queue="sms", priority=2, delay=60, unique="key", timeout=9)


class Fails(Job, queue="mail", backoff=Constant(500)):
    def run(self, context: JobContext):
        raise ValueError("why")


class Discards(Job, queue="mail"):
    def run(self, context: JobContext):
        raise Discard("never")


class Retries(Job, queue="mail"):
    def run(self, context: JobContext):
        raise Retry(after=900, reason="busy")


class Reschedules(Job, queue="mail"):
    def run(self, context: JobContext):
        context.reschedule(after=600)


class Ticks(Job, queue="mail", every=3600):
    def run(self, context: JobContext):
        pass
"""
NAMES = [*re.findall(r"^class (\w+)", JOBS, re.MULTILINE), "Unknown"]
SECONDS = 150.0
POLL_SECONDS = 0.2

IN_PARTS = {"dequeueJobs", "getCancelledJobs", "reportWorker"}
"""Calls of which only the names of the fields are kept: their numbers depend on time and place."""


def render(folder):
    """Return the parts of a worker's calls."""
    calls = [decoded(payload) for payload in _record(folder)]
    contexts = {f"{method}: {_steady(text_of(call.context))}" for method, _, call in calls}
    blocks = ["== contexts", *sorted(contexts), "== parts", *sorted(set(_parts(calls)))]
    for method in sorted(IN_PARTS):
        kinds = {}
        for name, _, call in calls:
            if name == method:
                _note_fields(call.request, kinds)
        blocks += [f"== fields of {method}", *(f"{kind}: {', '.join(sorted(kinds[kind]))}" for kind in sorted(kinds))]
    return "\n".join(blocks).replace(str(folder), "FOLDER") + "\n"


def _record(folder):
    module = folder / "jobs.py"
    module.write_text(JOBS)
    with Recorder() as server:
        given = iter(NAMES)
        server.answers["dequeueJobs"] = lambda number, call: _dequeue(given, number, call.request)
        server.answers["getCancelledJobs"] = lambda number, _: _cancelled(number)
        command = [Path(sys.executable).with_name("pinlater-worker"), module, "--processes", "1", "--lease", "600"]
        with (folder / "log").open("wb") as log:
            worker = subprocess.Popen(
                [*command, "--server", server.address, "--queue", "mail"], cwd=ROOT, stdout=log, stderr=log
            )
        try:
            _wait(server, worker)
            worker.send_signal(signal.SIGTERM)
            worker.wait(SECONDS)
        finally:
            with contextlib.suppress(OSError):
                worker.kill()
            worker.wait()
        return server.take()


def _dequeue(given, number, request):
    answer = idl().PinLaterDequeueResponse()
    name = None if request.dryRun else next(given, None)
    if name is None:
        time.sleep(POLL_SECONDS)  # it was asked to wait
    else:
        descriptor = f"mail:s1:p1:{NAMES.index(name)}"
        metadata = idl().PinLaterDequeueMetadata(3, 2, f"claim-{name}", NOW_MS, NOW_MS)
        answer.jobs, answer.jobMetadata = {descriptor: b'{"job":"%s"}' % name.encode()}, {descriptor: metadata}
    return encode_reply("dequeueJobs", number, answer)


def _cancelled(number):
    time.sleep(POLL_SECONDS)  # this, too, was asked to wait
    return encode_reply("getCancelledJobs", number, success_of("getCancelledJobs", is_full=True))


def _wait(server, worker):
    """Wait until the end of each job was told, and a process and the unknown job were reported."""
    deadline, told, read, text = time.monotonic() + SECONDS, set(), 0, ""
    while time.monotonic() < deadline and worker.poll() is None:
        fresh = server.calls[read:]
        read += len(fresh)
        text += "".join(f"{text_of(decoded(payload)[2])}\n" for payload in fresh)
        told = set(re.findall(r"claim-(\w+)", text))
        if told == set(NAMES) and "memoryBytes" in text and "timesReturned" in text:
            return
        time.sleep(0.05)
    raise AssertionError(f"the worker did not tell how these jobs ended: {set(NAMES) - told}; {worker.poll()}")


def _parts(calls):
    for method, _, call in calls:
        request = getattr(call, "request", None)
        riding = request.jobAckRequest if method == "dequeueJobs" else request if method == "ackDequeuedJobs" else None
        if riding is not None:
            for kind in ("jobsSucceeded", "jobsFailed"):
                yield from (
                    f"{riding.queueName} {kind}: {_steady(text_of(ack))}" for ack in getattr(riding, kind) or ()
                )
        elif method == "checkpointJobs":
            for one in request.requests:
                yield f"{request.queueName} tellStale={request.tellStale}: {_steady(text_of(one))}"
        elif method == "enqueueJobs":
            yield from (f"{request.queueName}: {_steady(text_of(job))}" for job in request.jobs)
        elif method not in IN_PARTS:
            yield f"{method}: {_steady(text_of(request)) if request is not None else ''}"


def _note_fields(struct, kinds):
    for entry in struct.thrift_spec.values():
        value = getattr(struct, entry[1])
        if value is not None:
            kinds.setdefault(type(struct).__name__, set()).add(entry[1])
        for each in value if isinstance(value, list) else [value]:
            if hasattr(each, "thrift_spec") and entry[1] not in {"runningJobs", "jobAckRequest"}:
                _note_fields(each, kinds)


def _steady(text):
    """Replace what is another one each time."""
    for pattern, name in (
        (r"(source='\w+:)[^']*", r"\1..."),
        (r"\[((?:attempt \S+ )?)\d{4}-\S+Z \S+ \d+(?: [\d.]+ s)?\]", r"[\1...]"),
        (r"\b1[6-9]\d{11}\b", "MOMENT"),
        (r"\[MOMENT,\d+,", "[MOMENT,MILLIS,"),
        (r", runMillis=\d+", ""),  # told only of what ran for long, as these do on a busy machine
    ):
        text = re.sub(pattern, name, text)
    return text
