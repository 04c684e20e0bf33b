"""``pinlater tail``."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from pinlater.cli.batches import batches
from pinlater.cli.command import Session, command
from pinlater.cli.completion import complete_queues
from pinlater.cli.failures import status_line
from pinlater.cli.output import job_json, print_json, some_jobs, state_text, visible
from pinlater.cli.summaries import Summaries
from pinlater.durations import DURATION, Duration

if TYPE_CHECKING:
    from pinlater.cli.changes import Change
    from pinlater.model.body_summary import BodySummary

_AT_ONCE = 100
_MOST_ARGUMENTS = 60


@command(
    "tail",
    examples="""
    pinlater tail
    pinlater tail email --interval 0.5
    pinlater tail email --json | grep FAILED
    """,
)
@click.argument("queues", nargs=-1, shell_complete=complete_queues)
@click.option(
    "--interval",
    type=Duration(min=0.1),
    default=1.0,
    metavar=DURATION,
    help="Polling interval.  [default: 1s]",
)
@click.option("--for", "seconds", type=Duration(min=0), metavar=DURATION, help="Stop after this time.")
def tail(session: Session, /, *, queues: tuple[str, ...], interval: float, seconds: float | None) -> None:
    """Print a line whenever a job changes its state, until ^C.

    The line names the job's class and short arguments. The command polls the server, and claims no jobs. A poll finds
    up to 5000 new jobs of each state, and follows up to 3000 jobs of a queue until they end. Polling takes at
    most half of the time.

    Of several states between two polls, it shows only the last. It misses jobs that are enqueued and deleted between
    two polls. A job enqueued for later is shown only when it is due, if more than a hundred others are due even later.
    Every five seconds, the command compares with the server's counts. If more jobs came or ended than it has shown, a
    line on stderr says how many it has missed at least.
    """
    from pinlater.cli.changes import ChangeTracker

    end = float("inf") if seconds is None else time.monotonic() + seconds
    with session.client() as client:
        tracker, summaries = ChangeTracker(client, queues), Summaries(client, _MOST_ARGUMENTS)
        while True:
            started = time.monotonic()
            for part in batches(tracker.poll(), _AT_ONCE):
                if session.as_json:
                    _print_json(part)
                else:
                    _print_lines(part, summaries)
            for queue, number in tracker.unseen.items():
                some = f"at least {some_jobs(number)}" if number else "some jobs"
                click.echo(f"{queue}: too many changes to follow; {some} came or ended without being shown", err=True)
            now = time.monotonic()
            wait = max(interval, 2 * (now - started)) - (now - started)
            if now + wait > end:
                return
            time.sleep(wait)


def _print_json(changes: Sequence[Change]) -> None:
    for change in changes:
        print_json({"before": None if change.before is None else change.before.name, **job_json(change.info)})


def _print_lines(changes: Sequence[Change], summaries: Summaries) -> None:
    found = summaries.of(change.info for change in changes)
    for change in changes:
        info = change.info
        states = state_text(info) if change.before is None else f"{change.before.name} > {state_text(info)}"
        left = f"{info.attempts_text} left"
        job = _job_text(found[info.descriptor])
        click.echo(
            f"{time.strftime('%H:%M:%S')}  {info.descriptor}  {job}{states}  {left}  {status_line(info)}".rstrip()
        )


def _job_text(summary: BodySummary) -> str:
    """Return class and arguments as a call; empty if they are not known."""
    text = f"{summary.job}({summary.arguments})" if summary.job else summary.arguments
    return f"{visible(text)}  " if text else ""
