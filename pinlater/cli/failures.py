"""Display of failed attempts, one block each."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import click

from pinlater.cli.filters import last_error
from pinlater.cli.output import moment, visible
from pinlater.client.waits import waits_text

if TYPE_CHECKING:
    from pinlater.model.jobs import JobInfo

_GAP = "  "


def print_failures(info: JobInfo) -> None:
    """Print the failed attempts of a job."""
    for failed in info.failed_attempts:
        click.echo()
        place, length = f"{visible(failed.host)} {failed.pid}", failed.seconds
        ran = [] if length is None else [f"ran {length:.2f} s"]
        click.echo(_GAP.join([failed.title, moment(failed.at_ms), place, *ran]))
        click.echo(f"{_GAP}{visible(failed.error)}")
        for line in failed.traceback.splitlines():
            click.echo(f"{_GAP}{visible(line)}".rstrip())
        if failed.step:
            click.echo(f"{_GAP}  in step {visible(failed.step)}")


def failures_json(info: JobInfo) -> list[dict[str, Any]]:
    """Return the failed attempts as JSON values."""
    return [
        {name: value for name, value in dataclasses.asdict(failed).items() if name != "step" or value}
        for failed in info.failed_attempts
    ]


def status_line(info: JobInfo) -> str:
    """Return what a job waits for, or else its last error or its status, as one line."""
    return visible(f"waits for {waits_text(info.waits_for)}" if info.waits_for else last_error(info))
