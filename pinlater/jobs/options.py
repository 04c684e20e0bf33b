"""Options in the header of a job class: how its jobs are queued, retried and limited."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pinlater.errors import Discard, Retry
from pinlater.jobs.keys import KeyRule, key_rule
from pinlater.model.backoff import DEFAULT_BACKOFF, Backoff
from pinlater.model.policy import LONGEST_LIMIT_SECONDS, Policy

if TYPE_CHECKING:
    from pinlater.jobs.schedule import Schedule

QUEUE_NAME = re.compile(r"[A-Za-z0-9_]+", re.ASCII)
"""Pattern of a queue's name (wire contract §6.1)."""

DEFAULT_ATTEMPTS = 20
"""With the default backoff, these take about a day, so a job survives an outage or a broken deployment."""

DEFAULT_MAX_RESULT = 65_536
"""Bytes; small, because the store keeps each result with its job and sends it to whoever waits for it."""

_LONGEST_KEY = 200
CANCEL_PATIENCE_SECONDS = 60.0
"""How long a cancelled job may take to stop before its process is killed, unless its class says otherwise."""

KILL_SLACK_SECONDS = 10.0
"""Seconds between the exception for an exceeded time limit and the kill of a job that continues all the same."""


_SECONDS = ((int, float), "a number of seconds")
_OPTION_TYPES: dict[str, tuple[type | tuple[type, ...], str]] = {
    "queue": (str, "a text"),
    "attempts": (int, "a whole number"),
    "priority": (int, "a whole number"),
    "heartbeat": _SECONDS,
    "timeout": _SECONDS,
    "kill_after": _SECONDS,
    "stall_after": _SECONDS,
    "give_up_after": _SECONDS,
    "latency_target": _SECONDS,
    "cron": (str, "a text"),
    "every": _SECONDS,
    "key": (str, "a text, the name of a field"),
    "max_result": (int, "a whole number of bytes"),
}


@dataclass(frozen=True, slots=True)
class JobOptions:
    """The options of a job class; raises ``TypeError`` if one is invalid.

    Attributes:
        name: name of the class in bodies, by default that of the Python class. When you rename a class, set this to its
            old name, which stored jobs have in their bodies.
        queue: queue of the jobs, unless an enqueue names another; by default made of the name: ``SendMail`` has
            ``send_mail``.
        attempts: total number of attempts, including the first.
        backoff: delay before the next attempt of a failed job.
        priority: 1 to 127; 1 is served first.
        heartbeat: minimum seconds between two checkpoints that are sent to the server; see ``JobContext.checkpoint``.
        timeout: seconds after which ``JobTimeout`` is raised in a running job, in the thread that runs it. With
            ``--threads``, it does not interrupt a blocking call; with ``--concurrency``, it interrupts only what the
            job awaits.
        kill_after: seconds after which the process of a running job is killed; by default 10 more than ``timeout``, or
            never without one. Exceeding either limit fails the attempt. A cancelled job has 60 seconds to stop before
            its process is killed; if both limits are set, it has the time between them.
        stall_after: seconds without progress after which ``JobStalled`` is raised in a running job, as ``JobTimeout``
            is, and the attempt fails. 10 seconds later the process is killed. These calls of the context count as
            progress: ``checkpoint``, each item of ``iterate``, ``progress``, ``publish``, ``step``, ``call``,
            ``call_all`` and ``wait_for``.
        give_up_after: seconds from the enqueue, including all attempts, waits and sleeps, after which the job becomes
            FAILED. A job that is dequeued later is not run; ``JobExpired`` is raised in a running job, as
            ``JobTimeout`` is; a failure whose retry would come later is final. For a job that runs again
            (``reschedule``, ``cron``, ``every``), the limit applies to each run, from the time for which the run was
            scheduled.
        give_up_on: exceptions that are not retried: a job that raises one of them, or a subclass, becomes FAILED even
            if attempts remain. A ``Retry`` is retried all the same.
        backoff_on: separate backoffs for some exceptions and their subclasses: ``backoff_on={RateLimited:
            Constant(60)}``. If several classes match, here and in ``give_up_on``, the most specific one wins. If the
            process of a job dies, ``backoff`` applies.
        cron: makes the class periodic: workers make sure that one job of the class exists, which runs whenever this
            expression matches (minute, hour, day of the month, month, day of the week). A job of the class that you
            enqueue yourself runs once.
        timezone: time zone of ``cron``, such as ``Europe/Berlin``.
        every: makes the class periodic with a fixed period in seconds. It runs at multiples of the period since 1970
            (UTC), so with 3600 on the hour.
        latency_target: seconds after becoming due within which a job should start. It does not change how jobs run:
            servers compute the metric ``pinlater_queue_workers_needed`` of the class's queue from it, for an
            autoscaler. If the classes of a queue differ, the smallest target counts.
        key: name of the field or property that holds the key of a job: ``key="customer"``. A key is text or a whole
            number; None means that the job has no key. Keys take turns: one with many jobs does not hold up the others.
        running_per_key: maximum number of jobs of a key that run at once; the others stay pending.
        in_order: whether the jobs of a key run one at a time, in the order in which they were enqueued. A failed job
            holds up those behind it until it has succeeded or is given up.
        rate_per_key: maximum rate at which jobs of a key are started: ``"10/s"``, ``"100/m"``, ``"1000/h"``.
        max_result: maximum size of a job's result in bytes, as JSON; a job that returns more is given up.
    """

    name: str
    queue: str
    attempts: int = DEFAULT_ATTEMPTS
    backoff: Backoff = DEFAULT_BACKOFF
    priority: int = 1
    heartbeat: float = 5.0
    timeout: float | None = None
    kill_after: float | None = None
    stall_after: float | None = None
    give_up_after: float | None = None
    give_up_on: tuple[type[Exception], ...] = ()
    backoff_on: Mapping[type[Exception], Backoff] = field(default_factory=dict)
    cron: str | None = None
    timezone: str = "UTC"
    every: float | None = None
    latency_target: float | None = None
    key: str | None = None
    running_per_key: int | None = None
    in_order: bool = False
    rate_per_key: str | None = None
    max_result: int = DEFAULT_MAX_RESULT

    def __post_init__(self) -> None:
        self._check_types()
        if not QUEUE_NAME.fullmatch(self.queue):
            is_plain = self.name.isascii() and self.name.isidentifier()
            made = "" if is_plain else f"; name={self.name!r} makes no queue: write queue=, too"
            raise TypeError(f"job {self.name}: queue={self.queue!r} may only have letters, digits and underscore{made}")
        if self.attempts < 1:
            raise TypeError(f"job {self.name}: attempts={self.attempts} counts the first one and must be at least 1")
        if not 1 <= self.priority <= 127:
            raise TypeError(f"job {self.name}: priority={self.priority} must be between 1 (served first) and 127")
        if not 0 <= self.heartbeat <= LONGEST_LIMIT_SECONDS:
            raise TypeError(
                f"job {self.name}: heartbeat={self.heartbeat} is in seconds: it cannot be negative, or over a year"
            )
        if self.max_result < 1:
            raise TypeError(f"job {self.name}: max_result={self.max_result} is in bytes and must be at least 1")
        self._check_limits()
        if not isinstance(self.give_up_on, tuple) or not all(map(_is_exception, self.give_up_on)):
            raise TypeError(f"job {self.name}: give_up_on={self.give_up_on!r} must be a tuple of exception classes")
        self._check_backoff_on()
        self._check_schedule()
        self._check_key()

    def _check_types(self) -> None:
        for name, (types, words) in _OPTION_TYPES.items():
            value = getattr(self, name)
            is_absent = value is None and self.__dataclass_fields__[name].default is None
            if not is_absent and (not isinstance(value, types) or isinstance(value, bool)):
                raise TypeError(f"job {self.name}: {name}={value!r} has to be {words}")
        if not hasattr(self.backoff, "delay"):
            seconds = self.backoff if isinstance(self.backoff, int | float) else 30
            raise TypeError(
                f"job {self.name}: backoff={self.backoff!r} has to be Constant, Linear or Exponential, such as "
                f"Constant({seconds}), or an object with delay(attempts_spent)"
            )

    def _check_backoff_on(self) -> None:
        if not isinstance(self.backoff_on, Mapping) or not all(
            _is_exception(kind) and hasattr(backoff, "delay") for kind, backoff in self.backoff_on.items()
        ):
            raise TypeError(
                f"job {self.name}: backoff_on={self.backoff_on!r} must be a dict: exception class -> backoff"
            )
        for kind in self.give_up_on:
            if kind in self.backoff_on:
                raise TypeError(f"job {self.name}: {kind.__name__} is in both give_up_on and backoff_on; choose one")

    def _check_schedule(self) -> None:
        try:
            schedule = self.schedule
        except ValueError as error:
            raise TypeError(f"job {self.name}: {error}") from None
        if schedule is not None and len(f"{self.name} {schedule.text}") > _LONGEST_KEY:
            raise TypeError(f"job {self.name}: its name and its schedule have more than {_LONGEST_KEY} characters")

    def _check_limits(self) -> None:
        for name in ("timeout", "kill_after", "stall_after", "give_up_after", "latency_target"):
            seconds = getattr(self, name)
            if seconds is not None and not 0 < seconds <= LONGEST_LIMIT_SECONDS:
                raise TypeError(f"job {self.name}: {name}={seconds} is in seconds, more than 0 and at most a year")
        if self.timeout is not None and self.kill_after is not None and self.kill_after <= self.timeout:
            raise TypeError(f"job {self.name}: kill_after={self.kill_after} must be more than timeout={self.timeout}")

    def _check_key(self) -> None:
        try:
            rule = self.key_rule
        except (TypeError, ValueError) as error:
            raise TypeError(f"job {self.name}: {error}") from None
        if rule is None:
            return
        if self.key is None:
            raise TypeError(
                f"job {self.name}: running_per_key, rate_per_key and in_order are about a key; say which field it "
                "is: key=…"
            )
        if rule.is_ordered and self.schedule is not None:
            raise TypeError(f"job {self.name}: a periodic job would hold up its key until the next tick; no in_order")

    @property
    def key_rule(self) -> KeyRule | None:
        """The rule for jobs that share a key; None if no option sets one."""
        return key_rule(self.running_per_key, self.in_order or None, self.rate_per_key)

    def gives_up_on(self, error: BaseException) -> bool:
        """Return whether ``error`` gives up the job even if attempts remain."""
        if isinstance(error, Discard | Retry):
            return isinstance(error, Discard)
        return any(self._nearest(error) is kind for kind in self.give_up_on)

    def backoff_after(self, error: BaseException) -> Backoff:
        """Return the backoff after an attempt that raised ``error``."""
        nearest = self._nearest(error)
        return self.backoff if nearest is None else self.backoff_on.get(nearest, self.backoff)

    def _nearest(self, error: BaseException) -> type[Exception] | None:
        named = {*self.give_up_on, *self.backoff_on}
        return next((kind for kind in type(error).__mro__ if kind in named), None)

    @property
    def schedule(self) -> Schedule | None:
        """The schedule of a periodic class; None for an ordinary class."""
        if self.cron is None and self.every is None and self.timezone == "UTC":
            return None
        from pinlater.jobs.schedule import schedule_of  # here: only periodic classes need time zones and cronsim

        return schedule_of(self.cron, self.every, self.timezone)

    def check_wait(self, seconds: float) -> None:
        """Refuse a delay so long that the job would never run.

        Raises:
            ValueError: the job would not become due within its ``give_up_after``.
        """
        if self.give_up_after is not None and seconds >= self.give_up_after:
            raise ValueError(
                f"a {self.name} that waits for {seconds:.0f} s would never run: "
                f"its give_up_after of {self.give_up_after:g} s counts from the enqueue; give it a longer one"
            )

    def with_policy(self, policy: Policy) -> JobOptions:
        """Return a copy of the options in which the policy of one job replaces what its class says."""
        changes: dict[str, Any] = dict(policy.limits)
        if policy.backoff is not None:
            changes["backoff"] = policy.backoff
        if policy.timeout is not None and self.kill_after is not None and self.kill_after <= policy.timeout:
            changes["kill_after"] = None
        return replace(self, **changes)

    @property
    def is_limited(self) -> bool:
        """Whether the time of a run is limited."""
        return not (self.timeout is self.kill_after is self.stall_after is self.give_up_after is None)

    @property
    def hard_seconds(self) -> float | None:
        """Seconds after which a job's process is killed, even if it makes progress; None: never."""
        if self.kill_after is None and self.timeout is not None:
            return self.timeout + KILL_SLACK_SECONDS
        return self.kill_after

    @property
    def cancel_patience(self) -> float:
        """Seconds that a cancelled job has to stop before its process is killed.

        Between ``timeout`` and ``kill_after``, a job has time to stop, so a class that sets both says how long its jobs
        need. ``kill_after`` alone limits the run, and says nothing about that.
        """
        if self.kill_after is None or self.timeout is None:
            return CANCEL_PATIENCE_SECONDS
        return self.kill_after - self.timeout


def _is_exception(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, Exception)
