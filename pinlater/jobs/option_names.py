"""What to write instead of an option or an attribute that does not exist here, but perhaps in another job system."""

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
    "headers": "make it a field of the job",
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


_ATTEMPTS = "context.attempt, of context.attempts_allowed"
_DESCRIPTOR = "context.descriptor"
_FIELDS = "the fields of the job: self.user_id"
_PROGRESS = "context.progress(done, total), or context.publish(stage='packing')"
_IN_A_RUN = {
    "abort": "raise Discard('why')",
    "args": _FIELDS,
    "cancel": "raise Discard('why')",
    "client": "context.enqueue(job, name='mail')",
    "id": _DESCRIPTOR,
    "is_aborted": "context.is_cancelled",
    "job_id": _DESCRIPTOR,
    "kwargs": _FIELDS,
    "logger": "context.log",
    "max_retries": _ATTEMPTS,
    "meta": _PROGRESS,
    "request": "the argument context: context.descriptor, context.attempt",
    "retries": _ATTEMPTS,
    "retry": "raise Retry(after=30)",
    "save": "context.checkpoint()",
    "save_meta": _PROGRESS,
    "set_progress": _PROGRESS,
    "sleep": "context.sleep_for(60, name='pause')",
    "task_id": _DESCRIPTOR,
    "update_state": _PROGRESS,
    "wait": "context.call(job), or context.wait_for('event')",
}
"""Attributes that a running job has elsewhere, or that are guessed, and what to write here."""

_IS_FINAL = "status().state.is_final"
_STATE = "status().state"
_RESULT = "result(timeout=10)"
_OF_A_HANDLE = {
    "abort": "cancel()",
    "failed": _STATE,
    "get": _RESULT,
    "get_result": _RESULT,
    "id": "descriptor",
    "info": "status()",
    "is_finished": _IS_FINAL,
    "job_id": "descriptor",
    "meta": "status(include_body=True).published",
    "progress": "status(include_body=True).progress",
    "ready": _IS_FINAL,
    "return_value": _RESULT,
    "revoke": "cancel()",
    "state": _STATE,
    "successful": _STATE,
    "task_id": "descriptor",
    "traceback": "status().failed_attempts",
}
"""The same for what an enqueue returns."""


def advise_in_run(error: AttributeError) -> str:
    """Return what to write instead of an attribute that a running job has not found; empty if nothing is known."""
    name = error.name or ""
    if name in _ENQUEUES:
        return "; write context.enqueue(job, name='mail')"
    return f"; write {_IN_A_RUN[name]}" if name in _IN_A_RUN else ""


def handle_lacks(handle: object, name: str) -> AttributeError:
    """Return the error for an attribute that the handle of a job does not have."""
    advice = f"; write {_OF_A_HANDLE[name]}" if name in _OF_A_HANDLE else ""
    text = f"{type(handle).__name__!r} object has no attribute {name!r}{advice}"
    return AttributeError(text, name=name, obj=handle)


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
