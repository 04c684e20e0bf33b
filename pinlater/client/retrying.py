"""Which failures are worth another try, and when it is made."""

from __future__ import annotations

import time
from typing import Any

import tenacity

from pinlater.client.calls import Call
from pinlater.client.idempotency import may_have_been_carried_out
from pinlater.errors import CallTimeout, NoHealthyShards, NotConnected, ServerUnavailable, ShardConnectionFailed

_FIRST_WAIT_SECONDS = 0.05
_LONGEST_WAIT_SECONDS = 2.0


def worth_repeating(call: Call[Any], error: BaseException) -> bool:
    """Return whether ``call`` may be made again after ``error``; if it may have been carried out, it says so then.

    What the client has to change is never repeated, what was not done always. When nobody knows, calls are that may be
    carried out twice, and those that the server knows again by their key.
    """
    if isinstance(error, (NotConnected, NoHealthyShards)):
        return True
    if not isinstance(error, (ServerUnavailable, CallTimeout, ShardConnectionFailed)):
        return False
    may_have_been_carried_out(call.arguments)
    return call.safe_to_repeat or call.has_key


class _StopAt(tenacity.stop.stop_base):
    """Stops when the next wait would reach beyond a moment."""

    def __init__(self, deadline: float) -> None:
        self._deadline = deadline

    def __call__(self, retry_state: tenacity.RetryCallState) -> bool:
        return time.monotonic() + (retry_state.upcoming_sleep or 0.0) >= self._deadline


def policy(call: Call[Any], retries: int, deadline: float) -> dict[str, Any]:
    """Return tenacity's settings for the tries of one call.

    The waits double from 0.05 s to 2 s, with jitter, so that the clients of a restarted server do not come all
    at once. No wait reaches beyond ``deadline`` (monotonic seconds); the last error is raised as it is.
    """
    wait = tenacity.wait_random_exponential(multiplier=_FIRST_WAIT_SECONDS * 2, max=_LONGEST_WAIT_SECONDS)
    floor = tenacity.wait_fixed(_FIRST_WAIT_SECONDS / 2)

    return {
        "retry": tenacity.retry_if_exception(lambda error: worth_repeating(call, error)),
        "wait": floor + wait,
        "stop": tenacity.stop_any(tenacity.stop_after_attempt(retries + 1), _StopAt(deadline)),
        "reraise": True,
    }
