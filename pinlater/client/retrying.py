"""Retries of calls: which failures are retried, when, and what is raised in the end."""

from __future__ import annotations

import time
from typing import Any

import tenacity

from pinlater.errors import (
    CallTimeout,
    NoHealthyShards,
    NotConnected,
    PinLaterError,
    ProtocolError,
    ServerStopping,
    ServerUnavailable,
    ShardConnectionFailed,
)
from pinlater.protocol.idempotency import may_have_been_carried_out
from pinlater.protocol.operations import Call

_FIRST_WAIT_SECONDS = 0.05
_LONGEST_WAIT_SECONDS = 0.25


def is_retryable(call: Call[Any], error: BaseException) -> bool:
    """Tell whether ``call`` may be sent again after ``error``; mark it as a repeat if it may have been carried out.

    A call that was certainly not carried out is always retried. If that is unknown, it is retried if repeating it is
    harmless, or if the server recognizes it by its idempotency key. A call that the server refused is not retried.
    """
    if isinstance(error, (NotConnected, ServerStopping, NoHealthyShards)):
        return True
    if not isinstance(error, (ServerUnavailable, CallTimeout, ShardConnectionFailed)):
        return False
    may_have_been_carried_out(call.arguments)
    return call.safe_to_repeat or call.has_key


def shorten_wait(call: Call[Any], seconds: float) -> None:
    """Let the server park ``call`` for at most ``seconds``; do nothing if it is to be parked for no longer, or not."""
    most = max(seconds, 0.0)
    if call.wait > most:
        call.wait, call.arguments.request.waitMillis = most, int(most * 1000)


class CallRetries:
    """Retries of one call: whether there is another, when, and which error is raised if none succeeds.

    A restarting server is back within seconds. So a call that was certainly not carried out is retried until its
    deadline; only lost answers count against ``retries``.

    Args:
        call: the call.
        retries: further tries after lost answers; with 0, calls that a server has answered are not retried, either.
        patience: seconds for which a call that was not carried out is retried; None: until ``deadline``.
        deadline: monotonic seconds; no wait goes beyond it.
    """

    def __init__(self, call: Call[Any], retries: int, patience: float | None, deadline: float) -> None:
        self._call = call
        self._retries = retries
        self._deadline = deadline
        self._patience_until = deadline if patience is None else min(deadline, time.monotonic() + patience)
        self._losses = 0
        self._loss: PinLaterError | None = None
        self._reason: NotConnected | None = None
        self._out_of_reach: NoHealthyShards | None = None

    def policy(self) -> dict[str, Any]:
        """Return tenacity's settings.

        The waits grow to 0.25 s, with jitter, so the clients of a restarted server do not all retry at once.
        """
        wait = tenacity.wait_random_exponential(multiplier=_FIRST_WAIT_SECONDS, max=_LONGEST_WAIT_SECONDS)
        floor = tenacity.wait_fixed(_FIRST_WAIT_SECONDS / 2)
        return {
            "retry": tenacity.retry_if_exception(lambda error: is_retryable(self._call, error)),
            "wait": floor + wait,
            "stop": self._is_exhausted,
            "reraise": True,
        }

    def _is_exhausted(self, state: tenacity.RetryCallState) -> bool:
        assert state.outcome is not None
        error, next_at = state.outcome.exception(), time.monotonic() + state.upcoming_sleep
        if isinstance(error, NotConnected) and time.monotonic() < self._deadline:
            self._reason = error
        if isinstance(error, (NotConnected, ServerStopping)):
            return next_at >= self._patience_until
        if isinstance(error, NoHealthyShards):
            self._out_of_reach = error
            return not self._retries or next_at >= self._patience_until
        assert isinstance(error, PinLaterError)
        self._loss = error
        self._losses += 1
        return self._losses > self._retries or next_at >= self._deadline

    def final_error(self, error: PinLaterError) -> PinLaterError:
        """Return the error to raise after the last try has failed with ``error``.

        If an earlier try may have been carried out, the error must not say that nothing was done. The error of a try
        that the deadline cut off says only "no answer"; that of the try before says why no server or store was reached.
        """
        if isinstance(error, NotConnected):
            error = self._reason or error
        if isinstance(error, CallTimeout) and self._out_of_reach is not None:
            return CallTimeout(f"{error}; the try before it failed: {self._out_of_reach}")
        if self._loss is None:
            return error
        if isinstance(error, ProtocolError):  # the server keeps no results: it would carry the call out again
            return self._loss
        if isinstance(error, (NotConnected, ServerStopping, NoHealthyShards)):
            kind = ShardConnectionFailed if isinstance(error, NoHealthyShards) else ServerUnavailable
            return kind(f"{self._loss}; it may have been carried out. Tried again, then: {error}")
        return error
