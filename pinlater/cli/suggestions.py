"""What to say of a queue that is not there: which names come near."""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING

from pinlater.errors import PinLaterError

if TYPE_CHECKING:
    from pinlater.cli.command import Session

_MOST = 3
_NAMED = re.compile(r"no queue '(\w+)'", re.ASCII)


def near_queues(session: Session, error: str) -> list[str]:
    """Return the queues whose names come near the one that an error is about; none if that cannot be found out."""
    named = _NAMED.search(error)
    if named is None:
        return []
    try:
        with session.hurried_client() as client:
            names = client.queue_names()
    except PinLaterError:
        return []
    lower = {name.lower(): name for name in sorted(names)}
    return [lower[name] for name in difflib.get_close_matches(named[1].lower(), lower, _MOST)]
