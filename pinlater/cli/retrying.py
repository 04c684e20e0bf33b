"""Jobs that retry: pending jobs whose last attempt failed, as opposed to scheduled ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pinlater.errors import ProtocolError
from pinlater.model.state import JobState

if TYPE_CHECKING:
    from pinlater.client.client import Client


def check_pending(state: JobState | None, *, future: bool, retrying: bool) -> None:
    """Refuse ``--future`` and ``--retrying`` together, or with a state other than PENDING.

    Raises:
        click.UsageError: the options contradict each other.
    """
    if future and retrying:
        raise click.UsageError("--future and --retrying exclude each other: jobs that retry may be due or not.")
    for option, is_given in (("--future", future), ("--retrying", retrying)):
        if is_given and state is not JobState.PENDING:
            raise click.UsageError(f"{option} needs --state pending.")


def knows_retrying(client: Client, queue: str) -> bool:
    """Return whether the server distinguishes jobs that retry: servers that do can also group failures."""
    try:
        client.failure_groups([queue], limit=0)
    except ProtocolError:
        return False
    return True


def need_retrying(client: Client, queue: str) -> None:
    """Refuse a server that does not distinguish jobs that retry: it would return other jobs.

    Raises:
        ProtocolError: the server's version is too old.
    """
    if not knows_retrying(client, queue):
        raise ProtocolError("this server cannot tell jobs that retry from others; upgrade it for --retrying")
