"""What to write instead of an option or a method that does not exist here, but perhaps in another job system."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches

_BACKOFF = "write backoff=Constant(30), Linear(…) or Exponential(…)"
_EXPIRES = "write give_up_after=, in seconds"
_FOLLOW_UPS = "enqueue client.batch([job], then=…, on_failure=…), or let a job wait for others with context.call"
_KEPT = "how long finished jobs are kept is a setting of the server"
_JSON = "leave it out: bodies and results are JSON; dataclasses, dates, enums and the like keep their types"
_LATE = "leave it out: a job is acked when it has ended, and given to another worker if its process dies"
_MEMORY = "it is an option of the worker: --max-memory and --memory-ceiling"
_ONCE = "write unique= in the enqueue"
_RETRIED = "leave it out: any exception is retried, except those in give_up_on="
_RETURNS = "declare what run returns, class Name(Job[int]), and its result is stored"
_RUNNING = "set it for the queue: pinlater limit QUEUE --running 10; or for each key=: running_per_key="
_SCHEDULE = "write cron='0 3 * * *' or every=, in seconds"

_WORDS = {
    "acks_late": _LATE,
    "at": "write run_at= in the enqueue",
    "at_front": "write priority=, where 1 comes first",
    "autoretry_for": _RETRIED,
    "bind": "leave it out: run has self and the context",
    "concurrency": _RUNNING,
    "countdown": "write delay=, in seconds, in the enqueue",
    "crontab": _SCHEDULE,
    "dedupe": _ONCE,
    "default_retry_delay": _BACKOFF,
    "depends_on": _FOLLOW_UPS,
    "dont_autoretry_for": "write give_up_on=",
    "eta": "write run_at= in the enqueue",
    "expire": _EXPIRES,
    "expires": _EXPIRES,
    "expires_in": _EXPIRES,
    "failure_ttl": _KEPT,
    "ignore_result": _RETURNS,
    "job_id": "the server makes the descriptor; to store a job once, write unique= in the enqueue",
    "job_timeout": "write timeout=, in seconds",
    "link": _FOLLOW_UPS,
    "link_error": _FOLLOW_UPS,
    "max_age": _EXPIRES,
    "max_attempts": "write attempts=, which counts the first one, too",
    "max_backoff": _BACKOFF,
    "max_concurrency": _RUNNING,
    "max_memory": _MEMORY,
    "max_retries": "write attempts=, which counts the first one, too",
    "memory": _MEMORY,
    "memory_limit": _MEMORY,
    "min_backoff": _BACKOFF,
    "on_failure": _FOLLOW_UPS,
    "on_success": _FOLLOW_UPS,
    "queue_name": "write queue=",
    "rate_limit": "set it for the queue: pinlater limit QUEUE --rate 10/m; or for each key=: rate_per_key=",
    "reject_on_worker_lost": _LATE,
    "result": _RETURNS,
    "result_ttl": _KEPT,
    "retries": "write attempts=, which counts the first one, too",
    "retry": "write attempts=, which counts the first one, too",
    "retry_backoff": _BACKOFF,
    "retry_backoff_max": _BACKOFF,
    "retry_delay": _BACKOFF,
    "retry_jitter": _BACKOFF,
    "retry_on": _RETRIED,
    "routing_key": "write queue=",
    "run_every": _SCHEDULE,
    "schedule": _SCHEDULE,
    "serializer": _JSON,
    "soft_time_limit": "write timeout=, in seconds",
    "store_results": _RETURNS,
    "task_id": "the server makes the descriptor; to store a job once, write unique= in the enqueue",
    "throws": "write give_up_on=",
    "time_limit": "write timeout=, in seconds, and kill_after= for when the process is killed",
    "ttl": "write give_up_after=, in seconds",
    "tz": "write timezone=",
    "unique_key": _ONCE,
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


def advise(name: str, known: Collection[str], elsewhere: Collection[str], place: str, otherwise: str = "") -> str:
    """Return what to write instead of an option that does not exist.

    Args:
        name: name of the option.
        known: names of the options that exist.
        elsewhere: names of those that exist in the other of two places: the header of a class, and an enqueue.
        place: name of that other place.
        otherwise: what to add if nothing is known of the name.
    """
    if name in elsewhere:
        return f"write it in {place}"
    if (word := _WORDS.get(name)) is not None:
        return word
    near = get_close_matches(name, sorted(known), 1)
    return f"did you mean {near[0]!r}?" if near else f"the options are {', '.join(sorted(known))}{otherwise}"
