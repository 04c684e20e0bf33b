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
"""What a queue may be called (wire contract §6.1)."""

DEFAULT_ATTEMPTS = 20
"""With the default backoff they last about a day, so a job survives an outage or a broken deployment."""

DEFAULT_MAX_RESULT = 65_536
"""Bytes: results are kept in the store with the jobs, and read from there by those who wait for them."""

_LONGEST_KEY = 200
CANCEL_PATIENCE_SECONDS = 60.0
"""After so long the process of a cancelled job that does not stop is killed, unless its class says otherwise."""

KILL_SLACK_SECONDS = 10.0
"""Seconds between the exception of a limit and the kill of a job that goes on nevertheless."""


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
        name: name of the class on the wire; moving or renaming the Python class does not change it.
        queue: queue of the jobs, unless an enqueue names another.
        attempts: total number of attempts, including the first.
        backoff: delay before the next attempt of a failed job.
        priority: 1 is served first.
        heartbeat: minimum seconds between two checkpoints that are sent; see ``JobContext.checkpoint``.
        timeout: seconds after which ``JobTimeout`` is raised in a running job, in the thread that runs it. With
            ``--threads``, it does not interrupt a blocking call; with ``--concurrency``, it interrupts only what the
            job awaits.
        kill_after: seconds after which the process of a running job is killed; by default 10 more than ``timeout``.
            Reaching either limit is a failed attempt. A job that is cancelled has 60 seconds to stop before its process
            is killed; if both limits are set, it has the time between them.
        stall_after: seconds without progress after which ``JobStalled`` is raised in a running job, as ``JobTimeout``
            is. This is a failed attempt. 10 seconds later the process is killed. These calls of the context count as
            progress: ``checkpoint``, ``progress``, ``step``, each item of ``iterate``.
        give_up_after: seconds from the enqueue, over all attempts, waits and sleeps, after which no attempt begins and
            the job becomes FAILED. In a running job ``JobExpired`` is raised, as for ``timeout``. A failure is final if
            its retry would come later. A job that is handed out later is not run. For a job that runs again
            (``reschedule``, ``cron``, ``every``), the limit applies to each run, from the time that the run was planned
            for.
        give_up_on: exceptions that are not retried: a job that raises one of them, or a subclass of one, becomes FAILED
            whatever attempts remain. A ``Retry`` is still retried.
        backoff_on: exceptions, including their subclasses, with a backoff of their own: ``backoff_on={RateLimited:
            Constant(60)}``. If several classes match, here and in ``give_up_on``, the most specific one wins. After the
            death of a process, ``backoff`` applies.
        cron: makes the class periodic: workers ensure that there is one job of the class, which runs at the ticks of
            this expression (minute, hour, day of the month, month, day of the week). If you also enqueue a job of the
            class, that job runs once.
        timezone: time zone of ``cron``.
        every: makes the class periodic, too: seconds between two ticks, which are whole multiples of it since 1970
            (UTC).
        latency_target: within how many seconds of being due a job should start. It does not change how jobs run. The
            servers compute the metric ``pinlater_queue_workers_needed`` of the class's queue from it, for an
            autoscaler. If the classes of a queue differ, the smallest target counts.
        key: name of the field or property that has the key of a job: ``key="customer"``. A key is a text or a whole
            number; if it is None, the job has no key. Jobs of different keys take turns: one key with many jobs does
            not hold up the others.
        running_per_key: maximum number of jobs of a key that run at once; the others stay pending.
        in_order: whether the jobs of a key run one after the other, in the order of their enqueues. A failed job holds
            up the jobs behind it until its last attempt has ended.
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
            raise TypeError(f"job {self.name}: queue={self.queue!r} may only have letters, digits and underscore")
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
            raise TypeError(f"job {self.name}: backoff={self.backoff!r} has to be Constant, Linear or Exponential")

    def _check_backoff_on(self) -> None:
        if not isinstance(self.backoff_on, Mapping) or not all(
            _is_exception(kind) and hasattr(backoff, "delay") for kind, backoff in self.backoff_on.items()
        ):
            raise TypeError(
                f"job {self.name}: backoff_on={self.backoff_on!r} must be a dict: exception class -> backoff"
            )
        for kind in self.give_up_on:
            if kind in self.backoff_on:
                raise TypeError(f"job {self.name}: {kind.__name__} stands in give_up_on and in backoff_on; choose one")

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
        """How jobs that share a key run; None if nothing is said about it."""
        return key_rule(self.running_per_key, self.in_order or None, self.rate_per_key)

    def gives_up_on(self, error: BaseException) -> bool:
        """Tell whether the job is given up after ``error``, whatever attempts remain."""
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
        from pinlater.jobs.schedule import schedule_of  # for those who have one: it brings time zones and cronsim along

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
        """Return the options of a job whose enqueue set a policy: that replaces those of the class."""
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
        """Seconds until the process of a job that was cancelled and does not stop is killed.

        A class may say how long its jobs have to stop once they are asked to: between ``timeout`` and ``kill_after``.
        ``kill_after`` alone limits the run, and says nothing of that.
        """
        if self.kill_after is None or self.timeout is None:
            return CANCEL_PATIENCE_SECONDS
        return self.kill_after - self.timeout


def _is_exception(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, Exception)
