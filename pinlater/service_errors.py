"""Errors that a server answers with, and the root of all errors; ``pinlater.errors`` has the complete tree.

The codes are those of the wire contract's ``ErrorCode``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar


class PinLaterError(Exception):
    """Root of all errors of this package except ``JobInterrupted`` and its subclasses."""


class ServiceError(PinLaterError):
    """The server understood the call and refused it.

    Attributes:
        code: number in the wire contract's ``ErrorCode``.
        code_name: its name there, such as ``QUEUE_NOT_FOUND``.
        is_partial: within the server: whether other shards have done their parts of the call.
    """

    code: ClassVar[int] = 500
    code_name: ClassVar[str] = "UNKNOWN"
    is_partial = False


class ClientError(ServiceError):
    """The call is wrong; sending it again unchanged cannot succeed."""


class ContinuationInvalid(ClientError):
    """The continuation of a scan was not returned by a scan."""

    code = 400
    code_name = "CONTINUATION_INVALID"


class PasswordInvalid(ClientError):
    """The admin password is wrong, or the server has no password."""

    code = 403
    code_name = "PASSWORD_INVALID"


class QueueNameInvalid(ClientError):
    """A queue name has characters other than letters, digits and underscores."""

    code = 410
    code_name = "QUEUE_NAME_INVALID"


class QueueNameTooLong(ClientError):
    """A queue name is longer than the stores allow."""

    code = 411
    code_name = "QUEUE_NAME_TOO_LONG"


class QueueNotFound(ClientError):
    """The queue does not exist."""

    code = 413
    code_name = "QUEUE_NOT_FOUND"


class PriorityNotSupported(ClientError):
    """A priority is not between 1 and NUM_PRIORITY_LEVELS."""

    code = 416
    code_name = "PRIORITY_NOT_SUPPORTED"


class DequeueRateLimited(ClientError):
    """The queue is paused, or has reached its rate limit for now."""

    code = 429
    code_name = "DEQUEUE_RATE_LIMITED"


class EnqueueRejected(ClientError):
    """The server does not accept this job, for example because its body is too large."""

    code = 430
    code_name = "ENQUEUE_REJECTED"


class StaleClaims(ClientError):
    """Some jobs of a checkpoint are no longer held under its claim, or are asked to stop; jobs still held were changed.

    Raised only if the request asks for it (``tellStale``).

    Args:
        message: the text of the error.
        job_descriptors: descriptors of the jobs that are no longer held.
        cancelled: descriptors of the jobs that are held but asked to stop.
    """

    code = 440
    code_name = "STALE_CLAIMS"

    def __init__(self, message: str, job_descriptors: Sequence[str] = (), cancelled: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.job_descriptors = tuple(job_descriptors)
        self.cancelled = tuple(cancelled)


class ServerError(ServiceError):
    """The service failed; the same call may succeed later."""


class UnknownError(ServerError):
    """An error that has no code of its own; the message describes it."""


class NoHealthyShards(ServerError):
    """No shard of the store can handle the call now."""

    code = 501
    code_name = "NO_HEALTHY_SHARDS"


class ShardConnectionFailed(ServerError):
    """A shard did not answer, even after retries."""

    code = 502
    code_name = "SHARD_CONNECTION_FAILED"


class CountIncomplete(ShardConnectionFailed):
    """A shard did not answer a count; the client takes it as the count of the others' jobs.

    Raised only if the request asks for it (``tellMissing``).

    Args:
        missing_shards: names of the shards that did not answer.
        count: number of jobs on the others.
    """

    def __init__(self, missing_shards: Sequence[str], count: int) -> None:
        super().__init__(f"shard {', '.join(missing_shards)} does not answer; the others have {count} of the jobs")
        self.missing_shards = tuple(missing_shards)
        self.count = count


SERVICE_ERRORS: dict[int, type[ServiceError]] = {
    kind.code: kind
    for kind in (
        ContinuationInvalid,
        PasswordInvalid,
        QueueNameInvalid,
        QueueNameTooLong,
        QueueNotFound,
        PriorityNotSupported,
        DequeueRateLimited,
        EnqueueRejected,
        StaleClaims,
        UnknownError,
        NoHealthyShards,
        ShardConnectionFailed,
    )
}
"""Error code of the wire -> exception class."""


def service_error(
    code: int, message: str, job_descriptors: Sequence[str] = (), cancelled: Sequence[str] = ()
) -> ServiceError:
    """Create the exception of an error code; an unknown code becomes ``UnknownError``.

    Args:
        code: error code from the wire.
        message: the text of the error.
        job_descriptors: for ``StaleClaims``, descriptors of the jobs that are no longer held.
        cancelled: for ``StaleClaims``, descriptors of the jobs that are asked to stop.
    """
    if code == StaleClaims.code:
        return StaleClaims(message, job_descriptors, cancelled)
    return SERVICE_ERRORS.get(code, UnknownError)(message)
