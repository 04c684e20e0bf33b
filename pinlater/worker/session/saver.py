"""What a running job asks of the servers: checkpoints, follow-up jobs and messages."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import NamedTuple, TypeVar

from pinlater.errors import (
    BodyTooLarge,
    CallError,
    CallUnsendable,
    CallUnsupported,
    EnqueueRejected,
    ServerError,
    StaleClaims,
)
from pinlater.model.messages import Message, ReceivedMessage
from pinlater.protocol.messages import PinLaterJob
from pinlater.worker.session.batch import DequeuedBatch

_T = TypeVar("_T")

log = logging.getLogger(__name__)


class Snapshot(NamedTuple):
    """What a save stores for a job.

    Attributes:
        body: its current body; None: the server keeps the one that it has.
        keeps: messages to store for the job's later attempts.
    """

    body: bytes | None
    keeps: Sequence[Message] = ()


Encode = Callable[[], Snapshot]
"""Returns what to store for a job."""


class FollowUps(NamedTuple):
    """Jobs that a running job enqueues, all or none.

    Attributes:
        queue: their queue.
        jobs: the jobs, as they are sent.
        key: idempotency key of the call.
        may_be_there: an earlier attempt may have enqueued them, on any shard.
    """

    queue: str
    jobs: list[PinLaterJob]
    key: bytes
    may_be_there: bool


class Saver(ABC):
    """Carries out what running jobs ask of the servers.

    Attributes:
        is_saving: whether a call of the main thread is under way.
        patience_seconds: how long a call is retried while no server is reachable; the lease.
    """

    is_saving = False
    patience_seconds = 30.0

    @property
    @abstractmethod
    def is_draining(self) -> bool:
        """Whether jobs should stop at their next checkpoint."""

    @property
    @abstractmethod
    def keeps_messages(self) -> bool:
        """Whether servers can store messages with a save, as far as known; those of older versions cannot."""

    @abstractmethod
    def is_stored(self, message_id: str) -> bool:
        """Tell whether a message is known to be stored with a save; says so only once for each."""

    @abstractmethod
    def save(self, batch: DequeuedBatch, position: int, encode: Encode) -> bool:
        """Replace a job's body; return False if no server took it in time.

        Args:
            batch: the job's batch.
            position: its position there.
            encode: called when it is this save's turn, so that saves of several threads are sent in the order in which
                they are encoded.

        Raises:
            BodyInvalid: ``encode`` raised it.
            BodyTooLarge: the server does not take a body of this size.
        """

    @abstractmethod
    def save_briefly(self, batch: DequeuedBatch, position: int, encode: Encode) -> bool:
        """Save like ``save``, but try once, without waiting for a slow server."""

    def submit(self, batch: DequeuedBatch, position: int, encode: Encode) -> Future[bool]:
        """Save like ``save``; return a future, for callers that can wait without blocking others."""
        return fulfilled(Future(), partial(self.save, batch, position, encode))

    @abstractmethod
    def enqueue(self, follow_ups: FollowUps) -> list[str]:
        """Enqueue follow-ups, once however often the call is sent; return their descriptors.

        Raises:
            ClientError: the server refused them.
            CallError, ServerError: no server took them in time, as far as is known.
        """

    @abstractmethod
    def read_messages(self, descriptor: str, name: str, after: int, limit: int) -> list[ReceivedMessage]:
        """Return messages of a job; see ``Calls.read_messages``.

        Raises:
            CallError, ServiceError: no server has answered in time.
        """

    @abstractmethod
    def ask_messages(
        self, descriptor: str, name: str, after: int, limit: int
    ) -> Callable[[], Sequence[ReceivedMessage]]:
        """Request messages before they are needed; return a function that waits for them, and returns none on error."""


def settle_save(batch: DequeuedBatch, position: int, call: Callable[[], object]) -> bool:
    """Make the call of a save, or get its reply; mark the job if it is not to go on.

    Returns:
        False if the body was not saved.

    Raises:
        BodyTooLarge: the server does not take a body of this size.
        CallUnsupported: the server is of an older version.
    """
    try:
        call()
    except StaleClaims as error:
        if batch.descriptors[position] in error.cancelled:
            batch.mark_cancelled(position)
        else:
            batch.mark_lost(position)
    except (EnqueueRejected, CallUnsendable) as error:
        raise BodyTooLarge(str(error)) from error
    except CallUnsupported:
        raise
    except (CallError, ServerError) as error:
        log.warning("cannot save a checkpoint: %s", error)
        return False
    return True


def is_transient(error: Exception) -> bool:
    """Tell whether the same call may succeed later."""
    return isinstance(error, CallError | ServerError) and not isinstance(error, CallUnsendable | CallUnsupported)


def fulfilled(future: Future[_T], function: Callable[[], _T]) -> Future[_T]:
    """Set a future to what ``function`` returns or raises."""
    try:
        future.set_result(function())
    except Exception as error:  # noqa: BLE001 - it is raised where the result is asked for
        future.set_exception(error)
    return future
