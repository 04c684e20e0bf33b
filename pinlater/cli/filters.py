"""Job filters: options that the bulk commands have in common, and matching of jobs."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from pinlater.cli.command import PRIORITY, STATES, option_group, parse_state
from pinlater.cli.completion import complete_states
from pinlater.durations import DURATION, parse_duration
from pinlater.model.state import JobState

if TYPE_CHECKING:
    from pinlater.model.jobs import JobInfo

_ENDED = frozenset({JobState.SUCCEEDED, JobState.FAILED})


@dataclass(frozen=True, slots=True)
class Filter:
    """Conditions that a job has to match; None matches any job.

    Attributes:
        priority: priority level.
        where: pattern to find in the status or body.
        job: name of the job class in the body.
        error: pattern to find in the first line of the last failure.
        older_than: minimum age in seconds, since the end of the job, or since its enqueue if it has not ended.
        newer_than: maximum age in seconds, likewise.
        group: id of the failure group of the last failure.
    """

    priority: int | None = None
    where: re.Pattern[str] | None = None
    job: str | None = None
    error: re.Pattern[str] | None = None
    older_than: float | None = None
    newer_than: float | None = None
    group: int | None = None

    @property
    def is_for_server(self) -> bool:
        """Whether the server can filter the jobs itself."""
        return self == Filter(priority=self.priority)

    @property
    def has_age(self) -> bool:
        """Whether ``matches`` needs the time."""
        return self.older_than is not None or self.newer_than is not None

    def matches(self, job: JobInfo, now_ms: float) -> bool | None:
        """Tell whether a job matches, apart from its priority; None if that depends on its body."""
        if not self._has_age(job, now_ms) or self.group not in {None, job.failure_group}:
            return False
        if self.error is not None and not self.error.search(last_error(job)):
            return False
        if self.job is None and (self.where is None or self.where.search(job.status)):
            return True
        return None

    def matches_body(self, job: JobInfo) -> bool:
        """Tell whether a job with its body matches, after ``matches`` returned None."""
        from pinlater.model.class_name import name_in

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
    """Return the error of the last failed attempt; the whole status if it has another format."""
    failed = job.failed_attempts
    return failed[-1].error if failed else job.status


def parse_pattern(text: str) -> re.Pattern[str]:
    """Compile a regular expression; plain text without special characters matches itself."""
    try:
        return re.compile(text)
    except re.error as error:
        raise click.BadParameter(
            f"{text!r} is not a regular expression: {error}; put a backslash before . * + ? ( ) [ ] and the like"
        ) from None


_OPTIONS = {
    "priority": click.option("--priority", type=PRIORITY, help="Only jobs of this priority level.  [default: all]"),
    "where": click.option(
        "--where",
        type=parse_pattern,
        metavar="TEXT",
        help="Only jobs whose status or body matches this text or regular expression.",
    ),
    "job": click.option("--job", metavar="CLASS", help='Only jobs of this class, the "job" in their body.'),
    "error": click.option(
        "--error",
        type=parse_pattern,
        metavar="TEXT",
        help="Only jobs whose last error has a first line that matches this text or regular expression.",
    ),
    "older_than": click.option(
        "--older-than",
        type=parse_duration,
        metavar=DURATION,
        help="Only jobs that ended at least this long ago, such as 90s, 15m, 2h or 7d. For pending and running jobs, "
        "the time of their enqueue counts.",
    ),
    "newer_than": click.option(
        "--newer-than", type=parse_duration, metavar=DURATION, help="The same, but at most this long ago."
    ),
    "group": click.option(
        "--group",
        type=int,
        metavar="GROUP",
        help="Only pending or failed jobs of this failure group, from pinlater failing.",
    ),
}

with_filter = option_group("job_filter", _OPTIONS, lambda given: Filter(**given))
"""Adds the filter options to a command."""

REGEX = click.option("--regex", help="Only jobs whose body matches this regular expression; the server searches.")


def state_option(**settings: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return the option ``--state``, which completes the names of states."""
    return click.option("--state", type=parse_state, metavar=STATES, shell_complete=complete_states, **settings)
