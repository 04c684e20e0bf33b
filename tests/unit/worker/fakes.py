"""What the parts of a worker's process stand on, as fakes that a test drives by hand."""

import os
from collections import deque

from pinlater.client.servers import ServerSet
from pinlater.errors import QueueNotFound, ServerUnavailable, StaleClaims
from pinlater.protocol.messages import PinLaterDequeueMetadata, PinLaterDequeueResponse
from pinlater.worker.claim_table.table import ClaimTable
from pinlater.worker.keeper.service_client import KeeperClient
from pinlater.worker.session.batch import DequeuedBatch
from pinlater.worker.session.connector import Connector
from tests.unit.client.fake_server import free_address


class FakeChild:
    """A process under no supervisor."""

    def __init__(self, slot=0):
        self.slot = slot
        self.generation = 0
        self.pid = os.getpid()
        self.draining = False
        self.stopping_now = False
        self.master_wakes = 0
        self.wakeup_fd, self._pull = os.pipe()

    def beat(self):
        pass

    def wake_master(self):
        self.master_wakes += 1

    def drain(self):
        self.draining = True
        os.write(self._pull, b"\0")

    def close(self):
        os.close(self.wakeup_fd)
        os.close(self._pull)


class FakePipeline:
    """Keeps calls until the test answers them, in order."""

    delay_seconds, lease_seconds = 0.0, 30.0

    def __init__(self):
        self.is_open = True
        self.round_trip_seconds = 0.0
        self.sent = []
        self._waiting = deque()

    @property
    def in_flight(self):
        return len(self._waiting)

    def send(self, call, on_reply):
        if not self.is_open:
            on_reply(ServerUnavailable("not connected"))
            return
        self.sent.append((call.method, call.arguments, call.wait))
        self._waiting.append(on_reply)

    def answer(self, reply=None):
        self._waiting.popleft()(reply)

    def wait(self, seconds=None):
        """Return whether there is a reply: not before the test answers."""
        return False

    def lose(self):
        self.is_open = False
        while self._waiting:
            self.answer(ServerUnavailable("gone"))

    def call(self, call):
        self.sent.append((call.method, call.arguments, 0.0))
        answer = self.answers.pop(0) if getattr(self, "answers", None) else None
        if isinstance(answer, Exception):
            raise answer
        return None if answer is None else call.convert(answer)

    @property
    def methods(self):
        return [method for method, _, _ in self.sent]

    @property
    def last(self):
        """Return the request of the last call."""
        return self.sent[-1][1].request


def metadata(*, allowed=4, remaining=4, claim="host:1:2:worker:3", created_ms=1000):
    return PinLaterDequeueMetadata(allowed, remaining, claim, created_ms, 2000)


def reply(*descriptors, bodies=None, **about):
    """Return the reply of a dequeue; without jobs, an empty one."""
    if not descriptors:
        return PinLaterDequeueResponse()
    found = bodies or [b"{}"] * len(descriptors)
    return PinLaterDequeueResponse(
        jobs=dict(zip(descriptors, found, strict=True)),
        jobMetadata={descriptor: metadata(**about) for descriptor in descriptors},
    )


def names(count, queue="mail"):
    return [f"{queue}:s1:p1:{number}" for number in range(1, count + 1)]


def new_row():
    return ClaimTable(4).row(0)


def batch_of(*descriptors, row=None, **options):
    area = (row or new_row()).acquire_area()
    return DequeuedBatch(reply(*descriptors, **options), area)


class Line:
    """A pipeline whose server refuses each save: the claim is lost, or the job cancelled."""

    delay_seconds, lease_seconds = 0.0, 30.0

    def __init__(self, *, is_cancelled):
        self._is_cancelled = is_cancelled

    def open(self):
        pass

    def call(self, call):
        request = call.arguments.request
        assert request.tellStale
        named = [request.requests[0].jobDescriptor]
        raise StaleClaims("1 job", *([], named) if self._is_cancelled else (named,))


class KeeperOfClaims(KeeperClient):
    """A keeper's client whose server knows ``claims``, jobs that are ``cancelled``, and no queue ``deleted``."""

    def __init__(self, claims, cancelled=()):
        super().__init__(Connector(ServerSet([free_address()])), "keeper:1")
        self.claims, self.cancelled = claims, cancelled
        self.calls = 0

    def _make(self, call):
        self.calls += 1
        request = call.arguments.request
        assert request.tellStale
        if request.queueName == "deleted":
            raise QueueNotFound("deleted")
        told = [(each.jobDescriptor, each.claimDescriptor) for each in request.requests]
        lost = [job for job, claim in told if self.claims.get(job) != claim]
        cancelled = [job for job, _ in told if job in self.cancelled and job not in lost]
        if lost or cancelled:
            raise StaleClaims("some", lost, cancelled)
