"""Commands that other job systems have, and what to use here."""

from __future__ import annotations

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
"""Command of Celery, RQ or others -> what to use here."""
