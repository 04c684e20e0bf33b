"""Attempts of one workflow, one after the other, in each kind of context."""

from functools import partial

from pinlater import Job
from pinlater.jobs.body_codec import encode_body
from pinlater.jobs.outside_steps import MOST_IN_BODY
from pinlater.model.body_metadata import BodyMetadata, read_metadata
from pinlater.model.messages import ReceivedMessage
from pinlater.testing import FakeContext
from pinlater.worker.running.run_context import RunContext
from pinlater.worker.session import saver
from tests.support.savers import InBody
from tests.unit.worker.fakes import batch_of


class Plain(Job):
    def run(self, context):
        pass


class Saver(InBody):
    """Takes all; ``drain_after`` saves, the worker drains."""

    submit = saver.Saver.submit  # by way of ``save``

    def __init__(self, drain_after=None):
        self.bodies = []
        self.drain_after = drain_after

    @property
    def is_draining(self):
        return self.drain_after is not None and len(self.bodies) >= self.drain_after

    def save(self, batch, position, encode):
        self.bodies.append(encode().body)
        return True


class InAWorker:
    """Contexts of a worker, one after the other."""

    def __init__(self, job=None):
        self.job = job or Plain()
        self.body = encode_body(self.job)

    def attempt(self, number=1, *, drain_after=None, body=None):
        self.saver = self.new_saver(drain_after)
        batch = batch_of("plain:s1:p1:7", bodies=[body or self.body], allowed=4, remaining=5 - number)
        self.context = RunContext(self.job, batch, 0, self.saver)
        return self.context

    def new_saver(self, drain_after):
        return Saver(drain_after)

    def slept(self):
        """Go on with what goes back to the queue."""
        self.body = self.context.body.encode()

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


class KeepingSaver(Saver):
    """Takes all, and keeps messages as a server does."""

    keeps_messages = True

    def __init__(self, kept, drain_after=None):
        super().__init__(drain_after)
        self.kept = kept
        self._stored = set()

    def save(self, batch, position, encode):
        body, keeps = encode()
        self.bodies.append(body)
        for message in keeps:
            known = self.kept.setdefault(message.name, {})
            known.setdefault(message.id, message)
            self._stored.add(message.id)
        return True

    def is_stored(self, message_id):
        return message_id in self._stored

    def read_messages(self, descriptor, name, after, limit):
        found = [
            ReceivedMessage(number, one.id, one.payload, one.kind)
            for number, one in enumerate(self.kept.get(name, {}).values(), 1)
        ]
        return found[after : after + min(limit, 2)]


class Keeping(InAWorker):
    """Contexts of a worker whose server keeps messages."""

    def __init__(self, job=None):
        super().__init__(job)
        self.kept = {}

    def new_saver(self, drain_after):
        return KeepingSaver(self.kept, drain_after)

    @property
    def messages(self):
        return [message for some in self.kept.values() for message in some.values()]


class InAWorkerOutside(Keeping):
    """Contexts of a worker that keeps all results of steps beside the body."""

    def attempt(self, number=1, **options):
        context = super().attempt(number, **options)
        records = context._steps.records
        records.move = partial(_always_move, records, records.move)
        return context


def _always_move(records, move, descriptor):
    records._bytes = MOST_IN_BODY
    return move(descriptor) if records._metadata.steps else None


KINDS = [InAWorker, InAWorkerOutside, WithFakes]
"""What each way to run a workflow has to do alike."""
