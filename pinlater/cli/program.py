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
    "create-queue": ("queues:create_queue", "Create a queue if it does not exist."),
    "create-queues": ("queues:create_queues", "Create the queues of the job classes in modules."),
    "delete-queue": ("queues:delete_queue", "Delete a queue with all its jobs."),
    "queues": ("queues:queues", "List the names of all queues."),
    "count": ("queues:count", "Count the jobs of a queue by state."),
    "doctor": ("doctor:doctor", "Say what is wrong, the worst first, and what to do about it."),
    "top": ("top:top", "Show queues live: job counts, rates and wait times."),
    "tail": ("tail:tail", "Print a line whenever a job changes its state, until ^C."),
    "workers": ("workers:workers", "Show the workers, one line for each job process."),
    "failing": ("failing:failing", "Say how jobs fail: by class and error, most jobs first."),
    "periodic": ("periodic:periodic", "List periodic jobs, failing ones first."),
    "pause-periodic": ("periodic:pause_periodic", "Pause a periodic job, by its queue and class."),
    "resume-periodic": ("periodic:resume_periodic", "Let a paused periodic job run again, by its queue and class."),
    "enqueue": ("enqueue:enqueue", "Enqueue one or many jobs."),
    "dequeue": ("claims:dequeue", "Claim jobs of a queue, as a worker does."),
    "ack": ("claims:ack", "Acknowledge claimed jobs as succeeded, or as --failed."),
    "lookup": ("inspection:lookup", "Show jobs by descriptor."),
    "scan": ("inspection:scan", "List the jobs of a queue in one state."),
    "cancel": ("by_descriptor:cancel", "Cancel jobs and their children, by descriptor."),
    "cancel-jobs": ("cancel_jobs:cancel_jobs", "Cancel the jobs of a queue in one state, and their children."),
    "run-now": ("by_descriptor:run_now", "Make scheduled jobs due now, by descriptor."),
    "retry": ("by_descriptor:retry", "Retry failed jobs, by descriptor: make them pending again."),
    "send": ("by_descriptor:send", "Send an event to a job."),
    "result": ("by_descriptor:result", "Print what a job returned, as JSON."),
    "retry-failed": ("retry_failed:retry_failed", "Retry failed jobs: make them pending again."),
    "delete-jobs": ("delete_jobs:delete_jobs", "Delete the jobs of a queue in one state."),
    "move-jobs": ("move_jobs:move_jobs", "Move pending or failed jobs to another queue of the server."),
    "pause": ("limits:pause", "Pause queues: hand out no more jobs."),
    "resume": ("limits:resume", "Resume paused queues."),
    "limit": ("limits:limit", "Set or show the limits of queues."),
    "migrate-queue": ("migrate:migrate_queue", "Move or copy a queue to another store."),
    "outbox-table": ("outbox:outbox_table", "Print the SQL that creates the table of an outbox."),
    "outbox-relay": ("outbox:outbox_relay", "Deliver the jobs of an outbox."),
    "outbox": ("outbox:outbox", "Show what waits in an outbox, and what was refused."),
    "hash-password": ("queues:hash_admin_password", "Print the hash of an admin password."),
    "load": ("load:load", "Enqueue or dequeue as fast as the server answers."),
    "completion": ("completion:completion", "Print the completion script of a shell."),
}
"""Name of a command -> its module in ``pinlater.cli`` and function, and what it does; in the order of the help.

What it does is also the first line of the function's docstring, but the list of commands must not import them all.
"""


@click.group(
    cls=CommandGroup,
    commands=LazyCommands({name: f"pinlater.cli.{home}" for name, (home, _) in _COMMANDS.items()}),
    summaries={name: summary for name, (_, summary) in _COMMANDS.items()},
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
