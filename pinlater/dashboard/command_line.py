"""Command line that enqueues a copy of a job."""

from __future__ import annotations

import json
import shlex

from pinlater.dashboard.body_form import own_fields
from pinlater.model.descriptor import JobDescriptor
from pinlater.model.jobs import JobInfo

_MOST_BYTES = 20_000


def enqueue_command(info: JobInfo) -> str:
    """Return the ``pinlater enqueue`` that stores a copy of a job; empty if its body is too long or not text."""
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
    if not text.isprintable():
        return ""
    words = ["pinlater", "enqueue", described.queue]
    words += ["--priority", str(described.priority)] if described.priority != 1 else []
    words += ["--attempts", str(info.attempts_allowed)]
    words += ["--key", info.key.text] if info.key else []
    return shlex.join([*words, text])
