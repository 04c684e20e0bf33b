"""``pinlater cancel``, ``run-now``, ``retry``, ``send`` and ``result``: single jobs, by descriptor."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import click

from pinlater.cli.command import Session, command
from pinlater.cli.done_notes import noting_done
from pinlater.cli.output import print_json, some_jobs, state_text, visible
from pinlater.cli.retry_failed import ATTEMPTS_OF_RETRY
from pinlater.client.waits import awaited_events
from pinlater.durations import DURATION, parse_duration
from pinlater.errors import EXIT_UNAVAILABLE, JobError, JobUnfinished, UnknownError
from pinlater.model.descriptor import JobDescriptor
from pinlater.model.state import JobState

if TYPE_CHECKING:
    from pinlater.client.client import Client
    from pinlater.model.jobs import JobInfo


def _descriptor(text: str) -> str:
    """Return a descriptor; people also give the name of a queue.

    Raises:
        click.BadParameter: it is no descriptor.
    """
    try:
        return str(JobDescriptor.parse(text))
    except UnknownError:
        raise click.BadParameter(
            f"{text[:200]!r} is no descriptor of a job, such as email:s1:p1:42. For the jobs of a queue: pinlater "
            "scan, cancel-jobs and retry-failed."
        ) from None


@command(
    "cancel",
    examples="""
    pinlater cancel email:s1:p1:42
    pinlater cancel email:s1:p1:42 email:s1:p1:43 --reason "wrong list" --json
    """,
)
@click.argument("descriptors", nargs=-1, required=True, type=_descriptor)
@click.option("--reason", default="", help="Text for the status of the jobs.")
def cancel(session: Session, /, *, descriptors: tuple[str, ...], reason: str) -> int:
    """Cancel jobs and their children, by descriptor.

    Pending jobs become FAILED at once, and are marked as cancelled. Running jobs are asked to stop, and may still
    succeed. For all jobs of a queue in a state, see "pinlater cancel-jobs".

    Exit status 1 if a job has ended otherwise or does not exist.
    """
    return _change_each(session, descriptors, lambda client, name: client.handle(name).cancel(reason), "cancelled")


@command(
    "run-now",
    examples="""
    pinlater run-now email:s1:p1:42
    """,
)
@click.argument("descriptors", nargs=-1, required=True, type=_descriptor)
def run_now(session: Session, /, *, descriptors: tuple[str, ...]) -> int:
    """Make scheduled jobs due now, by descriptor.

    Scheduled jobs were enqueued for later, are sleeping, or wait for their next attempt. They keep their remaining
    attempts. For failed jobs, see "pinlater retry".

    Exit status 1 if a job is already due, is running, has ended, or does not exist.
    """
    return _change_each(
        session, descriptors, lambda client, name: client.handle(name).run_now(), "made due", pending="is already due"
    )


@command(
    "retry",
    examples="""
    pinlater retry email:s1:p1:42
    pinlater retry email:s1:p1:42 email:s1:p1:43 --attempts 3
    """,
)
@click.argument("descriptors", nargs=-1, required=True, type=_descriptor)
@ATTEMPTS_OF_RETRY
def retry(session: Session, /, *, descriptors: tuple[str, ...], attempts: int) -> int:
    """Retry failed jobs, by descriptor: make them pending again.

    A job that has undone its steps fails again; the tool says so. For all failed jobs of a queue, or those that match a
    filter, see "pinlater retry-failed".

    Exit status 1 if a job has not failed or does not exist.
    """

    def retry_one(client: Client, name: str) -> bool:
        info = client.lookup([name]).get(name)
        is_retried = client.retry_these(JobDescriptor.parse(name).queue, [name], attempts=attempts) > 0
        failed = info.failed_attempts if info else []
        if is_retried and failed and failed[-1].has_undone:
            text = "has undone its steps, so it fails again unless it catches SagaUndone; enqueue a new job instead"
            click.echo(f"pinlater: {visible(name)} {text}", err=True)
        return is_retried

    return _change_each(session, descriptors, retry_one, "retried")


@command(
    "send",
    examples="""
    pinlater send orders:s1:p1:42 approval '{"by": "ada"}'
    pinlater send orders:s1:p1:42 paid --id invoice-7781
    """,
)
@click.argument("descriptor", type=_descriptor)
@click.argument("event")
@click.argument("value", required=False)
@click.option("--id", "event_id", help="Of two events with the same name and id, only the first is kept.")
def send(session: Session, /, *, descriptor: str, event: str, value: str | None, event_id: str | None) -> int:
    """Send an event to a job.

    The event is kept until the job waits for it with context.wait_for. The value is JSON. Without one the job gets
    None, which does not fit if it waits for a value of a type, as in context.wait_for("approval", Approval).

    Exit status 1 if the job has ended or does not exist.
    """
    with session.client() as client:
        handle, sent = client.handle(descriptor), None if value is None else _json(value)
        info = client.lookup([descriptor]).get(descriptor)
        is_sent = handle.send(event, sent, id=event_id)
        reasons = {} if is_sent else _reasons(client, [descriptor])
    awaited = awaited_events(info.waits_for) if info else []
    if is_sent and awaited and event not in awaited:
        text = f"{descriptor} waits for event {', '.join(awaited)}; {event} is kept until it waits for that"
        click.echo(f"pinlater: {visible(text)}", err=True)
    for name, reason in reasons.items():
        click.echo(f"pinlater: {visible(name)} {reason}", err=True)
    if session.as_json:
        print_json({"sent": is_sent})
    elif is_sent:
        click.echo("event sent, without a value: the job gets None" if value is None else "event sent")
    return 0 if is_sent else 1


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise click.UsageError(f"VALUE is not JSON: {error}. Texts need quotes: '\"{text}\"'") from None


@command(
    "result",
    examples="""
    pinlater result resize:s1:p1:42
    pinlater result resize:s1:p1:42 --wait 30s
    """,
)
@click.argument("descriptor", type=_descriptor)
@click.option(
    "--wait",
    type=parse_duration,
    metavar=DURATION,
    help="Wait this long for the job to end, such as 30s or 5m.  [default: not at all]",
)
def result(session: Session, /, *, descriptor: str, wait: float | None) -> int:
    """Print what a job returned, as JSON.

    Exit status 1 if the job has failed, was cancelled or does not exist; 69 if it has not ended.
    """
    with session.client() as client:
        try:
            value = client.handle(descriptor).result(wait or 0.0)
        except JobError as error:
            raise click.ClickException(str(error)) from error
        except JobUnfinished as error:
            hint = "; wait for its end with --wait 30s" if wait is None else ""
            click.echo(f"pinlater: {error}{hint}", err=True)
            return EXIT_UNAVAILABLE
    print_json(value)
    return 0


def _change_each(
    session: Session,
    descriptors: Iterable[str],
    change: Callable[[Client, str], bool],
    past: str,
    *,
    pending: str = "is PENDING",
) -> int:
    """Change jobs one by one, print why jobs were skipped, and return the exit status.

    Args:
        session: the tool's session.
        descriptors: the jobs.
        change: changes a job, and returns whether it did.
        past: what was done to a job.
        pending: what to say of a PENDING job that was skipped.
    """
    with session.client() as client, noting_done(past) as changed:
        left: list[str] = []
        for name in dict.fromkeys(descriptors):
            (changed if change(client, name) else left).append(name)
        for descriptor, reason in _reasons(client, left, pending).items():
            click.echo(f"pinlater: {visible(descriptor)} {reason}", err=True)
        if session.as_json:
            print_json({past.replace(" ", "_"): changed, "left": left})
        else:
            click.echo(f"{some_jobs(len(changed))} {past}")
    return 1 if left else 0


def _reasons(client: Client, left: list[str], pending: str = "is PENDING") -> dict[str, str]:
    """Return why jobs were skipped, by descriptor."""
    found = client.lookup(left) if left else {}
    return {descriptor: _reason(found.get(descriptor), pending) for descriptor in left}


def _reason(info: JobInfo | None, pending: str) -> str:
    if info is None:
        return "does not exist"
    return pending if info.state is JobState.PENDING else f"is {state_text(info)}"
