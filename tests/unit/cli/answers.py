"""What servers answer to the tool."""

import time

from pinlater.protocol import messages
from pinlater.protocol.messages import PinLaterJobInfo

NOW_MS = 1_700_000_000_000


def info(descriptor="email:s1:p1:1", state=0, status="", body=None):
    return PinLaterJobInfo(descriptor, state, 4, 3, status, NOW_MS, NOW_MS, NOW_MS, None, body)


def enqueued(call):
    jobs = call.arguments.request.jobs
    return messages.PinLaterEnqueueResponse([f"email:s1:p1:{number}" for number in range(1, len(jobs) + 1)])


def dequeued(*bodies):
    names = [f"email:s1:p1:{number}" for number in range(1, len(bodies) + 1)]
    about = messages.PinLaterDequeueMetadata(4, 4, "host:1:2:src:3", NOW_MS, NOW_MS)
    return messages.PinLaterDequeueResponse(dict(zip(names, bodies, strict=True)), dict.fromkeys(names, about))


def with_time(answer, ahead_seconds=0.0):
    """Return a function that answers a call for the store's time with that, and any other call with ``answer``."""

    def answered(call):
        if call.method == "getCancelledJobs":
            return messages.PinLaterCancelledJobs([], int((time.time() + ahead_seconds) * 1000))
        return answer

    return answered


def request(server, number=0):
    return server.calls[number].arguments.request
