"""Which jobs of a queue: the options that commands about many jobs have in common, and whether a job is meant."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from pinlater.cli.command import PRIORITY
from pinlater.durations import DURATION, parse_duration
from pinlater.model.state import JobState

if TYPE_CHECKING:
    from pinlater.model.records import JobInfo

_ENDED = frozenset({JobState.SUCCEEDED, JobState.FAILED})


@dataclass(frozen=True, slots=True)
class Filter:
    """What jobs have to be like; None is anything.

    Attributes:
        priority: their level.
        where: is found in their status or body.
        job: name of their class, in a body of ours.
        error: is found in the first line of their last failure.
        older_than: seconds; so long ago they ended, or, if they have not, were enqueued.
        newer_than: the same, at most.
    """

    priority: int | None = None
    where: re.Pattern[str] | None = None
    job: str | None = None
    error: re.Pattern[str] | None = None
    older_than: float | None = None
    newer_than: float | None = None

    @property
    def is_for_server(self) -> bool:
        """Whether the server can choose such jobs by itself."""
        return all(each is None for each in (self.where, self.job, self.error, self.older_than, self.newer_than))

    def passes(self, job: JobInfo, now_ms: float) -> bool | None:
        """Tell whether a job is meant; None if its body is needed to know that. The priority is taken for granted."""
        if not self._has_age(job, now_ms):
            return False
        if self.error is not None and not self.error.search(last_error(job)):
            return False
        if self.job is None and (self.where is None or self.where.search(job.status)):
            return True
        return None

    def passes_with_body(self, job: JobInfo) -> bool:
        """Tell whether a job is meant for which ``passes`` needed the body."""
        from pinlater.jobs.body_codec import name_in

        body = job.body or b""
        if self.job is not None and name_in(body) != self.job:
            return False
        return self.where is None or any(
            self.where.search(text) for text in (job.status, body.decode("utf-8", "backslashreplace"))
        )

    def _has_age(self, job: JobInfo, now_ms: float) -> bool:
        since_ms = job.updated_at_ms if job.state in _ENDED else job.created_at_ms
        age = (now_ms - (since_ms or 0)) / 1000
        return (self.older_than is None or age >= self.older_than) and (
            self.newer_than is None or age <= self.newer_than
        )


def last_error(job: JobInfo) -> str:
    """Return what the last failed attempt of a job raised; of a status that others write, all of it."""
    failed = job.failed_attempts
    return failed[-1].error if failed else job.status


def parse_pattern(text: str) -> re.Pattern[str]:
    """Return what to look for; a text without special letters is a regular expression for itself."""
    try:
        return re.compile(text)
    except re.error as error:
        raise click.BadParameter(
            f"{text!r} is no regular expression: {error}; put a backslash before . * + ? ( ) [ ] and the like"
        ) from None


_OPTIONS = (
    click.option("--priority", type=PRIORITY, help="Only jobs of this priority level.  [default: all]"),
    click.option(
        "--where",
        type=parse_pattern,
        metavar="TEXT",
        help="Only jobs with a match of this text or regular expression in their status or body.",
    ),
    click.option("--job", metavar="CLASS", help='Only jobs of this class, which is their "job" in the body.'),
    click.option(
        "--error",
        type=parse_pattern,
        metavar="TEXT",
        help="Only jobs with a match of this in the first line of their last failure.",
    ),
    click.option(
        "--older-than",
        type=parse_duration,
        metavar=DURATION,
        help="Only jobs that failed or succeeded at least so long ago, such as 90s, 15m, 2h or 7d; others: that were "
        "enqueued then.",
    ),
    click.option("--newer-than", type=parse_duration, metavar=DURATION, help="The same, at most so long ago."),
)
_NAMES = ("priority", "where", "job", "error", "older_than", "newer_than")


def with_filter(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of a filter, as its argument ``which``."""

    @functools.wraps(function)
    def collected(*args: Any, **options: Any) -> Any:
        which = Filter(**{name: options.pop(name) for name in _NAMES})
        return function(*args, which=which, **options)

    for option in reversed(_OPTIONS):
        collected = option(collected)
    return collected
