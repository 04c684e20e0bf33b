"""Calls that a running job makes about other jobs and about messages to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from pinlater.client.batches import split_by_bytes
from pinlater.client.jobs import encoder
from pinlater.jobs.follow_ups import idempotency_key
from pinlater.jobs.message_link import Children
from pinlater.model.messages import ReceivedMessage
from pinlater.model.trace_context import EnqueueTrace
from pinlater.worker.running.message_pages import MessagePages
from pinlater.worker.session.saver import FollowUps


@dataclass(frozen=True, slots=True)
class ServerLink:
    """The ``MessageLink`` of an attempt.

    Attributes:
        pages: reads messages.
        created_at_ms: when the job was enqueued, epoch milliseconds; None if the server does not tell.
        may_repeat: whether an earlier attempt may have made the same calls.
        now: returns epoch seconds of the server's clock.
        calling: returns a context for a call, during which the job does not count as stalled.
        reading: returns a context for reading messages, in which the job waits if its shard is away.
        tracing: returns the trace of an enqueue in a queue.
        send: enqueues jobs with one call.
    """

    pages: MessagePages
    created_at_ms: int | None
    may_repeat: bool
    now: Callable[[], float]
    calling: Callable[[], AbstractContextManager[None]]
    reading: Callable[[], AbstractContextManager[None]]
    tracing: Callable[[str], EnqueueTrace]
    send: Callable[[FollowUps], list[str]]

    def read(self, name: str, after: int, limit: int) -> Sequence[ReceivedMessage]:
        """Read messages; see ``MessageLink``."""
        with self.reading(), self.calling():
            return self.pages.read(name, after, limit)

    def enqueue(self, children: Children) -> list[str]:
        """Enqueue children; see ``MessageLink``."""
        with self.tracing(children.queue) as sending:
            encoding = encoder(children.options, sending.trace, self.now)
            stored: list[str] = []
            structs = (encoding.struct(job, parent) for job, parent in children.jobs)
            for number, some in enumerate(split_by_bytes(structs)):
                # Also how many, since a key finds only as many: an attempt that was killed before it saved what it
                # called may have called fewer.
                key = idempotency_key(f"{children.key}/{number}/{len(some)}", self.created_at_ms)
                stored += self.send(FollowUps(children.queue, some, key, self.may_repeat))
            sending.record_stored([children.queue], len(stored), stored[0] if len(stored) == 1 else "")
        return stored

    def now_ms(self) -> int:
        """Return epoch milliseconds; see ``MessageLink``."""
        return int(self.now() * 1000)

    def is_over(self, name: str, until_ms: int) -> bool:  # noqa: ARG002 - all have the same clock
        """Tell whether a wait is over; see ``MessageLink``."""
        return self.now_ms() >= until_ms
