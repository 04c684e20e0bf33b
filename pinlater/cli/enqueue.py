"""``pinlater enqueue``: one job, or as many as a file has lines."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from pinlater.cli.backoffs import BACKOFF, parse_backoff
from pinlater.cli.command import PRIORITY, Session, command
from pinlater.cli.completion import complete_queues
from pinlater.cli.output import print_json, some_jobs
from pinlater.durations import DURATION, parse_duration
from pinlater.errors import BodyInvalid
from pinlater.jobs.job import RawJob

if TYPE_CHECKING:
    from pinlater.model.backoff import Backoff
    from pinlater.model.policy import Policy


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
@click.option("--file", "file", type=click.File("rb"), help="The body is this file's content; - is stdin.")
@click.option("--json-lines", type=click.File("rb"), help="Every line of this file is the body of a job; - is stdin.")
@click.option(
    "--app",
    "modules",
    multiple=True,
    metavar="MODULE",
    help="Module, package or .py file with the job classes, as a worker loads it; may be repeated.",
)
@click.option("--priority", type=PRIORITY, help="1 is served first.  [default: 1; with --app, the class's]")
@click.option(
    "--delay", type=parse_duration, metavar=DURATION, help="Do not run before this time has passed, such as 90s or 2h."
)
@click.option(
    "--attempts",
    type=click.IntRange(min=1),
    help="Attempts in all, the first included.  [default: 20; with --app, the class's]",
)
@click.option("--backoff", type=parse_backoff, metavar=BACKOFF, help="Delay before further attempts.  [default: class]")
@click.option(
    "--job-timeout",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="Time that a run may take.  [default: class]",
)
@click.option(
    "--stall-after",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="Time that a run may go without a sign of progress.  [default: class]",
)
@click.option(
    "--give-up-after",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="Time from now after which no attempt begins any more.  [default: class]",
)
@click.option("--unique", metavar="KEY", help="Store nothing while a job of the queue with this key waits or runs.")
@click.pass_obj
def enqueue(
    session: Session,
    /,
    *,
    queue: str | None,
    body: str | None,
    file: BinaryIO | None,
    json_lines: BinaryIO | None,
    modules: tuple[str, ...],
    unique: str | None,
    backoff: Backoff | None,
    job_timeout: float | None,
    stall_after: float | None,
    give_up_after: float | None,
    **options: Any,
) -> None:
    """Put jobs into a queue.

    A job's body is the argument, a file, or each line of a JSON lines file. Prints the descriptor of a single job,
    the number of many. With --unique it may be the descriptor of a job that is there already. Many are sent in batches
    while the file is read; if that ends early, the message says how many were stored.

    With --app, each body has to fit its job class, with no field that the class does not have; queue, priority and
    attempts are those of the class, unless given. Without it, any bytes are taken.
    """
    from pinlater.model.policy import make_policy

    if modules and body is None and file is None and json_lines is None:
        queue, body = None, queue
    if sum(given is not None for given in (body, file, json_lines)) != 1:
        raise click.UsageError("Give the body as an argument, or with --file or --json-lines; one of them.")
    if queue is None and not modules:
        raise click.UsageError("Missing argument 'QUEUE'; with --app, it is that of the job class.")
    if give_up_after is not None and give_up_after <= (options["delay"] or 0):
        raise click.UsageError("--give-up-after has to be more than --delay: it counts from now, too.")
    make = _maker(modules, queue, make_policy(backoff, job_timeout, stall_after, give_up_after))
    if json_lines is not None:
        if unique is not None:
            raise click.UsageError("--unique is the key of one job; it does not go with --json-lines.")
        _enqueue_lines(session, queue, _of_lines(json_lines, make), options)
        return
    job = make(file.read() if file is not None else (body or "").encode("utf-8", "surrogateescape"))
    with session.client() as client:
        descriptor = client.enqueue(job, queue=queue, unique=unique, **options).descriptor
    if session.as_json:
        print_json({"descriptor": descriptor})
    else:
        click.echo(descriptor)


def _maker(modules: tuple[str, ...], queue: str | None, policy: Policy | None) -> Callable[[bytes], RawJob]:
    """Return what makes jobs of bodies, with what is said of their attempts."""
    from pinlater.cli.bodies import Bodies
    from pinlater.model.body_metadata import with_policy

    bodies = Bodies(modules, queue) if modules else None

    def make(body: bytes) -> RawJob:
        kind = RawJob if bodies is None else bodies.kind_of(body)
        return kind(body=body if policy is None else with_policy(body, policy))

    return make


def _enqueue_lines(session: Session, queue: str | None, jobs: Iterable[RawJob], options: dict[str, Any]) -> None:
    with session.client() as client:
        number = client.enqueue_many(jobs, queue=queue, progress=_progress(), **options)
    if sys.stderr.isatty():
        click.echo("\r\033[K", err=True, nl=False)
    if session.as_json:
        print_json({"enqueued": number})
    else:
        click.echo(f"{some_jobs(number)} enqueued")


def _of_lines(lines: Iterable[bytes], make: Callable[[bytes], RawJob]) -> Iterator[RawJob]:
    """Yield the jobs of the lines that are not blank; a broken one would fail in every attempt of a worker."""
    import msgspec

    decode = msgspec.json.Decoder(msgspec.Raw).decode
    for number, line in enumerate(lines, start=1):
        content = line.strip()
        if content:
            try:
                decode(content)
                yield make(content)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise click.ClickException(f"line {number} is no JSON: {error}") from error
            except BodyInvalid as error:
                raise click.ClickException(f"line {number}: {error}") from error


def _progress() -> Callable[[int], None] | None:
    """Return what shows progress to somebody who is watching."""
    if not sys.stderr.isatty():
        return None
    return lambda stored: click.echo(f"\r{stored:,} jobs", err=True, nl=False)
