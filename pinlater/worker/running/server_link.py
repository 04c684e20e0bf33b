"""Calls that a running job makes about other jobs and about messages to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pinlater.client.batches import split_by_bytes
from pinlater.client.jobs import encoder, target_queue
from pinlater.client.servers import STORE_OUT_OF_REACH
from pinlater.errors import QueueNotFound
from pinlater.jobs.enqueue_options import FollowUpOptions
from pinlater.jobs.follow_ups import idempotency_key
from pinlater.jobs.job import Job
from pinlater.jobs.message_link import Children
from pinlater.model.messages import ReceivedMessage
from pinlater.model.trace_context import EnqueueTrace, UntracedEnqueue
from pinlater.worker.running.message_pages import MessagePages
from pinlater.worker.session.saver import FollowUps

if TYPE_CHECKING:
    from pinlater.worker.running.run_context import RunContext

_OWN_SHARD = "shard of the job"
"""Key under which a job waits for its own shard; it is not the name of a step."""


class ServerLink:
    """The ``MessageLink`` of an attempt; it enqueues follow-ups, too.

    Args:
        context: context of the attempt.
    """

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._pages = MessagePages(context.saver, context.descriptor)

    def read(self, name: str, after: int, limit: int) -> Sequence[ReceivedMessage]:
        """Read messages; see ``MessageLink``. If the job's own shard is away, the job waits for it."""
        try:
            with self._context.while_calling():
                found = self._pages.read(name, after, limit)
        except STORE_OUT_OF_REACH as error:
            self._context.wait_while_blocked(_OWN_SHARD, error)
        self._context.body.metadata.accept_record(_OWN_SHARD)
        return found

    def enqueue(self, children: Children) -> list[str]:
        """Enqueue children; see ``MessageLink``."""
        with self._trace(children.queue) as sending:
            encoding = encoder(children.options, sending.trace, self._context.server_seconds)
            stored: list[str] = []
            structs = (encoding.struct(job, parent) for job, parent in children.jobs)
            for number, some in enumerate(split_by_bytes(structs)):
                # Also how many, since a key finds only as many: an attempt that was killed before it saved what it
                # called may have called fewer.
                key = idempotency_key(f"{children.key}/{number}/{len(some)}", self._context.created_at_ms)
                stored += self._send(FollowUps(children.queue, some, key, self._may_be_there))
            sending.record_stored([children.queue], len(stored), stored[0] if len(stored) == 1 else "")
        return stored

    def enqueue_follow_up(self, job: Job, key: str, options: FollowUpOptions) -> str:
        """Enqueue a follow-up, which ``key`` identifies; return its descriptor."""
        queue = target_queue(job, options.get("queue"))
        with self._trace(queue) as sending:
            struct = encoder(options, sending.trace, self._context.server_seconds).struct(job)
            call_key = idempotency_key(key, self._context.created_at_ms)
            [descriptor] = self._send(FollowUps(queue, [struct], call_key, self._may_be_there))
            sending.record_stored([queue], 1, descriptor)
        return descriptor

    def _trace(self, queue: str) -> EnqueueTrace:
        trace = self._context.run_trace
        return UntracedEnqueue(self._context.trace_context) if trace is None else trace.trace_enqueue(queue)

    @property
    def _may_be_there(self) -> bool:
        """Whether an earlier attempt may have enqueued the same jobs, without an answer."""
        return self._context.attempt > 1 or self._context.body.metadata.mismatch is not None

    def _send(self, follow_ups: FollowUps) -> list[str]:
        """Enqueue other jobs; if their queue is missing, or the shard that they belong on is away, wait for it."""
        context, missing = self._context, f"queue {follow_ups.queue}"
        try:
            with context.while_calling():
                stored = context.saver.enqueue(follow_ups)
        except (QueueNotFound, *STORE_OUT_OF_REACH) as error:
            context.wait_while_blocked(missing, error)
        context.body.metadata.accept_record(missing)
        return stored

    def now_ms(self) -> int:
        """Return epoch milliseconds; see ``MessageLink``."""
        return self._context.now_ms

    def is_over(self, name: str, until_ms: int) -> bool:  # noqa: ARG002 - all have the same clock
        """Tell whether a wait is over; see ``MessageLink``."""
        return self.now_ms() >= until_ms
