"""Suggestions of similar queue names for a queue that does not exist."""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING

from pinlater.errors import PinLaterError

if TYPE_CHECKING:
    from pinlater.cli.command import Session

_MOST = 3
_QUEUE_IN_ERROR = re.compile(r"no queue '(\w+)'", re.ASCII)


def suggest_queues(session: Session, error: str) -> list[str]:
    """Return queue names similar to the one in an error message; none if the server does not answer quickly."""
    named = _QUEUE_IN_ERROR.search(error)
    if named is None:
        return []
    try:
        with session.hurried_client() as client:
            names = client.queue_names()
    except PinLaterError:
        return []
    lower = {name.lower(): name for name in sorted(names)}
    return [lower[name] for name in difflib.get_close_matches(named[1].lower(), lower, _MOST)]
