"""What to write instead of an option or a method that does not exist here, but perhaps in another job system."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches

_BACKOFF = "write backoff=Constant(30), Linear(…) or Exponential(…)"
_FOLLOW_UPS = "enqueue client.batch([job], then=…, on_failure=…), or let a job wait for others with context.call"
_KEPT = "how long finished jobs are kept is a setting of the server"
_LATE = "leave it out: a job is acked when it has ended, and given to another worker if its process dies"
_RETURNS = "declare what run returns, class Name(Job[int]), and its result is stored"

_WORDS = {
    "acks_late": _LATE,
    "at": "write run_at= in the enqueue",
    "autoretry_for": "leave it out: any exception is retried, except those in give_up_on=",
    "bind": "leave it out: run has self and the context",
    "countdown": "write delay=, in seconds, in the enqueue",
    "default_retry_delay": _BACKOFF,
    "depends_on": _FOLLOW_UPS,
    "eta": "write run_at= in the enqueue",
    "expires": "write give_up_after=, in seconds",
    "expires_in": "write give_up_after=, in seconds",
    "failure_ttl": _KEPT,
    "ignore_result": _RETURNS,
    "job_id": "the server makes the descriptor; to store a job once, write unique= in the enqueue",
    "job_timeout": "write timeout=, in seconds",
    "link": _FOLLOW_UPS,
    "link_error": _FOLLOW_UPS,
    "max_age": "write give_up_after=, in seconds",
    "max_attempts": "write attempts=, which counts the first one, too",
    "max_backoff": _BACKOFF,
    "max_retries": "write attempts=, which counts the first one, too",
    "min_backoff": _BACKOFF,
    "on_failure": _FOLLOW_UPS,
    "on_success": _FOLLOW_UPS,
    "queue_name": "write queue=",
    "rate_limit": "set it for the queue: pinlater limit QUEUE --rate 10/m; or for each key=: rate_per_key=",
    "reject_on_worker_lost": _LATE,
    "result_ttl": _KEPT,
    "retries": "write attempts=, which counts the first one, too",
    "retry": "write attempts=, which counts the first one, too",
    "retry_backoff": _BACKOFF,
    "routing_key": "write queue=",
    "soft_time_limit": "write timeout=, in seconds",
    "store_results": _RETURNS,
    "task_id": "the server makes the descriptor; to store a job once, write unique= in the enqueue",
    "throws": "write give_up_on=",
    "time_limit": "write timeout=, in seconds, and kill_after= for when the process is killed",
    "ttl": "write give_up_after=, in seconds",
}
"""Options of Celery, Dramatiq, RQ and Sidekiq."""

_ENQUEUES = {
    "apply_async",
    "delay",
    "perform_async",
    "perform_at",
    "perform_in",
    "s",
    "send",
    "send_with_options",
    "si",
}
"""Their methods of a task, an actor or a job class that enqueue one, or prepare that."""


_OF_HANDLES = {
    "descriptor": ("id", "jid", "job_id", "message_id", "task_id"),
    "result(timeout=…)": ("get", "get_result", "latest_result", "return_value"),
    "status()": ("failed", "get_status", "info", "is_failed", "is_finished", "ready", "state", "successful"),
    "wait(timeout=…)": ("join",),
    "cancel()": ("abort", "delete", "revoke"),
}
"""Attributes of a handle, and their names in Celery, Dramatiq, Huey and RQ."""


def advise_handle(name: str) -> str:
    """Return what to write instead of an attribute that a handle of a job does not have; empty if nothing is known."""
    return next((f"; write {ours}" for ours, theirs in _OF_HANDLES.items() if name in theirs), "")


def advise_method(name: str, kind: str) -> str:
    """Return what to write instead of a method of a job class that does not exist; empty if nothing is known."""
    return f"; enqueue a job of it with a client: client.enqueue({kind}(…))" if name in _ENQUEUES else ""


def advise(name: str, known: Collection[str], elsewhere: Collection[str], place: str) -> str:
    """Return what to write instead of an option that does not exist.

    Args:
        name: name of the option.
        known: names of the options that exist.
        elsewhere: names of those that exist in the other of two places: the header of a class, and an enqueue.
        place: name of that other place.
    """
    if name in elsewhere:
        return f"write it in {place}"
    if (word := _WORDS.get(name)) is not None:
        return word
    near = get_close_matches(name, sorted(known), 1)
    return f"did you mean {near[0]!r}?" if near else f"the options are {', '.join(sorted(known))}"
