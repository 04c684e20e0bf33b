"""``pinlater tail``: what happens to jobs, live."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from pinlater.cli.command import Session, command
from pinlater.cli.completion import complete_queues
from pinlater.cli.failures import status_line
from pinlater.cli.output import job_json, print_json, some_jobs

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
    help="Time between two looks.",
)
@click.option("--for", "seconds", type=click.FloatRange(min=0), metavar="SECONDS", help="End after this time.")
@click.pass_obj
def tail(session: Session, /, *, queues: tuple[str, ...], interval: float, seconds: float | None) -> None:
    """Print a line whenever a job has another state, until ^C.

    It claims nothing, and asks the server again and again: for new jobs, up to 5000 of each state, and by name for up
    to 3000 jobs of a queue until they have ended; so it takes up a third of one connection's time at most.

    What it may miss: states in between, when a job passes through several of them from one look to the next, for which
    the last one is shown; a job that came and was deleted in between; and a job enqueued for later, while more than a
    hundred others are due later still, until it is due. Where more jobs came or ended than it has shown, a line on
    stderr says how many at least: it compares with the server's counts every five seconds.
    """
    from pinlater.cli.changes import Changes

    end = float("inf") if seconds is None else time.monotonic() + seconds
    with session.client() as client:
        changes = Changes(client, queues)
        while True:
            started = time.monotonic()
            for change in changes.look():
                _print(change, as_json=session.as_json)
            for queue, number in changes.unseen.items():
                some = f"{some_jobs(number)} or more" if number else "some jobs"
                click.echo(f"{queue}: more happens than can be followed; {some} came or ended unseen", err=True)
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
    states = info.state.name if change.before is None else f"{change.before.name} > {info.state.name}"
    left = f"{info.attempts_remaining} of {info.attempts_allowed} left"
    status = status_line(info)
    click.echo(f"{time.strftime('%H:%M:%S')}  {info.descriptor}  {states}  {left}  {status}".rstrip())
