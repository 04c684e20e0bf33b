"""Find environment variables that begin with ``PINLATER_`` but that no program reads."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping

_PREFIX = "PINLATER_"
_READ = {
    "PINLATER_ADMIN",
    "PINLATER_ADMIN_PASSWORD",
    "PINLATER_OUTBOX_DATABASE",
    "PINLATER_SERVERS",
    "PINLATER_TLS_CA",
    "PINLATER_TLS_CERT",
    "PINLATER_TLS_KEY",
    "PINLATER_WEBHOOK",
    "PINLATER_WORKER_HEALTH",
}
"""Read by ``pinlater`` and ``pinlater-worker``; those the server reads are declared as its settings."""

_NOT_READ = {"PINLATER_WORKER", "PINLATER_WORKER_ARGS", "PINLATER_WORKER_MODULES"}
"""Set by the worker for its processes, or read by systemd for our units."""

_OF_TESTS = re.compile(r"PINLATER_(TEST|FIRE)_")
_OF_A_CLUSTER = re.compile(r"PINLATER(_\w+)?_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_[A-Z]+(_\w+)?)", re.ASCII)
"""Variables that Kubernetes and Docker set for a service named pinlater; they also set ``PINLATER_PORT``."""
_MOST_NAMED = 5


def unread_variables(environ: Mapping[str, str]) -> str:
    """Return a sentence that names the variables that no program reads, with suggestions; empty if there are none."""
    ours = {name for name, value in environ.items() if name.startswith(_PREFIX) and not _is_of_others(name, value)}
    if not ours - _READ:
        return ""
    known = _READ | _settings()
    unread = sorted(ours - known)
    if not unread:
        return ""
    named = [_with_suggestion(name, known) for name in unread[:_MOST_NAMED]]
    more = f" and {len(unread) - _MOST_NAMED} more" if len(unread) > _MOST_NAMED else ""
    return f"environment: no program of PinLater reads {', '.join(named)}{more}"


def _is_of_others(name: str, value: str) -> bool:
    is_link = name.endswith("_PORT") and "://" in value
    return name in _NOT_READ or is_link or bool(_OF_TESTS.match(name) or _OF_A_CLUSTER.fullmatch(name))


def _settings() -> set[str]:
    """Return the variables that the server reads; its settings are imported only when there is a name to look up."""
    from pinlater.server.config.settings import DECLARATIONS, IGNORED_KEYS

    keys = {key for declared in DECLARATIONS for key in (declared.key, *declared.aliases)} | IGNORED_KEYS
    return {key for key in keys if key.startswith(_PREFIX)} | {_PREFIX + key for key in keys}


def _with_suggestion(name: str, known: set[str]) -> str:
    keys = [each.removeprefix(_PREFIX) for each in sorted(known)]
    near = difflib.get_close_matches(name.removeprefix(_PREFIX), keys, n=1)
    shown = ascii(name[:60])[1:-1]
    return f"{shown} (did you mean {_PREFIX}{near[0]}?)" if near else shown
