"""Delivery of alerts: to a command, and by HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import urllib.error
import urllib.request
from collections.abc import Sequence
from http.client import HTTPException
from typing import TYPE_CHECKING, Any

import click

from pinlater.cli.metrics_page import checked_url, opener
from pinlater.cli.output import visible
from pinlater.model.plural import plural

if TYPE_CHECKING:
    from pinlater.triage.alerts import Alert

COMMAND_SECONDS = 30.0
"""Time limit of the command."""

WEBHOOK_SECONDS = 10.0
"""Time limit of a request."""

MOST_AT_ONCE = 20
"""Alerts of one check that are delivered one by one; one more says how many others there are."""

_MOST_WAITING = 200
"""Maximum number of undelivered alerts to retry; the oldest are dropped."""


class AlertSender:
    """Delivers alerts; those that fail are retried with the next ones.

    Args:
        command: command with arguments, run without a shell; empty for none. It gets the text of the alert as its last
            argument, and the alert as JSON on stdin.
        webhook: address that the alert is posted to as JSON; None for none.
        source: where the alerts come from, such as the addresses of the servers.
    """

    def __init__(self, command: Sequence[str], webhook: str | None, source: str) -> None:
        self._command = list(command)
        self._webhook = None if webhook is None else checked_url(webhook)
        self._opener = opener()
        self._source = source
        self._waiting: list[tuple[str, dict[str, Any]]] = []

    async def deliver(self, alerts: Sequence[Alert]) -> None:
        """Deliver alerts to the command and the webhook; report failures on stderr."""
        messages = [alert.to_json() for alert in alerts[:MOST_AT_ONCE]]
        if more := len(alerts) - len(messages):
            text = f"{plural(more, 'more finding')}; see pinlater doctor"
            messages.append({"event": "new", "key": "more", "text": text})
        if self._command:
            self._waiting += [("command", message) for message in messages]
        if self._webhook is not None:
            self._waiting += [("webhook", message) for message in messages]
        waiting, self._waiting = self._waiting[-_MOST_WAITING:], []
        failed: set[str] = set()
        for place, message in waiting:
            if place in failed or not await self._try(place, {**message, "source": self._source}):
                failed.add(place)  # each of the others would wait for the timeout, too
                self._waiting.append((place, message))

    async def _try(self, place: str, message: dict[str, Any]) -> bool:
        try:
            await (self._run(message) if place == "command" else asyncio.to_thread(self._post, message))
        except (OSError, TimeoutError, ValueError) as error:
            reason = str(error) or "it took too long"
            click.echo(f"pinlater: the {place} did not take an alert, trying again: {visible(reason)}", err=True)
            return False
        return True

    async def _run(self, message: dict[str, Any]) -> None:
        """Run the command.

        Raises:
            OSError: it cannot be started, or fails.
            TimeoutError: it takes too long; its whole process group is killed.
        """
        pipe, null = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
        process = await asyncio.create_subprocess_exec(
            *self._command, visible(message["text"]), stdin=pipe, stdout=null, stderr=None, start_new_session=True
        )
        try:
            await asyncio.wait_for(process.communicate(json.dumps(message).encode()), COMMAND_SECONDS)
        except TimeoutError:
            raise TimeoutError(f"it took more than {COMMAND_SECONDS:g} s") from None
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
        if process.returncode:
            raise OSError(f"it ended with status {process.returncode}")

    def _post(self, message: dict[str, Any]) -> None:
        """Post the message.

        Raises:
            OSError: it was not accepted. The reason omits the address, which may be a secret.
        """
        assert self._webhook is not None
        body = json.dumps({**message, "text": chat_text(message["text"])}).encode()
        request = urllib.request.Request(  # noqa: S310 - checked to be an HTTP address
            self._webhook, body, {"Content-Type": "application/json", "User-Agent": "pinlater-doctor"}
        )
        try:
            with self._opener.open(request, timeout=WEBHOOK_SECONDS):
                pass
        except urllib.error.HTTPError as refusal:
            refusal.close()
            raise OSError(f"it answered with status {refusal.code}") from None
        except urllib.error.URLError as error:
            raise OSError(str(error.reason)) from None
        except HTTPException as error:
            raise OSError(f"its answer is not HTTP ({type(error).__name__})") from None


def chat_text(text: str) -> str:
    """Escape text so that chat programs see no markup: a job's error must not notify a whole channel."""
    return visible(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
