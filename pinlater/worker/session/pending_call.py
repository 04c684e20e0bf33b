"""A call that a job waits for while the main thread, which owns the connection, makes it."""

from __future__ import annotations

import time
from concurrent.futures import Future
from typing import Any

from pinlater.protocol.operations import Call


class PendingCall:
    """A call without a reply yet.

    Attributes:
        call: what to send.
        deadline: until when it is retried; monotonic seconds.
        retry_at: when it is retried; monotonic seconds.
        reply: its result or error; cancelling an ``await`` does not cancel it.
        blocks_others: whether all jobs of an event loop wait for the reply.
    """

    __slots__ = ("blocks_others", "call", "deadline", "reply", "retry_at")

    def __init__(self, call: Call[Any], patience_seconds: float, *, blocks_others: bool = False) -> None:
        self.call = call
        self.deadline = time.monotonic() + patience_seconds
        self.retry_at = 0.0
        self.blocks_others = blocks_others
        self.reply: Future[Any] = uncancellable()

    def replace(self, other: PendingCall) -> None:
        """Replace an older save, which is not sent any more; those who wait for that one get the reply to this one."""
        self.deadline = max(self.deadline, other.deadline)
        self.retry_at = other.retry_at
        self.blocks_others |= other.blocks_others
        self.reply.add_done_callback(lambda reply: _pass_on(reply, other.reply))


def _pass_on(reply: Future[Any], other: Future[Any]) -> None:
    error = reply.exception()
    if error is None:
        other.set_result(reply.result())
    else:
        other.set_exception(error)


def uncancellable() -> Future[Any]:
    """Return a future that is not cancelled together with an ``await`` of it."""
    future: Future[Any] = Future()
    future.set_running_or_notify_cancel()
    return future
