"""Jobs that end in every way, and what runs them in a test."""

import asyncio
import logging
import sys
from contextvars import ContextVar
from time import monotonic_ns

from pinlater.errors import Discard, JobInterrupted, Retry
from pinlater.jobs.body_codec import JobCodec, encode_body
from pinlater.jobs.job import Job
from pinlater.model.backoff import Exponential
from pinlater.worker import logs
from pinlater.worker.running.runner import Runner
from tests.unit.worker.fakes import batch_of, new_row


class Unprintable(Exception):
    def __str__(self):
        raise ZeroDivisionError


class Act(Job, queue="acts", backoff=Exponential(first=2, jitter=0)):
    """Does what its table says."""

    what: str = ""
    value: float | None = None

    def run(self, context):
        acts[self.what](self, context)


class ActLater(Job, queue="acts"):
    async def run(self, context):
        await asyncio.sleep(0)
        asyncio.get_running_loop().leftover = asyncio.create_task(asyncio.sleep(60))
        seen.append(asyncio.get_running_loop())
        if context.attempt > 1:
            raise KeyError("later")


tenant = ContextVar("tenant", default="nobody")


class Serve(Job, queue="acts"):
    """Sets a context variable, as a library of the job may do."""

    who: str

    def run(self, context):
        seen.append(tenant.get())
        tenant.set(self.who)


class ServeLater(Serve, queue="acts"):
    async def run(self, context):
        super().run(context)


class ServeInTime(Serve, queue="acts", timeout=60):
    """As the other one, within a limit."""


class BrokenBackoff:
    def delay(self, attempts_spent, chance=None):
        raise RuntimeError("no idea")


class ActBadly(Job, queue="acts", backoff=BrokenBackoff()):
    def run(self, context):
        raise ValueError


class ActOnce(Job, queue="acts", give_up_on=(LookupError, Retry)):
    what: str

    def run(self, context):
        raise {"key": KeyError, "value": ValueError, "retry": Retry}[self.what](2)


def fail(job, context):
    raise ValueError("some\n reason")


def retry(job, context):
    raise Retry(after=job.value, reason="busy")


def discard(job, context):
    raise Discard("refused for good")


def interrupt(job, context):
    job.value = 7.0
    raise JobInterrupted


def unprintable(job, context):
    raise Unprintable


def spoil(job, context):
    job.value = object()
    raise JobInterrupted


def nothing(job, context):
    seen.append(str(logs.current_job.get().job))


class BareRetry(Retry):
    def __init__(self):
        """Forget to call that of the class above."""


class FailingHandler(logging.Handler):
    def emit(self, record):
        raise ZeroDivisionError("division by zero")


failing_handler = FailingHandler()


def raise_bare_retry(job, context):
    raise BareRetry


def fail_with_a_failing_log(job, context):
    logging.getLogger().addHandler(failing_handler)
    raise ValueError


acts = {
    "retry without a time": raise_bare_retry,
    "failing log": fail_with_a_failing_log,
    "fail": fail,
    "retry": retry,
    "discard": discard,
    "interrupt": interrupt,
    "unprintable": unprintable,
    "spoil": spoil,
    "nothing": nothing,
    "exit": lambda job, context: sys.exit("bye"),
}
seen = []


class FakeSaver:
    is_draining = False


class Bench:
    def __init__(self):
        codec = JobCodec([Act, ActLater, ActBadly, ActOnce, Serve, ServeLater, ServeInTime])
        self.row = new_row()
        self.runner = Runner(codec, FakeSaver())
        self.kinds = codec.runnable_names

    def run(self, job, **about):
        self.batch = batch_of("acts:s1:p1:7", bodies=[encode_body(job)], row=self.row, **about)
        return self.runner.run(self.batch, 0, monotonic_ns())

    def run_body(self, body, **about):
        return self.runner.run(batch_of("acts:s1:p1:7", bodies=[body], row=self.row, **about), 0, monotonic_ns())
