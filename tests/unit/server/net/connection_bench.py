"""Connections of a server without a network."""

import asyncio

from pinlater.protocol import messages as wire
from pinlater.protocol.codec import Codec
from pinlater.server.api.calls import CallReply
from tests.support.waiting import until


def enqueue_call(jobs, body=b"", **context):
    request = wire.PinLaterEnqueueRequest("q", [wire.PinLaterJob(body)] * jobs)
    arguments = wire.arguments_of("enqueueJobs")(wire.RequestContext("me", **context), request)
    return Codec().encode_call("enqueueJobs", 1, arguments)


class Network(asyncio.Transport):
    """The loop's side of a connection, and what the peer would read."""

    def __init__(self):
        super().__init__()
        self.sent = []
        self.unread = 0
        self.limit = 65536
        self.is_aborted = self.is_closed = False

    def write(self, data):
        self.sent.append(data)

    def is_closing(self):
        return self.is_aborted or self.is_closed

    def get_write_buffer_size(self):
        return self.unread

    def set_write_buffer_limits(self, high):
        self.limit = high

    def close(self):
        self.is_closed = True

    def pause_reading(self):
        pass

    def resume_reading(self):
        pass

    def abort(self):
        self.is_aborted = True


class Calls:
    """A service that answers at once, or when it is told to."""

    def __init__(self):
        self.begun = 0
        self.answer = CallReply(None)
        self.turns = []
        self.go_on = asyncio.Event()
        self.go_on.set()
        self._turn = 0
        self._neighbour = asyncio.create_task(self._count_turns())

    async def _count_turns(self):
        while True:
            self._turn += 1
            await asyncio.sleep(0)

    async def call(self, *_):
        self.begun += 1
        self.turns.append(self._turn)
        await self.go_on.wait()
        return self.answer


async def settled(calls, count):
    """Wait until so many calls have begun, and what could begin as well has."""
    await until(lambda: calls.begun >= count)
    await asyncio.to_thread(int)
    await asyncio.sleep(0.05)
