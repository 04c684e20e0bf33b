"""One log line for every change: who, what, how many."""

from __future__ import annotations

import json
import logging
import re

from starlette.requests import Request

from pinlater.dashboard.access import peer_of, session_of

log = logging.getLogger("pinlater.audit")

_PLAIN = re.compile(r"[\w:,.-]+", re.ASCII)


def audit(request: Request, action: str, subject: str, jobs: int | None = None) -> None:
    """Log a change that was made, or a secret that was shown.

    Args:
        request: asks for it.
        action: what was done.
        subject: to what: a queue, a job.
        jobs: how many jobs it was done to.
    """
    write(who(request), action, subject, jobs)


def who(request: Request) -> str:
    """Return who asks: role and address."""
    return f"{session_of(request).role}@{peer_of(request)}"


def write(name: str, action: str, subject: str, jobs: int | None = None) -> None:
    """Log what ``name`` did."""
    count = "" if jobs is None else f" jobs={jobs}"
    shown = subject if _PLAIN.fullmatch(subject) else json.dumps(subject)  # so that no text looks like another field
    log.info("who=%s action=%s subject=%s%s", name, action, shown, count)
