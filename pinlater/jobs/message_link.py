"""What a context needs of a server to call other jobs and to wait for messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from pinlater.jobs.enqueue_options import CallOptions
from pinlater.jobs.job import Job
from pinlater.model.messages import Parent, ReceivedMessage


class Children(NamedTuple):
    """Jobs to enqueue, which tell their parent of their end; large ones are enqueued by several calls.

    Attributes:
        queue: queue of them all.
        jobs: the jobs, each with its parent.
        options: of their enqueue.
        key: by which a second enqueue of them is known.
    """

    queue: str
    jobs: Sequence[tuple[Job, Parent]]
    options: CallOptions
    key: str


class MessageLink(Protocol):
    """Reads the messages of a job, and enqueues its children."""

    def read(self, name: str, after: int, limit: int) -> Sequence[ReceivedMessage]:
        """Return messages of a name with a larger number than ``after``, in their order; perhaps fewer than there are.

        Raises:
            CallError, ServiceError: no server has answered.
        """

    def enqueue(self, children: Children) -> list[str]:
        """Enqueue children, once however often it is done; return their descriptors in the same order.

        Raises:
            ClientError: they are refused.
            CallError, ServerError: no server took them, as far as we know.
        """

    def now_ms(self) -> int:
        """Return epoch milliseconds, as the server has them."""

    def is_over(self, name: str, until_ms: int) -> bool:
        """Tell whether a wait for messages of a name is over that lasts until epoch milliseconds ``until_ms``."""
