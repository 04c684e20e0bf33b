"""Queues that do not exist: refuses them, and suggests others with similar names."""

from __future__ import annotations

import difflib
import re
from collections import defaultdict
from collections.abc import Collection
from typing import TYPE_CHECKING

from pinlater.errors import QueueNotFound

if TYPE_CHECKING:
    from pinlater.cli.command import Session
    from pinlater.client.client import Client

_MOST = 3
_QUEUE_IN_ERROR = re.compile(r"no queue '(\w+)'", re.ASCII)


def refuse_missing(client: Client, queues: Collection[str]) -> None:
    """Refuse queues that do not exist: an empty list would look as if all were well.

    Raises:
        QueueNotFound: there is no such queue.
    """
    missing = set(queues) - client.queue_names() if queues else set()
    if missing:
        raise QueueNotFound(f"there is no queue {min(missing)!r}")


def suggest_queues(session: Session, error: str) -> list[str]:
    """Return queue names similar to the one in an error message; none if the server does not answer quickly."""
    named = _QUEUE_IN_ERROR.search(error)
    if named is None:
        return []
    alike: defaultdict[str, list[str]] = defaultdict(list)
    for name in session.known_queues():
        alike[name.lower()].append(name)
    close = difflib.get_close_matches(named[1].lower(), alike, _MOST)
    return [name for lower in close for name in alike[lower]][:_MOST]
