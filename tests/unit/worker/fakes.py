"""What the parts of a worker's process stand on, as fakes that a test drives by hand."""

import os
from collections import deque

from pinlater.errors import ServerUnavailable
from pinlater.protocol.messages import PinLaterDequeueMetadata, PinLaterDequeueResponse
from pinlater.worker.claim_table.table import ClaimTable
from pinlater.worker.session.batch import DequeuedBatch


class FakeChild:
    """A process under no supervisor."""

    def __init__(self, slot=0):
        self.slot = slot
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

    def __init__(self):
        self.is_open = True
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
