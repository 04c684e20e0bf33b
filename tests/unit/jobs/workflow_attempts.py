"""Attempts of one workflow, one after the other, in each kind of context."""

from pinlater import Job
from pinlater.jobs.body_codec import encode_body
from pinlater.model.body_metadata import BodyMetadata, read_metadata
from pinlater.testing import FakeContext
from pinlater.worker.running.run_context import RunContext
from pinlater.worker.session import saver
from tests.unit.worker.fakes import batch_of


class Plain(Job):
    def run(self, context):
        pass


class Saver:
    """Takes all; ``drain_after`` saves, the worker drains."""

    submit = saver.Saver.submit  # by way of ``save``

    def __init__(self, drain_after=None):
        self.bodies = []
        self.drain_after = drain_after

    @property
    def is_draining(self):
        return self.drain_after is not None and len(self.bodies) >= self.drain_after

    def save(self, batch, position, encode, patience_seconds):
        self.bodies.append(encode())
        return True


class InAWorker:
    """Contexts of a worker, one after the other."""

    def __init__(self, job=None):
        self.job = job or Plain()
        self.body = encode_body(self.job)

    def attempt(self, number=1, *, drain_after=None):
        self.saver = Saver(drain_after)
        batch = batch_of("plain:s1:p1:7", bodies=[self.body], allowed=4, remaining=5 - number)
        self.context = RunContext(self.job, batch, 0, self.saver, 30.0)
        return self.context

    def slept(self):
        """Go on with what goes back to the queue."""
        self.body = self.context.body()

    def record(self, steps):
        """Go on with results that a worker of an older version has saved."""
        self.body = encode_body(self.job, BodyMetadata(steps=steps))

    @property
    def tries(self):
        return read_metadata(self.body).tries

    def died(self):
        """Go on with what the last attempt had saved."""
        self.body = self.saver.bodies[-1] if self.saver.bodies else self.body


class WithFakes:
    """Fake contexts, one after the other."""

    def __init__(self, job=None):
        self.job = job or Plain()
        self.context = FakeContext()

    def record(self, steps):
        """Go on with results that a worker of an older version has saved."""
        self.context = FakeContext(self.job, steps=steps)

    def attempt(self, number=1, *, drain_after=None):
        draining_after = None if drain_after is None else drain_after + 1
        old = self.context
        self.context = FakeContext(
            self.job,
            attempt=number,
            previous=old,
            draining_after=draining_after,
        )
        return self.context

    def died(self):
        """Go on: all is kept."""

    slept = died

    @property
    def tries(self):
        return self.context.tries
