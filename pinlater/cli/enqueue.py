"""``pinlater enqueue``: one job, or one for each line of a file."""

from __future__ import annotations

import json
import re
import sys
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from pinlater.cli.command import PRIORITY, Session, command
from pinlater.cli.completion import complete_queues
from pinlater.cli.done_notes import done_before, noting_done, noting_number
from pinlater.cli.enqueue_options import check_shared_key, with_policy, with_shared_key, with_unique_key
from pinlater.cli.output import print_json, some_jobs
from pinlater.durations import DURATION, parse_duration
from pinlater.errors import BodyInvalid
from pinlater.jobs.job import RawJob

if TYPE_CHECKING:
    from pinlater.model.policy import Policy

_CLASS_NAME = re.compile(r"(?:\w+\.)*([A-Z]\w*)", re.ASCII)
"""Pattern of what looks like a job class, perhaps with its module."""


@command(
    "enqueue",
    examples="""
    pinlater enqueue email '{"job": "SendWelcomeEmail", "user_id": 42}'
    pinlater enqueue email --delay 3600 --priority 2 '{"job": "SendWelcomeEmail", "user_id": 42}'
    pinlater enqueue email --backoff exponential:first=2,cap=600 '{"job": "SendWelcomeEmail", "user_id": 42}'
    pinlater enqueue thumbnails --file photo.jpg
    pinlater enqueue --app my_project.jobs '{"job": "SendWelcomeEmail", "user_id": 42}'
    zcat jobs.jsonl.gz | pinlater enqueue email --json-lines -
    """,
)
@click.argument("queue", required=False, shell_complete=complete_queues)
@click.argument("body", required=False)
@click.option("--file", "file", type=click.File("rb"), help="Read the body from this file; - is stdin.")
@click.option("--json-lines", type=click.File("rb"), help="Enqueue a job for each line of this file; - is stdin.")
@click.option(
    "--app",
    "modules",
    multiple=True,
    metavar="MODULE",
    help="Module, package or .py file with job classes, as for pinlater-worker; may be repeated.",
)
@click.option(
    "--priority", type=PRIORITY, help="Priority; 1 is served first.  [default: 1; with --app, that of the class]"
)
@click.option(
    "--delay", type=parse_duration, metavar=DURATION, help="Run after this time at the earliest, such as 90s or 2h."
)
@click.option(
    "--attempts",
    type=click.IntRange(min=1),
    help="Total number of attempts.  [default: 20; with --app, that of the class]",
)
@with_policy
@with_unique_key
@with_shared_key
def enqueue(
    session: Session,
    /,
    *,
    queue: str | None,
    body: str | None,
    file: BinaryIO | None,
    json_lines: BinaryIO | None,
    modules: tuple[str, ...],
    policy: Policy | None,
    unique: dict[str, Any],
    shared: dict[str, Any],
    **options: Any,
) -> None:
    """Enqueue one or many jobs.

    The body of a job is BODY, a file, or a line of a JSON Lines file. Prints the descriptor of a single job, or the
    number of jobs. With --unique, the descriptor may be that of an existing job.

    With --json-lines, lines are sent in batches while the file is read, and --key applies to all jobs. After an error,
    the message says how many jobs were stored.

    With --app, each body must fit its job class and have no other fields. Queue, priority, attempts and key are those
    of the class unless given. Without --app, a body is any bytes.
    """
    if modules and body is None and file is None and json_lines is None:
        queue, body = None, queue
    if sum(given is not None for given in (body, file, json_lines)) != 1:
        raise click.UsageError("Give the body either as an argument, or with --file or --json-lines.")
    if body == "-":
        raise click.UsageError("To read the body from stdin, write --file -.")
    if queue is None and not modules:
        raise click.UsageError("Missing argument 'QUEUE'. It may be omitted only with --app.")
    if policy is not None and policy.give_up_after is not None and policy.give_up_after <= (options["delay"] or 0):
        raise click.UsageError("--give-up-after must be longer than --delay; both count from now.")
    check_shared_key(shared, has_classes=bool(modules))
    make = _maker(modules, queue, policy)
    if json_lines is not None:
        if unique:
            raise click.UsageError("--unique is the key of a single job; it cannot be combined with --json-lines.")
        _enqueue_lines(session, queue, _JobLines(json_lines, make), options | shared)
        return
    job = make(file.read() if file is not None else (body or "").encode("utf-8", "surrogateescape"))
    _enqueue_one(session, queue, job, options | unique | shared)
    if not modules and body is not None and (why := _why_raw(body, queue)):
        click.echo(f"pinlater: note: the text was stored as it is, for a RawJob class: {why}", err=True)


def _why_raw(body: str, queue: str | None) -> str:
    """Return why a body that seems to be meant for a job class is for none; empty if it does not seem to be."""
    if found := _CLASS_NAME.fullmatch(body):
        return (
            f'a job of class {found[1]} is JSON with its fields: pinlater enqueue {queue} \'{{"job": "{found[1]}"}}\''
        )
    if not body.lstrip().startswith("{"):
        return ""
    try:
        fields = json.loads(body)
    except ValueError as error:
        return f"it is not JSON, as a job of a class is: {error}"
    if "job" not in fields:
        return f'a job of a class names it: pinlater enqueue {queue} \'{{"job": "CLASS", …}}\''
    return ""


def _enqueue_one(session: Session, queue: str | None, job: RawJob, options: dict[str, Any]) -> None:
    with session.client() as client:
        descriptor = client.enqueue(job, queue=queue, **options).descriptor
    with noting_done("stored") as done:
        done.append(descriptor)
        if session.as_json:
            print_json({"descriptor": descriptor})
        else:
            click.echo(descriptor)


def _maker(modules: tuple[str, ...], queue: str | None, policy: Policy | None) -> Callable[[bytes], RawJob]:
    """Return a function that makes a job from a body, with the given policy."""
    from pinlater.cli.bodies import BodyChecker
    from pinlater.model.body_metadata import with_policy

    checker = BodyChecker(modules, queue) if modules else None

    def make(body: bytes) -> RawJob:
        kind = RawJob if checker is None else checker.kind_of(body)
        return kind(body=body if policy is None else with_policy(body, policy))

    return make


def _enqueue_lines(session: Session, queue: str | None, lines: _JobLines, options: dict[str, Any]) -> None:
    """Enqueue the jobs of lines; those before an invalid line are all stored, so that their number says where to go on.

    Raises:
        ClickException: a line is invalid.
    """
    with session.client() as client:
        number = client.enqueue_many(lines, queue=queue, progress=_progress(), **options)
    if sys.stderr.isatty():
        click.echo("\r\033[K", err=True, nl=False)
    if lines.problem:
        raise click.ClickException(f"{lines.problem}; {done_before(some_jobs(number), number, 'stored')}")
    with noting_number(number, "stored"):
        if session.as_json:
            print_json({"enqueued": number})
        else:
            click.echo(f"{some_jobs(number)} enqueued")


class _JobLines:
    """The jobs of the lines of a file that are not blank, up to the first invalid line.

    Args:
        lines: the lines.
        make: makes a job from a line.

    Attributes:
        problem: what is wrong with the invalid line: it is not JSON, or does not fit its class; empty if there is none.
    """

    def __init__(self, lines: Iterable[bytes], make: Callable[[bytes], RawJob]) -> None:
        self.problem = ""
        self._lines = lines
        self._make = make

    def __iter__(self) -> Iterator[RawJob]:
        import msgspec

        decode = msgspec.json.Decoder(msgspec.Raw).decode
        for number, line in enumerate(self._lines, start=1):
            content = line.removeprefix(BOM_UTF8 if number == 1 else b"").strip()
            if not content:
                continue
            try:
                decode(content)
                job = self._make(content)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                self.problem = f"line {number} is not JSON: {error}"
                return
            except BodyInvalid as error:
                self.problem = f"line {number}: {error}"
                return
            yield job


def _progress() -> Callable[[int], None] | None:
    """Return a function that shows progress; None if stderr is not a terminal."""
    if not sys.stderr.isatty():
        return None
    return lambda stored: click.echo(f"\r{stored:,} jobs", err=True, nl=False)
