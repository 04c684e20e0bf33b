"""All errors of PinLater, as one tree of classes.

::

    PinLaterError
    ├── ServiceError                 the server answered with an error code
    │   ├── ClientError              4xx: the caller has to change something
    │   │   ├── ContinuationInvalid  PasswordInvalid   QueueNameInvalid  QueueNameTooLong
    │   │   ├── QueueNotFound        PriorityNotSupported  DequeueRateLimited  EnqueueRejected
    │   │   └── StaleClaims          jobs of a checkpoint are no longer claimed
    │   └── ServerError              5xx: the service has to recover
    │       └── UnknownError         NoHealthyShards   ShardConnectionFailed
    ├── CallError                    the client got no valid reply
    │   ├── ServerUnavailable        no server could be reached, or the connection was lost
    │   │   ├── NotConnected         no server could be reached, so nothing was sent
    │   │   └── ServerStopping       the server is stopping, and has not carried out the call
    │   ├── CallTimeout              no reply came before the deadline
    │   │   └── JobUnfinished        a job did not end before a wait for it timed out
    │   └── ProtocolError            the server sent an invalid or unexpected message
    │       ├── CallUnsendable       the call is too large, or a value cannot be encoded
    │       └── CallUnsupported      the server is of an older version that does not know the call
    ├── JobError                     about a single job
    │   ├── Retry                    try again after the given time, instead of the class's backoff
    │   ├── Discard                  fail the job now, even if attempts remain
    │   ├── JobTimeout               the job has run longer than its timeout
    │   │   ├── JobStalled           it has made no progress for its stall_after
    │   │   └── JobExpired           its give_up_after has passed, even if attempts remain
    │   ├── StepTimeout              a step has run longer than its timeout
    │   ├── SagaUndone               the job was given up, and its sagas are undone
    │   ├── UndoFailed               a step of a saga cannot be undone
    │   ├── StepMismatch             the code calls a step differently than was recorded
    │   ├── WaitTimeout              what the job waits for did not come in time
    │   │   ├── EventTimeout         an event
    │   │   └── JoinTimeout          the end of the jobs that it has called
    │   ├── EventInvalid             the value of an event does not fit its type
    │   ├── BodyInvalid              the body does not decode into a known job class
    │   ├── BodyTooLarge             the body is larger than allowed
    │   ├── ResultInvalid            the result of a job does not fit the result type of its class
    │   ├── ResultTooLarge           the result of a job is larger than its class allows
    │   └── JobFailed                a job whose result somebody waits for has failed for good
    │       ├── JobWasCancelled      it was cancelled
    │       └── JobGone              it was deleted, or is unknown
    └── ConfigError                  a setting, file or option is wrong; programs exit with 78
        └── AddressMissing           the address to listen on is not there, but may be later; programs exit with 69

    JobInterrupted(BaseException)    the running job is asked to stop here, for example by a drain
    ├── JobSleeps                    the job asked to continue later
    ├── JobCancelled                 the job was cancelled
    └── ClaimLost                    the job is no longer claimed by this worker

The codes are those of the wire contract's ``ErrorCode``.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Sequence
from typing import Any

from pinlater.service_errors import (  # users import all errors from here; type checkers take only `X as X` for that
    SERVICE_ERRORS as SERVICE_ERRORS,
    ClientError as ClientError,
    ContinuationInvalid as ContinuationInvalid,
    CountIncomplete as CountIncomplete,
    DequeueRateLimited as DequeueRateLimited,
    EnqueueRejected as EnqueueRejected,
    NoHealthyShards as NoHealthyShards,
    PasswordInvalid as PasswordInvalid,
    PinLaterError as PinLaterError,
    PriorityNotSupported as PriorityNotSupported,
    QueueNameInvalid as QueueNameInvalid,
    QueueNameTooLong as QueueNameTooLong,
    QueueNotFound as QueueNotFound,
    ServerError as ServerError,
    ServiceError as ServiceError,
    ShardConnectionFailed as ShardConnectionFailed,
    StaleClaims as StaleClaims,
    UnknownError as UnknownError,
    service_error as service_error,
)

EXIT_UNAVAILABLE = 69
"""Exit status of a program whose server or store cannot be reached (``EX_UNAVAILABLE``)."""

EXIT_CONFIG = 78
"""Exit status of a program with wrong settings (``EX_CONFIG``)."""


class CallError(PinLaterError):
    """The client got no valid reply; whether the call was carried out is unknown."""


class ServerUnavailable(CallError):
    """No server could be reached, or the connection was lost."""


class NotConnected(ServerUnavailable):
    """No server could be reached: nothing was sent, so the call was not carried out.

    Args:
        reasons: why, for each server that was tried.
    """

    def __init__(self, reasons: str) -> None:
        super().__init__(reasons)
        self.reasons = reasons

    def __str__(self) -> str:
        return (
            f"cannot reach {self.reasons}; is pinlater-server running? "
            'name another server with Client("host:port") or PINLATER_SERVERS'
        )


class ServerStopping(ServerUnavailable):
    """The server is stopping, and has not carried out the call; another server may."""


class CallTimeout(CallError):
    """No reply came before the deadline of the call."""


class JobUnfinished(CallTimeout):
    """A job did not end before a wait for it timed out; the job itself is not affected."""


class ProtocolError(CallError):
    """The server sent an unexpected or invalid message, or refused ours."""


class CallUnsendable(ProtocolError):
    """The call is too large, or a value cannot be encoded; nothing was sent."""


class CallUnsupported(ProtocolError):
    """The server does not know the call: it is an older version, or the original service. Upgrade the servers first."""


class JobError(PinLaterError):
    """An error about a single job."""


class Retry(JobError):
    """Raised by a job: this attempt failed; try again after ``after`` seconds instead of the backoff's delay.

    Args:
        after: seconds until the next attempt; None uses the class's backoff.
        reason: text for the job's status; without one, it is that of the exception that the job has caught, if any:
            ``raise Retry(after=30) from error``.

    Raises:
        TypeError: ``after`` is not a number, for example a reason given in its place.
        ValueError: ``after`` is negative.
    """

    def __init__(self, after: float | None = None, reason: str = "") -> None:
        try:
            is_negative = after is not None and after < 0
        except TypeError:
            hint = f"; to give a reason, write Retry(reason={after!r})" if isinstance(after, str) else ""
            raise TypeError(f"Retry({after!r}): after is a number of seconds{hint}") from None
        if is_negative:
            raise ValueError(f"Retry(after={after}): the delay in seconds cannot be negative")
        super().__init__(reason or (f"retry after {after:g} s" if after is not None else "retry"))
        self.after = after
        self.reason = reason


class Discard(JobError):
    """Raised by a job to fail at once: it becomes FAILED even if attempts remain."""


class JobTimeout(JobError):
    """Raised in a job that runs longer than its ``timeout``: the attempt fails unless the job catches the exception.

    A waiting coroutine gets ``asyncio.CancelledError`` instead, as with ``asyncio.timeout``; its attempt still fails
    with ``JobTimeout``.
    """


class JobStalled(JobTimeout):
    """Raised in a job that makes no progress for ``stall_after`` seconds; otherwise like ``JobTimeout``."""


class JobExpired(JobTimeout):
    """Raised in a job that still runs when ``give_up_after`` has passed: it fails for good unless it catches this."""


class StepTimeout(JobError):
    """Raised in a step that runs longer than its ``timeout``: the step has failed and may be retried; see ``timed``.

    Attributes:
        step: key under which the step is recorded; empty until the exception has left the step.
    """

    step = ""


class SagaUndone(JobError):
    """Raised in a job that was given up, at the first step that had not finished: its sagas are undone next."""


class UndoFailed(JobError):
    """Undoing a step of a saga failed; it is tried again as long as attempts remain."""


class StepMismatch(JobError):
    """The running code does not match what was recorded for a step: its call has changed, or the type of its result.

    In a worker the job waits, without spending attempts, for code that matches; see ``JobContext.step``.
    """


class WaitTimeout(JobError):
    """Raised in a job whose wait has reached its ``timeout``."""


class EventTimeout(WaitTimeout):
    """No event came in time; one that comes later goes to the job's next ``wait_for``."""


class JoinTimeout(WaitTimeout):
    """Not all called jobs ended in time; the others keep running, but their results are not delivered."""


class EventInvalid(JobError):
    """The value of an event does not fit the type that the job waits for; the event counts as delivered."""


class BodyInvalid(JobError):
    """The body does not decode into a known job class."""


class BodyTooLarge(JobError):
    """The body is larger than allowed."""


class ResultInvalid(JobError):
    """The result of a job does not fit the result type of its class, or cannot be decoded as that type."""


class ResultTooLarge(JobError):
    """The result of a job is larger than its class allows; the attempt fails, and the job is given up."""


class JobFailed(JobError):
    """A job whose result somebody waits for has failed for good.

    Args:
        message: the text of the error.
        descriptor: descriptor of the job; empty if not known.
        status: its custom status, or the end of it.
        failed_attempts: its known failed attempts, the oldest first; see ``JobInfo.failed_attempts``.
    """

    def __init__(
        self, message: str, descriptor: str = "", status: str = "", failed_attempts: Sequence[Any] = ()
    ) -> None:
        super().__init__(message)
        self.descriptor = descriptor
        self.status = status
        self.failed_attempts = tuple(failed_attempts)


class JobWasCancelled(JobFailed):
    """A job whose result somebody waits for was cancelled."""


class JobGone(JobFailed):
    """A job whose result somebody waits for was deleted, or is unknown: finished jobs are deleted after a while."""


class ConfigError(PinLaterError):
    """A setting, file or option is wrong; the message names it and says what to write instead.

    Attributes:
        exit_status: exit status of a program that ends with this error.
    """

    exit_status = EXIT_CONFIG


class AddressMissing(ConfigError):
    """The address to listen on is not there, but may be later: the network may not be up yet, or not know the name."""

    exit_status = EXIT_UNAVAILABLE


class JobInterrupted(BaseException):
    """Asks the running job to stop here; it continues later from its checkpoint, and no attempt is spent.

    Not an ``Exception``, so that a job's own ``except Exception`` does not catch it. If the job catches it anyway, it
    goes back as it was when interrupted, and each later call of the context raises the interruption again.

    Attributes:
        was_swallowed: whether the job caught it and returned, or raised something else.
    """

    was_swallowed = False

    @property
    def weight(self) -> float:
        """Which of several interruptions wins: the one with the largest weight."""
        return 0.0

    def again(self) -> JobInterrupted:
        """Return a copy, to raise again in a job that has caught this interruption."""
        return JobInterrupted(*self.args)


class JobSleeps(JobInterrupted):
    """Raised by the context's sleeps and by retried steps: the job continues later, and no attempt is spent.

    Args:
        until_ms: earliest time at which it continues, epoch milliseconds.
    """

    def __init__(self, until_ms: int) -> None:
        super().__init__(time.strftime("sleeps until %Y-%m-%dT%H:%M:%SZ", time.gmtime(until_ms / 1000)))
        self.until_ms = until_ms

    @property
    def weight(self) -> float:
        """The longest of several sleeps wins."""
        return float(self.until_ms)

    def again(self) -> JobSleeps:
        """Return a copy."""
        return JobSleeps(self.until_ms)


class JobCancelled(JobInterrupted):
    """Raised in a running job that was cancelled: it stops here, and does not run again. Do not catch it.

    It is raised at the next call of the context; ``finally`` blocks run. A waiting ``async def`` job gets
    ``asyncio.CancelledError`` instead. A job that returns before it notices has succeeded.
    """

    @property
    def weight(self) -> float:
        """A cancellation wins over drains and sleeps."""
        return sys.float_info.max

    def again(self) -> JobCancelled:
        """Return a copy."""
        return JobCancelled(*self.args)


class ClaimLost(JobInterrupted):
    """Raised in a job that this worker no longer holds: its claim has ended, or it was deleted. Do not catch it.

    Another worker may be running the job by now, and the result of this attempt is ignored. It is raised at the next
    call of the context. A waiting ``async def`` job gets ``asyncio.CancelledError`` instead.
    """

    @property
    def weight(self) -> float:
        """A lost claim wins over any other interruption."""
        return math.inf

    def again(self) -> ClaimLost:
        """Return a copy."""
        return ClaimLost(*self.args)


def interruption_in(error: BaseException) -> JobInterrupted | None:
    """Return ``error`` if it is an interruption, or the heaviest one of a group that contains only interruptions.

    Such groups come from task groups. Return None for any other error.
    """
    if isinstance(error, JobInterrupted):
        return error
    if not isinstance(error, BaseExceptionGroup):
        return None
    found = [interruption_in(inner) for inner in error.exceptions]
    if None in found:
        return None
    return max(filter(None, found), key=lambda each: each.weight)
