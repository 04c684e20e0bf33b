"""``pinlater cancel`` and ``run-now``: pending jobs, by descriptor."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import click

from pinlater.cli.command import Session, command
from pinlater.cli.output import print_json, some_jobs, visible
from pinlater.model.state import JobState

if TYPE_CHECKING:
    from pinlater.client.client import Client
    from pinlater.client.handle import JobHandle
    from pinlater.model.jobs import JobInfo


@command(
    "cancel",
    examples="""
    pinlater cancel email:s1:p1:42
    pinlater cancel email:s1:p1:42 email:s1:p1:43 --json
    """,
)
@click.argument("descriptors", nargs=-1, required=True)
@click.pass_obj
def cancel(session: Session, /, *, descriptors: tuple[str, ...]) -> int:
    """Delete pending jobs by descriptor.

    Pending jobs are those that are not due yet, or wait for a worker or their next attempt. Jobs that are running or
    have ended are skipped, even if a worker claims them at this moment.

    Exit status 1 if a job was skipped or does not exist.
    """
    return _change_each(session, descriptors, lambda handle: handle.cancel(), "cancelled")


@command(
    "run-now",
    examples="""
    pinlater run-now email:s1:p1:42
    """,
)
@click.argument("descriptors", nargs=-1, required=True)
@click.pass_obj
def run_now(session: Session, /, *, descriptors: tuple[str, ...]) -> int:
    """Make scheduled jobs due now, by descriptor.

    Scheduled jobs were enqueued for later, are sleeping, or wait for their next attempt. They keep their remaining
    attempts. For failed jobs, see "pinlater retry-failed".

    Exit status 1 if a job is already due, is running, has ended, or does not exist.
    """
    return _change_each(session, descriptors, lambda handle: handle.run_now(), "made due")


def _change_each(session: Session, descriptors: Iterable[str], change: Callable[[JobHandle], bool], past: str) -> int:
    """Change jobs one by one, print why jobs were skipped, and return the exit status."""
    with session.client() as client:
        handles = [client.handle(descriptor) for descriptor in dict.fromkeys(descriptors)]
        changed = {handle.descriptor: change(handle) for handle in handles}
        left = [descriptor for descriptor, is_changed in changed.items() if not is_changed]
        reasons = _reasons(client, left)
    for descriptor, reason in reasons.items():
        click.echo(f"pinlater: {visible(descriptor)} {reason}", err=True)
    if session.as_json:
        print_json(
            {
                past.replace(" ", "_"): [descriptor for descriptor, is_changed in changed.items() if is_changed],
                "left": left,
            }
        )
    else:
        click.echo(f"{some_jobs(len(changed) - len(left))} {past}")
    return 1 if left else 0


def _reasons(client: Client, left: list[str]) -> dict[str, str]:
    """Return why jobs were skipped, by descriptor."""
    found = client.lookup(left) if left else {}
    return {descriptor: _reason(found.get(descriptor)) for descriptor in left}


def _reason(info: JobInfo | None) -> str:
    if info is None:
        return "does not exist"
    return "is already due" if info.state is JobState.PENDING else f"is {info.state.name}"
