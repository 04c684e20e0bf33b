"""Command line that enqueues a copy of a job."""

from __future__ import annotations

import json
import shlex

from pinlater.dashboard.body_form import own_fields
from pinlater.model.descriptor import JobDescriptor
from pinlater.model.jobs import JobInfo
from pinlater.model.keys import JobKey

_MOST_BYTES = 20_000


def enqueue_command(info: JobInfo) -> str:
    """Return the ``pinlater enqueue`` that stores a copy of a job; empty if it is too long, or has odd characters."""
    body = info.body or b""
    if len(body) > _MOST_BYTES or not body:
        return ""
    described, own = JobDescriptor.parse(info.descriptor), own_fields(body)
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return ""
    if own is not None:
        job, fields, _ = own
        text = json.dumps(({"job": job} if job else {}) | fields, ensure_ascii=False)
    words = ["pinlater", "enqueue", described.queue]
    words += ["--priority", str(described.priority)] if described.priority != 1 else []
    words += ["--attempts", str(info.attempts_allowed)]
    words += [] if info.key is None else _key_options(info.key)
    command = shlex.join([*words, text])
    return command if command.isprintable() else ""


def _key_options(key: JobKey) -> list[str]:
    """Return the options for a key with its rule: without it, the copy might run beside jobs that exclude it."""
    options = ["--key", key.text]
    if key.is_ordered:
        options += ["--in-order"]
    elif key.max_running is not None:
        options += ["--running-per-key", str(key.max_running)]
    return options if key.rate is None else [*options, "--rate-per-key", key.rate]
