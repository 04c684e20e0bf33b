"""``pinlater doctor --every``: reports findings as they come and go."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections.abc import Collection, Sequence

import click

from pinlater.cli.command import Session
from pinlater.cli.examination import Examination
from pinlater.cli.findings import print_not_told
from pinlater.cli.notifications import AlertSender
from pinlater.cli.output import print_json, visible
from pinlater.errors import PinLaterError, QueueNotFound
from pinlater.triage.alerts import Alert, AlertBook
from pinlater.triage.findings import Finding, Kind, Severity
from pinlater.triage.store_rules import server_away

_REST_FACTOR = 9
"""Checks take at most a tenth of the time, however many queues there are."""

_ALL_BUT_SERVER_AWAY = frozenset(Kind) - {Kind.SERVER_AWAY}


async def watch(
    session: Session,
    queues: Sequence[str],
    *,
    admin: str | None,
    least: Severity,
    every: float,
    command: Sequence[str],
    webhook: str | None,
) -> None:
    """Check every ``every`` seconds until SIGTERM; print and deliver alerts.

    Args:
        session: common options.
        queues: queues to check; empty for all.
        admin: address of a server's admin port; None for none.
        least: minimum severity of the findings to report.
        every: seconds from one check to the next.
        command: command to run for each alert; empty for none.
        webhook: address to post each alert to; None for none.
    """
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    book = AlertBook(least)
    servers = session.server_set()
    sender = AlertSender(command, webhook, ", ".join(map(str, servers.addresses())))
    not_told: Sequence[str] = ()
    async with session.async_client(servers) as client:
        examination = Examination(session, client, servers, queues, admin)
        while not ended.is_set():
            started = time.monotonic()
            findings, unchecked, missing = await _findings(examination)
            alerts = book.update(findings, started, unchecked)
            print_not_told([each for each in missing if each not in not_told])
            not_told = missing
            took = time.monotonic() - started
            for alert in alerts:
                _print(alert, as_json=session.as_json)
            await sender.deliver(alerts)
            left = started + max(every, took * (_REST_FACTOR + 1)) - time.monotonic()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(ended.wait(), max(left, 0.0))


async def _findings(examination: Examination) -> tuple[list[Finding], Collection[Kind], Sequence[str]]:
    """Return what is wrong, the kinds that could not be checked, and what could not be read.

    An unreachable server is a finding, too.
    """
    try:
        readings, findings = await examination.look()
    except QueueNotFound:
        raise
    except PinLaterError as error:
        return [server_away(error)], _ALL_BUT_SERVER_AWAY, ()
    return findings, readings.unchecked, readings.not_told


def _print(alert: Alert, *, as_json: bool) -> None:
    if as_json:
        print_json(alert.to_json())
    else:
        click.echo(f"{time.strftime('%H:%M:%S')}  {visible(alert.text)}")
