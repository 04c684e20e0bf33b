"""JSON schemas of job classes, from which forms for their bodies are made."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from pinlater.jobs.job import Job, RawJob
from pinlater.jobs.json_forms import schema_of
from pinlater.model.workers import JobClass


def job_class(kind: type[Job]) -> JobClass:
    """Return the description of a job class for reports; without a schema for a ``RawJob``, or if none can be made."""
    options = kind.job_options
    return JobClass(options.name, options.queue, options.priority, options.attempts, _schema(kind))


def bounded_classes(kinds: Iterable[type[Job]], most_bytes: int) -> list[JobClass]:
    """Return descriptions of job classes in at most ``most_bytes``: the longest schemas are left out, then classes."""
    found, left = list[JobClass](), most_bytes
    for one in sorted(map(job_class, kinds), key=lambda one: (len(one.schema), one.name)):
        for told in (one, one._replace(schema="")):
            size = sum(len(text.encode()) for text in (told.name, told.queue, told.schema)) + _OVERHEAD_BYTES
            if size <= left:
                found.append(told)
                left -= size
                break
    return sorted(found)


_OVERHEAD_BYTES = 60
"""Bytes of a class in a report, besides its texts."""


def _schema(kind: type[Job]) -> str:
    if issubclass(kind, RawJob):
        return ""
    try:
        schema: dict[str, Any] = msgspec.json.schema(kind, schema_hook=schema_of)
    except (TypeError, RecursionError):  # a type that only a hook of the class can read
        return ""
    for defined in schema.get("$defs", {}).values():
        defined.pop("description", None)  # a docstring may be long
    return msgspec.json.encode(schema).decode()
