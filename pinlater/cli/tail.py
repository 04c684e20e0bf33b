"""``pinlater tail``."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from pinlater.cli.command import Session, command
from pinlater.cli.completion import complete_queues
from pinlater.cli.failures import status_line
from pinlater.cli.output import job_json, print_json, some_jobs, state_text

if TYPE_CHECKING:
    from pinlater.cli.changes import Change


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
    type=click.FloatRange(min=0.1),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="Polling interval.",
)
@click.option("--for", "seconds", type=click.FloatRange(min=0), metavar="SECONDS", help="Stop after this time.")
@click.pass_obj
def tail(session: Session, /, *, queues: tuple[str, ...], interval: float, seconds: float | None) -> None:
    """Print a line whenever a job changes its state, until ^C.

    It polls the server and claims nothing. A poll finds up to 5000 new jobs of each state, and follows up to 3000 jobs
    of a queue until they end. Polling takes at most a third of the time.

    It may miss states between two polls, of which only the last one is shown; jobs that were enqueued and deleted
    between two polls; and jobs enqueued for later while more than a hundred others are due even later, until they are
    due. Every five seconds it compares with the server's counts; if more jobs came or ended than it has shown, a line
    on stderr says how many it has missed at least.
    """
    from pinlater.cli.changes import ChangeTracker

    end = float("inf") if seconds is None else time.monotonic() + seconds
    with session.client() as client:
        tracker = ChangeTracker(client, queues)
        while True:
            started = time.monotonic()
            for change in tracker.poll():
                _print(change, as_json=session.as_json)
            for queue, number in tracker.unseen.items():
                some = f"at least {some_jobs(number)}" if number else "some jobs"
                click.echo(f"{queue}: too many changes to follow; {some} came or ended without being shown", err=True)
            now = time.monotonic()
            wait = max(interval, 2 * (now - started)) - (now - started)
            if now + wait > end:
                return
            time.sleep(wait)


def _print(change: Change, *, as_json: bool) -> None:
    info = change.info
    if as_json:
        print_json({"before": None if change.before is None else change.before.name, **job_json(info)})
        return
    states = state_text(info) if change.before is None else f"{change.before.name} > {state_text(info)}"
    left = f"{info.attempts_remaining} of {info.attempts_allowed} left"
    status = status_line(info)
    click.echo(f"{time.strftime('%H:%M:%S')}  {info.descriptor}  {states}  {left}  {status}".rstrip())
