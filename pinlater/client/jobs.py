"""Jobs of our classes -> structs to enqueue."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from time import time
from typing import Unpack

from pinlater.client.key_options import KeyOptions
from pinlater.client.unique_rules import unique_rule
from pinlater.errors import BodyInvalid, BodyTooLarge
from pinlater.jobs.body_codec import encode_body
from pinlater.jobs.enqueue_options import (
    CallOptions,
    DuplicateAction,
    EnqueueManyOptions,
    EnqueueOptions,
    FollowUpOptions,
    KeyOf,
    UniqueOf,
    UniqueUntil,
    check_names,
)
from pinlater.jobs.job import Job, RawJob, not_a_job
from pinlater.jobs.options import QUEUE_NAME, JobOptions
from pinlater.model.body_metadata import BodyMetadata
from pinlater.model.messages import Parent
from pinlater.model.policy import PolicyOptions, make_policy
from pinlater.protocol.conversion.jobs import new_job_struct
from pinlater.protocol.conversion.values import milliseconds
from pinlater.protocol.framing import MAX_FRAME_BYTES
from pinlater.protocol.messages import PinLaterJob

_FRAME_ALLOWANCE = 4096  # queue name, source, headers
_LONGEST_DELAY_SECONDS = 100 * 366 * 86400.0
_FIRST_MILLISECONDS = 1e11
"""As seconds it is the year 5138, as milliseconds 1973."""
_MOST_ATTEMPTS = 2**31 - 1
_LARGEST_BODY = MAX_FRAME_BYTES - _FRAME_ALLOWANCE


class JobEncoder:
    """Makes the wire structs of jobs that are enqueued with the same options.

    Args:
        queue: see ``EnqueueOptions`` for this and all up to ``rate_per_key``.
        trace: trace context to store in the bodies of the jobs, except those of a ``RawJob``.
        now: returns the epoch seconds from which ``delay`` counts.
        policy: backoff and time limits, see ``EnqueueOptions``.

    Raises:
        ValueError: an option is out of its range, or ``delay`` and ``run_at`` contradict each other.
        TypeError: an option is of another type.
    """

    def __init__(
        self,
        *,
        queue: str | None = None,
        priority: int | None = None,
        attempts: int | None = None,
        delay: float | None = None,
        run_at: datetime | float | None = None,
        status: str = "",
        unique: str | UniqueOf | None = None,
        unique_until: UniqueUntil | None = None,
        unique_for: float | None = None,
        on_duplicate: DuplicateAction | None = None,
        max_delay: float | None = None,
        key: str | KeyOf | None = None,
        running_per_key: int | None = None,
        in_order: bool | None = None,
        rate_per_key: str | None = None,
        trace: Mapping[str, str] | None = None,
        now: Callable[[], float] = time,
        **policy: Unpack[PolicyOptions],
    ) -> None:
        if queue is not None and not QUEUE_NAME.fullmatch(queue):
            raise ValueError(f"queue={queue!r} may only have letters, digits and underscore")
        _check_whole("priority", priority)
        _check_whole("attempts", attempts)
        if priority is not None and not 1 <= priority <= 127:
            raise ValueError(f"priority={priority} must be between 1 (served first) and 127")
        if attempts is not None and not 1 <= attempts <= _MOST_ATTEMPTS:
            raise ValueError(f"attempts={attempts} counts the first one; it must be between 1 and {_MOST_ATTEMPTS:,}")
        if unique is not None and not callable(unique):
            _check_unique(unique)
        self._queue = queue
        self._priority = priority
        self._attempts = attempts
        self._run_after_ms = _run_after_ms(delay, run_at, now)
        self._wait_seconds = 0.0 if self._run_after_ms is None else self._run_after_ms / 1000 - now()
        self._status = status
        self._unique = None if callable(unique) else unique
        self._unique_of = unique if callable(unique) else None
        self._rule = unique_rule(
            unique, until=unique_until, seconds=unique_for, on_duplicate=on_duplicate, max_delay=max_delay
        )
        self._keys = KeyOptions(key, running_per_key, in_order, rate_per_key)
        self._policy = make_policy(**policy) if policy else None
        has_metadata = self._policy is not None or trace
        self._metadata = BodyMetadata(policy=self._policy, trace=trace or None) if has_metadata else None
        self._has_limits = self._policy is not None or self._wait_seconds > 0
        self._fitting: set[type[Job]] = set()

    def target_queue(self, job: Job) -> str:
        """Return the queue that ``job`` goes to."""
        return target_queue(job, self._queue)

    def struct(self, job: Job, parent: Parent | None = None) -> PinLaterJob:
        """Return the wire struct of ``job``; ``parent`` is the job that gets a message when it ends.

        Raises:
            ValueError: it would become due only after its ``give_up_after`` has passed, or its key is invalid.
            BodyInvalid: a field holds something that JSON cannot carry; or it is a ``RawJob``, whose body has no place
                for a backoff or time limit.
            BodyTooLarge: it does not fit into any message.
            TypeError: it is not a job, or its key is not a text.
        """
        try:
            options = job.job_options
        except AttributeError:
            raise not_a_job(job) from None
        if self._has_limits and type(job) not in self._fitting:
            self._check_limits(job, options)
        body = encode_body(job, self._metadata)
        if len(body) > _LARGEST_BODY:
            raise BodyTooLarge(
                f"a {options.name} of {len(body)} bytes; keep large data elsewhere, and enqueue its name"
            )
        unique = self._unique if self._unique_of is None else _key_by(self._unique_of, job)
        key = self._keys.key(job) if self._keys.are_given or options.key is not None else None
        priority, attempts = self._priority or options.priority, self._attempts or options.attempts
        told = body, priority, self._run_after_ms, attempts, self._status
        return new_job_struct(*told, unique=unique, rule=self._rule, key=key, parent=parent)

    def _check_limits(self, job: Job, options: JobOptions) -> None:
        """Check the policy and the delay against a class, once for all of its jobs."""
        if self._policy is not None and isinstance(job, RawJob):
            raise BodyInvalid(f"the body of a RawJob has no place for a backoff or time limit; {options.name} is one")
        if self._wait_seconds > 0:
            effective = options if self._policy is None else options.with_policy(self._policy)
            effective.check_wait(self._wait_seconds)
        self._fitting.add(type(job))


def _key_by(unique_of: UniqueOf, job: Job) -> str | None:
    key = unique_of(job)
    if key is not None:
        _check_unique(key)
    return key


def _check_unique(key: object) -> None:
    if not isinstance(key, str):
        raise TypeError(f"unique={key!r:.80} is no key; a key is a text")
    if not key:
        raise ValueError("unique='' is no key; leave it out if the job has none")


def target_queue(job: Job, queue: str | None) -> str:
    """Return the queue that ``job`` goes to: that of its class, unless an enqueue names one.

    Raises:
        TypeError: it is not a job.
    """
    try:
        return queue or job.job_options.queue
    except AttributeError:
        raise not_a_job(job) from None


def _check_whole(name: str, value: object) -> None:
    if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
        raise TypeError(f"{name}={value!r} has to be a whole number")


def _run_after_ms(delay: float | None, run_at: datetime | float | None, now: Callable[[], float]) -> int | None:
    if delay is not None and run_at is not None:
        raise ValueError("give delay (seconds from now) or run_at (a moment), not both")
    given = f"run_at={run_at!r}" if delay is None else f"delay={delay!r}"
    try:
        if delay is not None:
            if not 0 <= delay <= _LONGEST_DELAY_SECONDS:
                raise ValueError(f"{given} is in seconds; it cannot be negative, nor more than 100 years")
            return milliseconds(now() + delay)
        if run_at is None:
            return None
        seconds = run_at.timestamp() if isinstance(run_at, datetime) else run_at
        if seconds > now() + _LONGEST_DELAY_SECONDS:
            hint = "; it looks like milliseconds: divide it by 1000" if seconds > _FIRST_MILLISECONDS else ""
            raise ValueError(f"{given} is more than 100 years from now; write epoch seconds or a datetime{hint}")
        if not seconds >= 0:
            raise ValueError(f"{given} is before 1970; write epoch seconds or a datetime, or leave it out to run now")
        return milliseconds(seconds)
    except TypeError:
        raise TypeError(f"{given}: delay is a number of seconds, run_at a datetime or epoch seconds") from None


_plain_encoder = JobEncoder()
"""For enqueues without options, as most are."""


def encoder(
    options: EnqueueOptions | EnqueueManyOptions | FollowUpOptions | CallOptions,
    trace: Mapping[str, str] | None = None,
    now: Callable[[], float] = time,
) -> JobEncoder:
    """Return an encoder for the options of an enqueue and the trace context of its jobs; delays count from ``now()``.

    Raises:
        TypeError: there is no such option, or its value is of another type.
        ValueError: an option is out of its range.
    """
    if not options and not trace:
        return _plain_encoder
    try:
        return JobEncoder(**options, trace=trace, now=now)
    except TypeError:
        check_names(options)  # raises a better error if a name is wrong
        raise
