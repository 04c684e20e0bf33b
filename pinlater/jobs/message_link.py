"""What a context needs from a server to call other jobs and to wait for messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from pinlater.jobs.enqueue_options import CallOptions
from pinlater.jobs.job import Job
from pinlater.model.messages import Parent, ReceivedMessage


class Children(NamedTuple):
    """Jobs to enqueue that notify their parent when they end; several calls enqueue them if they are large.

    Attributes:
        queue: the queue of all of them.
        jobs: the jobs, each with its parent.
        options: options of their enqueue.
        key: identifies this enqueue, so that it is carried out once.
    """

    queue: str
    jobs: Sequence[tuple[Job, Parent]]
    options: CallOptions
    key: str


class MessageLink(Protocol):
    """Reads the messages of a job, and enqueues its children."""

    def read(self, name: str, after: int, limit: int) -> Sequence[ReceivedMessage]:
        """Return up to ``limit`` messages of a name with numbers above ``after``, in order; there may be more.

        Raises:
            CallError, ServiceError: no server has answered.
        """

    def enqueue(self, children: Children) -> list[str]:
        """Enqueue children, once even if this is repeated; return their descriptors in the same order.

        Raises:
            ClientError: the server refuses them.
            CallError, ServerError: no server has stored them, as far as known.
        """

    def now_ms(self) -> int:
        """Return the server's time, in epoch milliseconds."""

    def is_over(self, name: str, until_ms: int) -> bool:
        """Return whether a wait for messages of a name has timed out; it ends at epoch milliseconds ``until_ms``."""
