"""Every error a user of PinLater can meet, as one tree.

::

    PinLaterError
    ├── ServiceError                 the server answered with an error code
    │   ├── ClientError              4xx: the caller has to change something
    │   │   ├── ContinuationInvalid  PasswordInvalid   QueueNameInvalid  QueueNameTooLong
    │   │   ├── QueueNotFound        PriorityNotSupported  DequeueRateLimited  EnqueueRejected
    │   │   └── StaleClaims          of a checkpoint that asked to be told of them
    │   └── ServerError              5xx: the service has to recover
    │       └── UnknownError         NoHealthyShards   ShardConnectionFailed
    ├── CallError                    no usable answer came
    │   ├── ServerUnavailable        no server could be reached, or the connection was lost
    │   │   ├── NotConnected         none could be reached, so nothing was sent
    │   │   └── ServerStopping       the server stops, and has not carried the call out
    │   ├── CallTimeout              the answer did not come within the deadline
    │   └── ProtocolError            the peer does not speak our Thrift
    │       └── CallUnsendable       the call holds what Thrift cannot carry, or too much of it
    ├── JobError                     a statement about one job
    │   ├── Retry                    run again after the given time, instead of the class's backoff
    │   ├── Discard                  give the job up now, whatever attempts remain
    │   ├── JobTimeout               the job runs for longer than its timeout
    │   │   ├── JobStalled           it has given no sign of progress for its stall_after
    │   │   └── JobExpired           its give_up_after is over, whatever attempts remain
    │   ├── BodyInvalid              the body is not a record of a registered job class
    │   └── BodyTooLarge
    └── ConfigError                  a setting, file or option is wrong; programs exit with 78

    JobInterrupted(BaseException)    a drain asks the running job to stop here
    ├── JobSleeps                    the job asked to go on at a later moment
    └── ClaimLost                    the job is no longer this worker's: it was deleted, or given to somebody else

The codes are those of the wire contract's ``ErrorCode``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

EXIT_UNAVAILABLE = 69
"""Exit status of a program whose server or store cannot be reached (``EX_UNAVAILABLE``)."""

EXIT_CONFIG = 78
"""Exit status of a program that was set up wrongly (``EX_CONFIG``)."""


class PinLaterError(Exception):
    """Root of all errors of this package, ``JobInterrupted`` and ``JobSleeps`` excepted."""


class ServiceError(PinLaterError):
    """The server understood the call and refused it.

    Attributes:
        code: number of the wire contract's ``ErrorCode``.
        code_name: its name, such as ``QUEUE_NOT_FOUND``.
    """

    code: ClassVar[int] = 500
    code_name: ClassVar[str] = "UNKNOWN"


class ClientError(ServiceError):
    """The call is at fault; sending it again unchanged cannot help."""


class ContinuationInvalid(ClientError):
    """A scan was continued with something that no scan has returned."""

    code = 400
    code_name = "CONTINUATION_INVALID"


class PasswordInvalid(ClientError):
    """The admin password is wrong, or the server has none configured."""

    code = 403
    code_name = "PASSWORD_INVALID"


class QueueNameInvalid(ClientError):
    """A queue name has characters other than letters, digits and underscore."""

    code = 410
    code_name = "QUEUE_NAME_INVALID"


class QueueNameTooLong(ClientError):
    """A queue name is longer than every store can keep."""

    code = 411
    code_name = "QUEUE_NAME_TOO_LONG"


class QueueNotFound(ClientError):
    """No queue of that name was created."""

    code = 413
    code_name = "QUEUE_NOT_FOUND"


class PriorityNotSupported(ClientError):
    """A priority is outside 1..NUM_PRIORITY_LEVELS."""

    code = 416
    code_name = "PRIORITY_NOT_SUPPORTED"


class DequeueRateLimited(ClientError):
    """The queue is paused, or has handed out all that its rate allows for now."""

    code = 429
    code_name = "DEQUEUE_RATE_LIMITED"


class EnqueueRejected(ClientError):
    """The server does not take this job, for instance because its body is too large."""

    code = 430
    code_name = "ENQUEUE_REJECTED"


class StaleClaims(ClientError):
    """Some jobs of a checkpoint are no longer held under the claim that it named; the others were changed.

    Only those are told who ask for it (``tellStale`` of the request).

    Args:
        message: what it says.
        job_descriptors: of those jobs.
    """

    code = 440
    code_name = "STALE_CLAIMS"

    def __init__(self, message: str, job_descriptors: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.job_descriptors = tuple(job_descriptors)


class ServerError(ServiceError):
    """The service is at fault; the same call may work later."""


class UnknownError(ServerError):
    """Anything that has no code of its own; the message says what."""


class NoHealthyShards(ServerError):
    """No shard of the store is left that could take the call."""

    code = 501
    code_name = "NO_HEALTHY_SHARDS"


class ShardConnectionFailed(ServerError):
    """A shard did not answer, also after retries."""

    code = 502
    code_name = "SHARD_CONNECTION_FAILED"


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
"""Error code of the wire -> the exception a client raises."""


def service_error(code: int, message: str, job_descriptors: Sequence[str] = ()) -> ServiceError:
    """Return the exception for an error code; a code we do not know becomes ``UnknownError``.

    Args:
        code: of the wire.
        message: what happened.
        job_descriptors: of the jobs that ``StaleClaims`` is about.
    """
    if code == StaleClaims.code:
        return StaleClaims(message, job_descriptors)
    return SERVICE_ERRORS.get(code, UnknownError)(message)


class CallError(PinLaterError):
    """No usable answer came; whether the server carried the call out is not known."""


class ServerUnavailable(CallError):
    """No server of the set could be reached, or the connection broke."""


class NotConnected(ServerUnavailable):
    """No server of the set could be reached: nothing was sent, so the call was certainly not carried out.

    Args:
        reasons: of each server that was tried, why.
    """

    def __init__(self, reasons: str) -> None:
        super().__init__(reasons)
        self.reasons = reasons

    def __str__(self) -> str:
        return (
            f"cannot reach {self.reasons}; is pinlater-server running? "
            'choose another with Client("host:port") or PINLATER_SERVERS'
        )


class ServerStopping(ServerUnavailable):
    """The server stops, and said that it has not carried out the call and will not; another one may."""


class CallTimeout(CallError):
    """The answer did not come within the call's deadline."""


class ProtocolError(CallError):
    """The peer sent bytes that are not the expected Thrift message, or refused ours."""


class CallUnsendable(ProtocolError):
    """A value of the call is one that its type cannot carry, or all is too large; nothing was sent."""


class JobError(PinLaterError):
    """Says something about one job."""


class Retry(JobError):
    """Raised by a job: this attempt failed, try again ``after`` seconds instead of the policy's delay.

    Args:
        after: seconds until the next attempt; None leaves the delay to the class's backoff.
        reason: text for the job's status.

    Raises:
        TypeError: ``after`` is no number, such as a reason that was given in its place.
        ValueError: it is negative.
    """

    def __init__(self, after: float | None = None, reason: str = "") -> None:
        if isinstance(after, str):
            raise TypeError(
                f"Retry({after!r}): after is a number of seconds; of a reason, write Retry(reason={after!r})"
            )
        if after is not None and after < 0:
            raise ValueError(f"Retry(after={after}): the delay is in seconds and cannot be negative")
        super().__init__(reason or (f"retry after {after:g} s" if after is not None else "retry"))
        self.after = after
        self.reason = reason


class Discard(JobError):
    """Raised by a job: give it up now; it becomes FAILED whatever attempts remain."""


class JobTimeout(JobError):
    """Raised in a job that runs for longer than its ``timeout``: the attempt fails, unless it is caught.

    A coroutine that waits gets ``asyncio.CancelledError`` instead, as with ``asyncio.timeout``; its attempt fails
    with a ``JobTimeout`` all the same.
    """


class JobStalled(JobTimeout):
    """Raised in a job that gives no sign of progress for its ``stall_after``; in every other way a ``JobTimeout``."""


class JobExpired(JobTimeout):
    """Raised in a job that still runs when its ``give_up_after`` is over: it fails for good, unless that is caught."""


class BodyInvalid(JobError):
    """A body does not decode into the record of a registered job class."""


class BodyTooLarge(JobError):
    """A body is larger than the configured limit."""


class ConfigError(PinLaterError):
    """A setting, file or option is wrong; the message says which, and what to write instead."""


class JobInterrupted(BaseException):
    """The running job is asked to stop here; it goes on later from its checkpoint, no attempt spent.

    Not an ``Exception``, so that a job's own ``except Exception`` does not swallow it. If it is swallowed all the same,
    the job goes back as it was when it was interrupted, and each later call of the context raises it again.

    Attributes:
        was_swallowed: whether the job returned, or raised something else.
    """

    was_swallowed = False

    @property
    def weight(self) -> float:
        """Which of several counts: the heaviest."""
        return 0.0

    def again(self) -> JobInterrupted:
        """Return one that says the same, to be raised where the job goes on all the same."""
        return JobInterrupted(*self.args)


class JobSleeps(JobInterrupted):
    """Raised by the context's sleeps, and by steps that are tried again: the job goes on later, no attempt spent.

    Args:
        until_ms: epoch milliseconds before which it does not go on.
    """

    def __init__(self, until_ms: int) -> None:
        super().__init__(f"sleeps until {until_ms / 1000:.3f}")
        self.until_ms = until_ms

    @property
    def weight(self) -> float:
        """Of several sleeps the longest counts."""
        return float(self.until_ms)

    def again(self) -> JobSleeps:
        """Return one that says the same."""
        return JobSleeps(self.until_ms)


class ClaimLost(JobInterrupted):
    """Raised in a job that is no longer this worker's: its claim has ended, or it was deleted. Let it pass.

    Whatever the attempt would still do, somebody else may be doing by now; and nothing that becomes of it counts. It is
    raised at the next call of the context. An ``async def`` job that waits gets ``asyncio.CancelledError`` instead.
    """

    @property
    def weight(self) -> float:
        """Nothing else counts then."""
        return math.inf

    def again(self) -> ClaimLost:
        """Return one that says the same."""
        return ClaimLost(*self.args)


def interruption_in(error: BaseException) -> JobInterrupted | None:
    """Return the interruption that ``error`` is, or that a group of nothing but interruptions is, as of a task group.

    Of several sleeps it is the longest.
    """
    if isinstance(error, JobInterrupted):
        return error
    if not isinstance(error, BaseExceptionGroup):
        return None
    found = [interruption_in(inner) for inner in error.exceptions]
    if None in found:
        return None
    return max(filter(None, found), key=lambda each: each.weight)
