"""The ``pinlater`` program: its commands, error messages and exit statuses."""

from __future__ import annotations

import gc
import io
import os
import shlex
import sys
from collections.abc import Sequence
from typing import NoReturn

import click

from pinlater import __version__
from pinlater.cli.command import CommandGroup, Session
from pinlater.cli.lazy_commands import LazyCommands
from pinlater.cli.missing_queues import suggest_queues
from pinlater.cli.original_options import is_original, translate
from pinlater.cli.output import left_out, visible
from pinlater.environment import unread_variables
from pinlater.errors import (
    EXIT_CONFIG,
    EXIT_UNAVAILABLE,
    CallError,
    CallTimeout,
    CallUnsendable,
    ConfigError,
    NotConnected,
    PinLaterError,
    QueueNotFound,
    ServerUnavailable,
    ServiceError,
)

EXIT_REFUSED = 1
EXIT_USAGE = 2
_EXIT_INTERRUPTED = 130
_EXIT_BROKEN_PIPE = 141


_COMMANDS = {
    "create-queue": "pinlater.cli.queues:create_queue",
    "create-queues": "pinlater.cli.queues:create_queues",
    "delete-queue": "pinlater.cli.queues:delete_queue",
    "queues": "pinlater.cli.queues:queues",
    "count": "pinlater.cli.queues:count",
    "doctor": "pinlater.cli.doctor:doctor",
    "top": "pinlater.cli.top:top",
    "tail": "pinlater.cli.tail:tail",
    "workers": "pinlater.cli.workers:workers",
    "failing": "pinlater.cli.failing:failing",
    "periodic": "pinlater.cli.periodic:periodic",
    "pause-periodic": "pinlater.cli.periodic:pause_periodic",
    "resume-periodic": "pinlater.cli.periodic:resume_periodic",
    "enqueue": "pinlater.cli.enqueue:enqueue",
    "dequeue": "pinlater.cli.claims:dequeue",
    "ack": "pinlater.cli.claims:ack",
    "lookup": "pinlater.cli.inspection:lookup",
    "scan": "pinlater.cli.inspection:scan",
    "cancel": "pinlater.cli.by_descriptor:cancel",
    "cancel-jobs": "pinlater.cli.cancel_jobs:cancel_jobs",
    "run-now": "pinlater.cli.by_descriptor:run_now",
    "retry": "pinlater.cli.by_descriptor:retry",
    "send": "pinlater.cli.by_descriptor:send",
    "result": "pinlater.cli.by_descriptor:result",
    "retry-failed": "pinlater.cli.retry_failed:retry_failed",
    "delete-jobs": "pinlater.cli.delete_jobs:delete_jobs",
    "move-jobs": "pinlater.cli.move_jobs:move_jobs",
    "pause": "pinlater.cli.limits:pause",
    "resume": "pinlater.cli.limits:resume",
    "limit": "pinlater.cli.limits:limit",
    "migrate-queue": "pinlater.cli.migrate:migrate_queue",
    "outbox-table": "pinlater.cli.outbox:outbox_table",
    "outbox-relay": "pinlater.cli.outbox:outbox_relay",
    "outbox": "pinlater.cli.outbox:outbox",
    "hash-password": "pinlater.cli.queues:hash_admin_password",
    "load": "pinlater.cli.load:load",
    "completion": "pinlater.cli.completion:completion",
}
"""Name of a command -> its module and function; in the order of the help."""


@click.group(
    cls=CommandGroup,
    commands=LazyCommands(_COMMANDS),
    examples="""
    pinlater create-queue email
    pinlater enqueue email '{"job": "SendWelcomeEmail", "user_id": 42}'
    pinlater count email
    pinlater scan email --state failed --server queue1.example.com:9010
    """,
)
@click.version_option(__version__, prog_name="pinlater")
def tool() -> None:
    """Inspect and manage PinLater's queues and jobs.

    The servers are those of --server, or of PINLATER_SERVERS in the environment, or one on this machine. Results go to
    stdout, messages to stderr.

    For help on a command, run: pinlater COMMAND --help. With --json, a command prints one JSON document, or one per
    line if it lists jobs. A TIME is a number of seconds, or has units, such as 90s, 15m, 2h, 7d or 1d12h.

    Exit status: 0 success; 1 refused by the server, queue or job not found, or not confirmed; 2 usage error; 69 server
    unreachable or timed out, or jobs left out because their shard does not answer; 78 configuration error; 130
    interrupted; 141 output closed by its reader.
    """


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the program and exit with its status."""
    if "_PINLATER_COMPLETE" in os.environ:  # the shell asks for completions
        tool.main(prog_name="pinlater")
    _set_up_streams()
    if unread := unread_variables(os.environ):
        click.echo(f"pinlater: warning: {unread}", err=True)
    words = list(sys.argv[1:] if arguments is None else arguments)
    status = run(words or ["--help"])
    _discard_unwritten()
    gc.freeze()  # spares the interpreter a collection over all imports at exit, a sixth of the time of a short command
    sys.exit(status)


def run(arguments: Sequence[str]) -> int:
    """Run a command and return its exit status; print errors as one line on stderr."""
    session = Session()
    try:
        words = _translated(arguments)
        # Not tool.main: it would turn a closed pipe into exit status 1, which means a refusal.
        with tool.make_context("pinlater", words) as context:
            session = context.ensure_object(Session)
            status = tool.invoke(context)
        sys.stdout.flush()
    except click.exceptions.Exit as end:  # after --help and --version
        return end.exit_code
    except BrokenPipeError:  # the reader, such as head, has seen enough
        return _EXIT_BROKEN_PIPE
    except (click.Abort, KeyboardInterrupt) as end:
        click.echo(f"pinlater: interrupted{_notes(end)}", err=True)
        return _EXIT_INTERRUPTED
    except (click.ClickException, PinLaterError, ValueError, OSError) as error:
        suggestions = suggest_queues(session, str(error)) if isinstance(error, QueueNotFound) else []
        text, exit_status = describe(error, suggestions)
        click.echo(f"pinlater: {visible(' '.join(text.split()))}", err=True)  # it may quote a job's error
        return exit_status
    if session.missing_shards:
        click.echo(f"pinlater: {left_out(session.missing_shards)}", err=True)
        return status or EXIT_UNAVAILABLE
    return status if isinstance(status, int) else 0


def _discard_unwritten() -> None:
    """Discard output that cannot be written: the interpreter would try again, report that, and exit with 120."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _set_up_streams() -> None:
    """Replace standard streams that the caller has closed, and escape letters that the encoding of stdout lacks.

    Python has None in place of a stream that was closed, such as by ``2>&-``.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115 - open until the end
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a job's text must not end a list of jobs


def _translated(arguments: Sequence[str]) -> list[str]:
    """Return the command line; if it is for the original tool, translate it and print the translation."""
    if not is_original(arguments):
        return list(arguments)
    words = translate(arguments)
    click.echo(f"pinlater: --mode belongs to the original tool; use instead: pinlater {shlex.join(words)}", err=True)
    return words


def describe(error: Exception, suggestions: Sequence[str] = ()) -> tuple[str, int]:
    """Return message and exit status of an error; ``suggestions`` are similar names of existing queues."""
    notes = _notes(error)
    match error:
        case click.UsageError():
            path = error.ctx.command_path if error.ctx else "pinlater"
            return f"{_sentence(error.format_message())} See {path} --help.", EXIT_USAGE
        case click.ClickException():
            return error.format_message(), error.exit_code
        case ConfigError():
            return str(error), EXIT_CONFIG
        case QueueNotFound() if suggestions:
            return f"{str(error).partition(';')[0]}; did you mean {' or '.join(suggestions)}?{notes}", EXIT_REFUSED
        case QueueNotFound():
            hint = "" if "create-queue" in str(error) else "; create it with: pinlater create-queue NAME"
            return f"{error}{hint}{notes}", EXIT_REFUSED
        case ServiceError():
            return f"the server refused: {error} ({error.code_name}){notes}", EXIT_REFUSED
        case CallTimeout():
            return f"{error}; allow more time with --timeout{notes}", EXIT_UNAVAILABLE
        case ServerUnavailable():
            reasons = error.reasons if isinstance(error, NotConnected) else error
            return (
                f"cannot reach {reasons}; is pinlater-server running? "
                f"choose another with --server or PINLATER_SERVERS{notes}"
            ), EXIT_UNAVAILABLE
        case CallUnsendable():  # a number that is too large, or too much at once
            return f"{error}{notes}", EXIT_USAGE
        case CallError():
            return f"{error}{notes}", EXIT_UNAVAILABLE
        case ValueError():
            return str(error), EXIT_USAGE
        case _:
            return f"{error}{notes}", EXIT_REFUSED


def _sentence(text: str) -> str:
    return text if text.endswith((".", "?", "?)")) else f"{text}."


def _notes(error: BaseException) -> str:
    return "".join(f"; {note}" for note in getattr(error, "__notes__", ()))
