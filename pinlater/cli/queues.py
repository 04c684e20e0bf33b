"""Commands on queues: create, delete, list and count; ``pinlater hash-password``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from pinlater.cli.command import PRIORITY, WITH_TABLE, Session, command
from pinlater.cli.completion import complete_queues
from pinlater.cli.done_notes import noting_done
from pinlater.cli.filters import Filter, state_option
from pinlater.cli.job_selection import JobSelection
from pinlater.cli.output import print_json
from pinlater.cli.retrying import check_pending, knows_retrying, need_retrying
from pinlater.cli.tables import Table
from pinlater.model.state import JobState

if TYPE_CHECKING:
    from pinlater.client.client import Client

PASSWORD_KEY = "PINLATER_ADMIN_PASSWORD"  # noqa: S105 - the name of a variable


@command(
    "create-queue",
    examples="""
    pinlater create-queue email
    pinlater create-queue email_bulk --server queue1.example.com:9010
    """,
)
@click.argument("queue")
def create_queue(session: Session, /, *, queue: str) -> None:
    """Create a queue if it does not exist.

    A name consists of up to 58 letters, digits and underscores. Jobs can be enqueued immediately on all servers of the
    store. Prints nothing.
    """
    with session.client() as client:
        client.create_queue(queue)
    if session.as_json:
        print_json({"created": queue})


@command(
    "create-queues",
    examples="""
    pinlater create-queues my_project.jobs
    pinlater create-queues mail/jobs.py --server queue1.example.com:9010
    """,
)
@click.argument("modules", nargs=-1, required=True, metavar="MODULE...")
def create_queues(session: Session, /, *, modules: tuple[str, ...]) -> None:
    """Create the queues of the job classes in modules.

    Existing queues are not changed. MODULE is a module, a package or the path of a .py file, as for pinlater-worker.
    Prints the names of the queues. This is needed only for servers with QUEUE_AUTO_CREATE=false; others create a queue
    with its first job.
    """
    from pinlater.jobs.loader import load_job_classes

    names = sorted({kind.job_options.queue for kind in load_job_classes(modules)})
    with session.client() as client, noting_done("created") as done:
        for name in names:
            client.create_queue(name)
            done.append(name)
        if session.as_json:
            print_json({"queues": names})
        else:
            click.echo("\n".join(names))


@command(
    "delete-queue",
    examples="""
    pinlater delete-queue email
    pinlater delete-queue email --password-file /etc/pinlater/admin-password
    """,
)
@click.argument("queue", shell_complete=complete_queues)
@click.option("--password-file", type=click.Path(exists=True, dir_okay=False), help="File with the admin password.")
def delete_queue(session: Session, /, *, queue: str, password_file: str | None) -> None:
    """Delete a queue with all its jobs.

    Needs the server's admin password, from --password-file, from PINLATER_ADMIN_PASSWORD in the environment, or typed
    in. If the queue does not exist, a message says so, and the exit status is 0.
    """
    password = _known_password(password_file)
    if password is None:
        if not sys.stdin.isatty():
            raise click.UsageError(f"No admin password: use --password-file or {PASSWORD_KEY}.")
        password = click.prompt(f"Admin password, to delete {queue} and all its jobs", hide_input=True, err=True)
    with session.client() as client:
        is_there = queue in client.queue_names()
        client.delete_queue(queue, password)
    if not is_there:
        click.echo(f"there was no queue {queue}", err=True)
    if session.as_json:
        print_json({"deleted": queue})


def _known_password(path: str | None) -> str | None:
    """Return the password from a file (its first line) or the environment; None if neither has one."""
    import os

    if path is not None:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
        if not lines or not lines[0]:
            raise click.UsageError(f"The password file {path} is empty.")
        return lines[0]
    return os.environ.get(PASSWORD_KEY) or None


@command(
    "queues",
    examples="""
    pinlater queues
    pinlater queues --json
    """,
)
def queues(session: Session) -> None:
    """List the names of all queues.

    For the number of jobs in each, see "pinlater top --once".
    """
    with session.client() as client:
        names = sorted(client.queue_names())
    if session.as_json:
        print_json(names)
        return
    for name in names:
        click.echo(name)
    if not names:
        click.echo("there are no queues yet; create one: pinlater create-queue NAME", err=True)


@command(
    "count",
    common=WITH_TABLE,
    examples="""
    pinlater count email
    pinlater count email --state failed --priority 1
    pinlater count email --retrying
    pinlater count email --state pending --future --regex 'user_id": *42\\b'
    """,
)
@click.argument("queue", shell_complete=complete_queues)
@state_option(help="Print only the number of jobs in this state.")
@click.option("--priority", type=PRIORITY, help="Only jobs of this priority level.  [default: all]")
@click.option("--future", is_flag=True, help="With --state pending: jobs that are not due yet, instead of due ones.")
@click.option("--retrying", is_flag=True, help="With --state pending: jobs whose last attempt failed, due or not.")
@click.option("--regex", help="Only jobs whose body matches this regular expression.")
def count(
    session: Session,
    /,
    *,
    queue: str,
    state: JobState | None,
    priority: int | None,
    future: bool,
    retrying: bool,
    regex: str,
) -> None:
    """Count the jobs of a queue by state.

    With --state, it prints a single number. Without --state, it shows pending jobs on four lines, and counts each job
    on one of them: PENDING jobs are due; SCHEDULED jobs are not due yet, or sleep; WAITING_FOR_KEY jobs wait for other
    jobs of their key; RETRYING jobs have failed and wait for their next attempt, due or not. Servers of earlier
    versions count the last two as PENDING or SCHEDULED. For each priority, the server counts up to its COUNT_LIMIT.

    If a shard of the store does not answer, its jobs are left out: a message and the exit status 69 say so, and with
    --json, "missing_shards".
    """
    if (future or retrying) and state is None:
        state = JobState.PENDING
    check_pending(state, future=future, retrying=retrying)
    with session.client() as client:
        if retrying:
            need_retrying(client, queue)
        kinds = [_Counted("", state, future, retrying or None)] if state is not None else _all_counted(client, queue)
        found = {
            kind.name: JobSelection(queue, kind.state, Filter(priority), kind.future, regex, kind.retrying).count(
                client
            )
            for kind in kinds
        }
        if "RETRYING" in found and not regex:
            waiting = client.count(queue, JobState.PENDING, priority=priority, waiting_for_key=True, retrying=False)
            scheduled = {"SCHEDULED": max(found["SCHEDULED"] - waiting, 0), "WAITING_FOR_KEY": waiting}
            found = {"PENDING": found["PENDING"], **scheduled, **found, **scheduled}
    if state is not None:
        click.echo(found[""])
    elif session.as_json:
        print_json(found | ({"missing_shards": missing} if (missing := sorted(session.missing_shards)) else {}))
    else:
        Table(["STATE", "JOBS"], numbers=[1], width=session.table_width).print(
            [[name, str(number)] for name, number in found.items()]
        )


class _Counted(NamedTuple):
    """Jobs that are counted together, under a name; ``future`` and ``retrying`` as for ``Client.count``."""

    name: str
    state: JobState
    future: bool = False
    retrying: bool | None = None


def _all_counted(client: Client, queue: str) -> list[_Counted]:
    others = [_Counted(state.name, state) for state in JobState if state is not JobState.PENDING]
    if not knows_retrying(client, queue):
        return [_Counted("PENDING", JobState.PENDING), _Counted("SCHEDULED", JobState.PENDING, future=True), *others]
    return [
        _Counted("PENDING", JobState.PENDING, retrying=False),
        _Counted("SCHEDULED", JobState.PENDING, future=True, retrying=False),
        _Counted("RETRYING", JobState.PENDING, retrying=True),
        *others,
    ]


@command(
    "hash-password",
    common=("as_json",),
    examples="""
    pinlater hash-password
    pinlater hash-password --password-file admin-password
    """,
)
@click.option(
    "--password-file",
    type=click.Path(exists=True, dir_okay=False),
    help="Read the password from the first line of this file.",
)
def hash_admin_password(session: Session, /, *, password_file: str | None) -> None:
    """Print the hash of an admin password.

    The hash is the value of the server setting ADMIN_PASSWORD_HASH. The password is typed in twice, or read from the
    first line of --password-file or stdin.
    """
    from pinlater.model.password import hash_password

    if password_file is not None:
        password = _known_password(password_file) or ""
    elif sys.stdin.isatty():
        password = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    else:
        password = sys.stdin.readline().rstrip("\r\n")
    if not password:
        raise click.UsageError("The password is empty.")
    hashed = hash_password(password)
    if session.as_json:
        print_json({"hash": hashed})
    else:
        click.echo(hashed)
