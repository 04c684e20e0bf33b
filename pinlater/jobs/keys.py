"""Keys that jobs share, as job classes and enqueues declare them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from pinlater.model.keys import JobKey
from pinlater.model.rates import parse_rate

if TYPE_CHECKING:
    from pinlater.jobs.job import Job

_MOST_CHARACTERS = 200
_MOST_RUNNING = 2**31 - 1


class KeyRule(NamedTuple):
    """How jobs that share a key run; the fields are those of ``JobKey``."""

    max_running: int | None = None
    is_ordered: bool = False
    rate: str | None = None


NO_RULE = KeyRule()
"""Keys take turns, and nothing else."""


def key_rule(running_per_key: int | None, in_order: bool | None, rate_per_key: str | None = None) -> KeyRule | None:
    """Return the rule that the options define; None if all are left out.

    Raises:
        ValueError: an option is out of its range, or they contradict each other.
        TypeError: an option is of another type.
    """
    if running_per_key is None and in_order is None and rate_per_key is None:
        return None
    if in_order is not None and not isinstance(in_order, bool):
        raise TypeError(f"in_order={in_order!r} has to be True or False")
    if running_per_key is not None:
        if not isinstance(running_per_key, int) or isinstance(running_per_key, bool):
            raise TypeError(f"running_per_key={running_per_key!r} has to be a whole number")
        if not 1 <= running_per_key <= _MOST_RUNNING:
            raise ValueError(f"running_per_key={running_per_key} must be at least 1; leave it out for no limit")
        if in_order and running_per_key != 1:
            raise ValueError(f"in_order=True lets the jobs of a key run one at a time, not {running_per_key}")
    if rate_per_key is not None:
        if not isinstance(rate_per_key, str):
            raise TypeError(f"rate_per_key={rate_per_key!r} has to be a text, such as '10/s'")
        parse_rate(rate_per_key)
    return KeyRule(1 if in_order else running_per_key, bool(in_order), rate_per_key)


def checked_key(value: object, name: str = "key") -> str:
    """Return a key, after checking that it is valid.

    Args:
        value: the key.
        name: where it was given, for error messages.

    Raises:
        ValueError: it is empty, too long, or has a NUL.
        TypeError: it is not text.
    """
    if not isinstance(value, str):
        raise TypeError(f"{name}={value!r:.80} is no key; a key is a text")
    if not value:
        raise ValueError(f"{name}='' is no key; use None if the job has none")
    if len(value) > _MOST_CHARACTERS:
        raise ValueError(
            f"{name}={value[:40]!r}... has {len(value)} characters; a key has at most {_MOST_CHARACTERS}, so use a "
            "hash of a longer one"
        )
    if "\0" in value:
        raise ValueError(f"{name}={value!r:.80} has a NUL, which no key can have")
    return value


def key_of_class(job: Job) -> JobKey | None:
    """Return the key that the options of its class give a job; None if it has none.

    Raises:
        ValueError: the value of its field cannot be a key.
        TypeError: likewise.
    """
    options = job.job_options
    if options.key is None:
        return None
    value: Any = getattr(job, options.key)
    if value is None:
        return None
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    return JobKey(checked_key(text, f"{options.name}.{options.key}"), *(options.key_rule or NO_RULE))
