"""Audit log: one line for every change, with user, action and number of jobs."""

from __future__ import annotations

import json
import logging
import re

from starlette.requests import Request

from pinlater.dashboard.access import peer_of, session_of

log = logging.getLogger("pinlater.audit")

_PLAIN = re.compile(r"[\w:,.-]+", re.ASCII)


def audit(request: Request, action: str, subject: str, jobs: int | None = None) -> None:
    """Log a change, or access to a hidden body.

    Args:
        request: the request of the user.
        action: name of the action.
        subject: the queue or job.
        jobs: number of changed jobs.
    """
    write(who(request), action, subject, jobs)


def who(request: Request) -> str:
    """Return role and address of a request's user."""
    return f"{session_of(request).role}@{peer_of(request)}"


def write(name: str, action: str, subject: str, jobs: int | None = None) -> None:
    """Log an action of the user ``name``."""
    count = "" if jobs is None else f" jobs={jobs}"
    shown = subject if _PLAIN.fullmatch(subject) else json.dumps(subject)  # no subject may look like another field
    log.info("who=%s action=%s subject=%s%s", name, action, shown, count)
