"""``pinlater doctor``."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from pinlater.cli.command import Session, command
from pinlater.cli.completion import complete_queues
from pinlater.cli.findings import print_findings, print_not_told
from pinlater.cli.output import print_json
from pinlater.durations import DURATION, Duration
from pinlater.errors import EXIT_UNAVAILABLE, ServerError

if TYPE_CHECKING:
    from pinlater.triage.findings import Severity
    from pinlater.triage.readings import Readings

_LEVELS = ("notice", "warning", "critical")


def parse_command(text: str) -> list[str]:
    """Split a command line into words, as a shell does."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise click.BadParameter(f"{text!r} is not a command line: {error}.") from None
    if not words:
        raise click.BadParameter("it names no command.")
    return words


def parse_url(text: str) -> str:
    """Check the address of an HTTP server."""
    from pinlater.cli.metrics_page import checked_url

    try:
        return checked_url(text)
    except ValueError as error:
        raise click.BadParameter(f"{error}.") from None


@command(
    "doctor",
    examples="""
    pinlater doctor
    pinlater doctor email reports --admin http://127.0.0.1:9999
    pinlater doctor --level critical --json
    pinlater doctor --every 30 --webhook https://hooks.slack.com/services/T0/B0/x
    pinlater doctor --every 30 --notify "mail -s PinLater ops@example.com"
    """,
)
@click.argument("queues", nargs=-1, shell_complete=complete_queues)
@click.option(
    "--admin",
    type=parse_url,
    metavar="URL",
    envvar="PINLATER_ADMIN",
    help="Admin port of a server, such as http://127.0.0.1:9999. The command then also checks the server's metrics of "
    "the store and of its TLS certificate, and uses its settings WARN_….  [env: PINLATER_ADMIN]",
)
@click.option(
    "--level",
    type=click.Choice(_LEVELS),
    default="warning",
    show_default=True,
    help="Severity from which findings set the exit status; with --every, only these are reported.",
)
@click.option(
    "--every", type=Duration(min=1), metavar=DURATION, help="Keep checking, once in this time, until stopped."
)
@click.option(
    "--notify",
    type=parse_command,
    metavar="COMMAND",
    help="With --every: run this command for each finding that comes or goes. It is run without a shell; its last "
    "argument is a line of text, and stdin has JSON.",
)
@click.option(
    "--webhook",
    type=parse_url,
    metavar="URL",
    envvar="PINLATER_WEBHOOK",
    help='With --every: post each finding that comes or goes to this address, as JSON with a "text".  '
    "[env: PINLATER_WEBHOOK]",
)
def doctor(
    session: Session,
    /,
    *,
    queues: tuple[str, ...],
    admin: str | None,
    level: str,
    every: float | None,
    notify: list[str] | None,
    webhook: str | None,
) -> int:
    """Say what is wrong, the worst first, and what to do about it.

    It checks QUEUES, or all queues; their workers, periodic jobs and failures; and the store. It makes few calls,
    however many queues and jobs there are, and changes nothing.

    critical: jobs do not run, or cannot be reached. warning: the problem grows, or jobs fail for good. notice: it may
    be intended.

    With --every, it keeps checking. It prints a finding when it is new, when it gets worse, once an hour while it
    lasts, and when it is gone. A finding is gone when two checks in a row have looked for it and not found it. That one
    of several servers does not answer, or is not ready, is printed when two checks in a row have found it, since the
    server may be restarting. What cannot be read goes to stderr, once.

    Exit status: 0 nothing is wrong; 1 there is a finding of --level or worse; 69 no server answers, or no metrics can
    be read at the address of --admin. With --every: 0 after SIGTERM.
    """
    import asyncio  # here and below: the help of the program, which imports all commands, needs none of this

    from pinlater.triage.findings import Severity

    least = Severity(level)
    if every is None:
        for option in ("notify", "webhook"):
            if click.get_current_context().get_parameter_source(option) is ParameterSource.COMMANDLINE:
                raise click.UsageError(f"--{option} needs --every.")
        return asyncio.run(_look_once(session, queues, admin, least))
    from pinlater.cli.doctor_watch import watch

    watching = watch(session, queues, admin=admin, least=least, every=every, command=notify or (), webhook=webhook)
    asyncio.run(watching)
    return 0


async def _look_once(session: Session, queues: Sequence[str], admin: str | None, least: Severity) -> int:
    from pinlater.cli.examination import Examination
    from pinlater.triage.store_rules import server_away

    readings: Readings | None = None
    servers = session.server_set()
    async with session.async_client(servers) as client:
        try:
            readings, findings = await Examination(session, client, servers, queues, admin).look()
        except ServerError as error:
            findings = [server_away(error)]
    not_told = [] if readings is None else list(readings.not_told)
    if session.as_json:
        print_json({"findings": [finding.to_json() for finding in findings], "not_told": not_told})
    else:
        print_findings(findings)
        print_not_told(not_told)
        if readings is not None and not findings:
            unseen = "; add --admin to have the store's disk and speed checked, too" if admin is None else ""
            limited = " in what was looked at" if not_told else ""
            click.echo(f"nothing is wrong{limited} ({_seen(readings)}){unseen}")
    if any(finding.severity.is_at_least(least) for finding in findings):
        return 1
    return EXIT_UNAVAILABLE if readings is None or readings.unchecked else 0


def _seen(readings: Readings) -> str:
    queues, workers = len(readings.settings), len(readings.reports)
    return f"{queues} {'queue' if queues == 1 else 'queues'}, {workers} {'worker' if workers == 1 else 'workers'}"
