"""What to suggest instead of queues and commands that do not exist."""

from __future__ import annotations

import difflib
import re
from collections import defaultdict
from collections.abc import Collection
from typing import TYPE_CHECKING

from pinlater.errors import PinLaterError, QueueNotFound

if TYPE_CHECKING:
    from pinlater.cli.command import Session
    from pinlater.client.client import Client

_COUNTS = "use pinlater doctor, pinlater top, or pinlater count QUEUE"
_DASHBOARD = "the server has a dashboard, by default at http://127.0.0.1:9999; in a terminal: pinlater top"
_JOBS = "use pinlater scan QUEUE, perhaps with --state"
_LOOKUP = "use pinlater lookup DESCRIPTOR"
COMMANDS_ELSEWHERE = {
    "beat": "workers enqueue periodic jobs themselves; pinlater periodic lists them",
    "call": "use pinlater enqueue",
    "dashboard": _DASHBOARD,
    "empty": "use pinlater delete-jobs QUEUE --state pending",
    "events": "use pinlater tail",
    "flower": _DASHBOARD,
    "get": _LOOKUP,
    "info": _COUNTS,
    "inspect": "use pinlater workers for running jobs, pinlater scan QUEUE --future for scheduled ones",
    "jobs": _JOBS,
    "list": _JOBS,
    "purge": "use pinlater delete-jobs QUEUE --state pending",
    "requeue": "use pinlater retry-failed QUEUE",
    "revoke": "use pinlater cancel DESCRIPTOR",
    "server": "start pinlater-server",
    "show": _LOOKUP,
    "stats": _COUNTS,
    "status": f"{_LOOKUP}; for all jobs, {_COUNTS.removeprefix('use ')}",
    "worker": "start pinlater-worker MODULE",
}
"""Commands of Celery, RQ and others, and what to use here."""
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
    try:
        with session.hurried_client() as client:
            names = client.queue_names()
    except PinLaterError:
        return []
    alike: defaultdict[str, list[str]] = defaultdict(list)
    for name in sorted(names):
        alike[name.lower()].append(name)
    close = difflib.get_close_matches(named[1].lower(), alike, _MOST)
    return [name for lower in close for name in alike[lower]][:_MOST]
