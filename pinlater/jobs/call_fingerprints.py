"""Fingerprints of calls of other jobs, by which changed code detects that a call was recorded for different jobs.

Like that of a step, a fingerprint has two characters for the names of the classes and four for the fields, however many
jobs there are. It is stored behind the names: ``Resize/Ab3xQ9``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from itertools import groupby
from typing import Any

import msgspec

from pinlater.jobs.body_codec import encode_body
from pinlater.jobs.fingerprints import (
    FUNCTION_WIDTH,
    WIDTH,
    characters,
    difference,
    encode_stable,
    shortened,
    stable_value,
)
from pinlater.jobs.job import Job, not_a_job
from pinlater.jobs.name_counter import use_of
from pinlater.model.wait_records import CallRecord

_MOST_NAMES = 60
_MOST_SHOWN = 3
_class_of: Callable[[Job], type[Job]] = type
_CONTAINERS = frozenset({list, dict, set, bytearray})


def call_fingerprint(jobs: Sequence[Job]) -> str:
    """Return the fingerprint of a call of jobs, behind the names of their classes.

    Raises:
        BodyInvalid: JSON cannot carry a field.
        TypeError: something else than jobs is called, such as a class of jobs.
    """
    names, fields = set[str](), blake2b(digest_size=6)
    for kind, some in groupby(jobs, _class_of):
        if not issubclass(kind, Job):
            raise not_a_job(next(job for job in jobs if not isinstance(job, Job)))
        name = kind.job_options.name
        names.add(name)
        encoded_name = name.encode(errors="replace")
        given = _compared(kind).given
        fields.update(encoded_name + encoded_name.join(_encoded(job, given(job)) for job in some))
    head = _joined(names)
    kinds = characters(head.encode(errors="replace"), FUNCTION_WIDTH)
    return f"{head}/{kinds}{characters(fields.digest(), WIDTH - FUNCTION_WIDTH)}"


def _encoded(job: Job, given: Mapping[str, Any]) -> bytes:
    """Encode the fields of a job that identify its work.

    Raises:
        BodyInvalid: JSON cannot carry a field.
    """
    try:
        return encode_stable(given)
    except (TypeError, ValueError, OverflowError, RecursionError):  # also for a dict whose keys are numbers
        encode_body(job)  # raises a helpful error if no body can hold the job
        return encode_stable({name: stable_value(value) for name, value in given.items()})


class _Compared:
    """The fields that identify the work of the jobs of a class.

    Fields that have their default are left out, so that a class can get new ones. So are fields whose default is
    created for each job, such as a time or an id, because it differs in each attempt.

    Attributes:
        given: returns these fields of a job, by their names in JSON.
    """

    def __init__(self, kind: type[Job]) -> None:
        fields = msgspec.structs.fields(kind)
        self._fields = [
            (field.name, field.encode_name, field.default if field.default_factory is msgspec.NODEFAULT else made())
            for field in fields
            if (made := field.default_factory) is msgspec.NODEFAULT or made in _CONTAINERS
        ]
        are_all = all(field.required and field.name == field.encode_name for field in fields)
        self.given: Callable[[Job], dict[str, Any]] = msgspec.structs.asdict if are_all else self._given

    def _given(self, job: Job) -> dict[str, Any]:
        return {encoded: value for name, encoded, default in self._fields if (value := getattr(job, name)) != default}


_compared = lru_cache(1024)(_Compared)


def _joined(names: Iterable[str]) -> str:
    text = ", ".join(sorted(names)).replace("/", "")
    return text if len(text) <= _MOST_NAMES else f"{text[:_MOST_NAMES]}…"


def call_difference(use: str, jobs: Sequence[Job], calls: Mapping[str, CallRecord], found: str) -> str:
    """Return how a recorded call of jobs differs from the present one; empty if it does not, as far as known.

    Args:
        use: key under which it is recorded.
        jobs: jobs of the present call.
        calls: all recorded calls.
        found: fingerprint of the present call.
    """
    recorded = calls[use].fingerprint
    if recorded in {"", found}:
        return ""
    (head, _, cell), (name, _, present) = recorded.rpartition("/"), found.rpartition("/")
    text = difference(cell, present, name, head)
    name = use_of(use)[0]
    other = next((key for key, call in calls.items() if call.fingerprint == found and use_of(key)[0] == name), "")
    text = f"{text}; this call was recorded as {other!r}" if other else text
    return f"{_text(jobs)} now, but {text}"


def _text(jobs: Sequence[Job]) -> str:
    """Return the jobs of a call as readable text, only the first ones if there are many."""
    shown = ", ".join(map(shortened, jobs[:_MOST_SHOWN]))
    return shown if len(jobs) <= _MOST_SHOWN else f"{shown}, … ({len(jobs)} jobs)"
