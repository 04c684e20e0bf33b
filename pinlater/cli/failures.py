"""How the attempts that failed are shown: one block each."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import click

from pinlater.cli.filters import last_error
from pinlater.cli.output import moment, visible

if TYPE_CHECKING:
    from pinlater.model.records import JobInfo
    from pinlater.model.status import FailedAttempt

_GAP = "  "


def print_failures(info: JobInfo) -> None:
    """Print the attempts of a job that failed, as far as its status tells of them."""
    for failed in info.failed_attempts:
        click.echo()
        click.echo(
            _GAP.join([_which(failed), moment(failed.at_ms), f"{visible(failed.host)} {failed.pid}", *_length(failed)])
        )
        click.echo(f"{_GAP}{visible(failed.error)}")
        for line in failed.traceback.splitlines():
            click.echo(f"{_GAP}{visible(line)}".rstrip())


def failures_json(info: JobInfo) -> list[dict[str, Any]]:
    """Return the attempts that failed, for programs."""
    return [dataclasses.asdict(failed) for failed in info.failed_attempts]


def _which(failed: FailedAttempt) -> str:
    return f"attempt {failed.attempt} of {failed.attempts_allowed}" if failed.attempt else "its process ended"


def _length(failed: FailedAttempt) -> list[str]:
    return [] if failed.seconds is None else [f"ran {failed.seconds:.2f} s"]


def status_line(info: JobInfo) -> str:
    """Return a job's status for a line of a table: of attempts that failed, the last one's error."""
    return visible(last_error(info))
