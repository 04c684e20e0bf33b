"""Jobs that retry: pending jobs whose last attempt failed, which are told apart from scheduled ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pinlater.errors import ProtocolError
from pinlater.model.state import JobState

if TYPE_CHECKING:
    from pinlater.client.client import Client


def check_pending(state: JobState | None, *, future: bool, retrying: bool) -> None:
    """Refuse options that do not go together.

    Raises:
        click.UsageError: they do not.
    """
    if future and retrying:
        raise click.UsageError("--future and --retrying exclude each other: jobs that retry may be due or not.")
    for option, is_given in (("--future", future), ("--retrying", retrying)):
        if is_given and state is not JobState.PENDING:
            raise click.UsageError(f"{option} needs --state pending.")


def knows_retrying(client: Client, queue: str) -> bool:
    """Return whether the server tells jobs that retry apart: those that do can also group failures."""
    try:
        client.failure_groups([queue], limit=0)
    except ProtocolError:
        return False
    return True


def need_retrying(client: Client, queue: str) -> None:
    """Refuse a server of an earlier version, which would return other jobs.

    Raises:
        ProtocolError: the server is one.
    """
    if not knows_retrying(client, queue):
        raise ProtocolError("this server cannot tell jobs that retry from others; upgrade it for --retrying")
