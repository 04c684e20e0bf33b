"""The options of an enqueue, declared once: clients, job contexts and their test doubles take them as keywords."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Literal, TypedDict

from pinlater.jobs.options import JobOptions
from pinlater.model.backoff import Backoff
from pinlater.model.policy import PolicyOptions

UniqueOf = Callable[[Any], str | None]
"""Returns the unique key of a job, or None if it has none. It takes jobs of its own class, which has the fields."""

KeyOf = Callable[[Any], str | None]
"""Returns the key that a job shares with others, or None if it has none; as ``UniqueOf``."""

UniqueUntil = Literal["finished", "started"]
DuplicateAction = Literal["keep", "replace", "debounce"]


class CallOptions(TypedDict, total=False):
    """Options of ``JobContext.call`` and ``call_all``, for each of the called jobs; as in ``EnqueueOptions``.

    The ``timeout`` of a call limits the wait. That of a job's run is an option of its class.
    """

    queue: str | None
    priority: int | None
    attempts: int | None
    delay: float | None
    run_at: datetime | float | None
    backoff: Backoff | None
    stall_after: float | None
    give_up_after: float | None
    running_per_key: int | None
    in_order: bool | None
    rate_per_key: str | None


class _CommonOptions(PolicyOptions, total=False):
    queue: str | None
    priority: int | None
    attempts: int | None
    delay: float | None
    run_at: datetime | float | None
    unique_until: UniqueUntil | None
    unique_for: float | None
    on_duplicate: DuplicateAction | None
    max_delay: float | None
    running_per_key: int | None
    in_order: bool | None
    rate_per_key: str | None


class FollowUpOptions(_CommonOptions, total=False):
    """Options of ``JobContext.enqueue``: those of ``EnqueueOptions`` except ``status``."""

    unique: str | None
    key: str | None


class EnqueueOptions(FollowUpOptions, total=False):
    """Options of ``Client.enqueue`` and ``AsyncClient.enqueue``; the job class decides those left out or None.

    Attributes:
        queue: name of the queue.
        priority: 1 is served first.
        attempts: total number of attempts, including the first.
        delay: seconds from now, by the clock of this machine, until the job is due.
        run_at: time at which it is due, instead of ``delay``: epoch seconds, or a datetime (a naive one is local time).
        backoff: delay before further attempts: ``Constant``, ``Linear`` or ``Exponential``. This option and the next
            three are stored in the body of the job.
        timeout: seconds after which ``JobTimeout`` is raised in the running job.
        stall_after: seconds without progress after which ``JobStalled`` is raised in the running job.
        give_up_after: seconds from now after which no attempt begins.
        unique: a key of at most 200 characters. While another job of the queue with the same key waits or runs, this
            job is not stored, and the handle is that of the other job. Servers of the original service ignore keys.
        unique_until: when the key becomes free: ``"finished"`` (the default) when the other job has ended, or
            ``"started"`` as soon as its first attempt has started. Servers without this option wait for the end.
        unique_for: minimum seconds from now for which the key stays taken, even if the job finishes earlier. So at most
            one job is stored in that time. Older servers do not know this option either.
        on_duplicate: what to do with the other job, if it has not started: ``"keep"`` (the default) leaves it as it is;
            ``"replace"`` gives it the record, attempts and status of this job; ``"debounce"`` also postpones it to the
            time of this job, so that it runs when ``delay`` has passed without another enqueue.
        max_delay: with ``"debounce"``, the job is due at the latest this many seconds after it was first enqueued.
        key: a text of at most 200 characters that jobs of the queue share, such as a customer. Keys take turns: one
            with many jobs does not hold up the others. Servers of the original service ignore it.
        running_per_key: maximum number of jobs of the key that run at once; the others stay pending.
        in_order: whether the jobs of the key run one at a time, in the order in which they were enqueued. A failed job
            holds up those behind it until it has succeeded or is given up.
        rate_per_key: maximum rate at which jobs of the key are started: ``"10/s"``, ``"100/m"``, ``"1000/h"``. The rate
            of the last enqueue counts. If one of these three options is given, it replaces all three of the class.
        status: text at the beginning of the job's custom status.
    """

    status: str


class EnqueueManyOptions(_CommonOptions, total=False):
    """Options of ``enqueue_many``: those of ``EnqueueOptions``, applied to all jobs.

    Attributes:
        unique: a function that returns the unique key of a job, or None: ``lambda job: f"bill {job.number}"``. Jobs
            that exist already count as stored.
        key: the key of all jobs, or a function that returns the key of a job or None: ``lambda job: job.customer``.
        status: text at the beginning of each job's custom status.
    """

    unique: UniqueOf | None
    key: str | KeyOf | None
    status: str


def check_names(options: Mapping[str, object]) -> None:
    """Refuse options that do not exist; the message says what to write instead.

    Raises:
        TypeError: an option is misspelled.
    """
    known = EnqueueOptions.__annotations__
    for name in options:
        if name not in known:
            from pinlater.jobs.option_names import advise

            is_field = f"; if {name} is a field, it goes into the job: client.enqueue(Name({name}=…))"
            advice = advise(name, known, JobOptions.__dataclass_fields__, "the header of the job class", is_field)
            raise TypeError(f"an enqueue has no option {name!r}; {advice}")
