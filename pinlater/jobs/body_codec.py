"""Encoding of jobs as bodies, and decoding.

A body is a JSON object with the job's fields, the name of its class under ``"job"``, and metadata, such as the results
of a workflow's steps::

    {"job": "ImportCatalog", "url": "https://…", "$steps": {"download": "/tmp/catalog.csv"}}

A queue fed by other programs may hold any bytes; a ``RawJob`` class takes them as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce
from operator import or_

import msgspec

from pinlater.errors import BodyInvalid, ConfigError
from pinlater.jobs.batch import Batch
from pinlater.jobs.field_types import check_fields
from pinlater.jobs.finite import NULL, has_hidden_null, refuse_non_finite
from pinlater.jobs.job import Job, RawJob, check_class, not_a_job
from pinlater.jobs.json_forms import decoder, encode
from pinlater.jobs.options import JobOptions
from pinlater.jobs.result_codec import check_result
from pinlater.model.body_fields import DECODE_ERRORS, read_fields
from pinlater.model.body_metadata import BodyMetadata, with_metadata
from pinlater.model.class_name import name_in
from pinlater.model.kept_mark import unmarked
from pinlater.model.policy import read_policy


def encode_body(job: Job, kept: BodyMetadata | None = None, unknown: bytes = b"") -> bytes:
    """Return the body of ``job``, with its metadata; a worker with the same class can read it.

    Args:
        job: the job.
        kept: its metadata.
        unknown: fields of another version of its class, see ``encoded_unknown_fields``.

    Raises:
        BodyInvalid: a field or result holds something that JSON cannot carry, or that does not fit its type.
        ConfigError: the types of the class's fields cannot be read from JSON.
        TypeError: ``job`` is a class.
    """
    kind = type(job)
    read = _readers.get(kind)
    if read is None:
        if isinstance(job, type):
            raise not_a_job(job)
        if isinstance(job, RawJob):
            return job.body
        check_fields(kind)
        read = _readers[kind] = decoder(kind).decode
    try:
        body = encode(job)
        if NULL in body and has_hidden_null(job, body):
            refuse_non_finite(job)
        read(body)
        body = body[:-1] + unknown + b"}" if unknown else body
        return body if kept is None else with_metadata(body, kept)
    except msgspec.ValidationError as error:
        raise BodyInvalid(f"the job does not fit its class {job.job_options.name}: {_misfit(error)}") from error
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise BodyInvalid(f"job {job.job_options.name} cannot be written as JSON: {error}") from error


def encoded_unknown_fields(job: Job, body: bytes) -> bytes:
    """Return the fields in the body of ``job`` that its class does not have, as JSON with a comma before each.

    While a new version of a class is rolled out, workers with the old one save and give back jobs that have new fields.
    """
    if isinstance(job, RawJob):
        return b""
    found = unknown_fields(type(job), body)
    return b"," + encode(found)[1:-1] if found else b""


def unknown_fields(kind: type[Job], body: bytes) -> dict[str, msgspec.Raw]:
    """Return the fields in a body that a job class does not have, as JSON by name."""
    known = {"job", *kind.__struct_encode_fields__}
    return {name: value for name, value in read_fields(body).items() if name not in known and not name.startswith("$")}


_readers: dict[type[Job], Callable[[bytes], Job]] = {}
"""Class -> decoder of its bodies. A body is decoded before it is sent, as a worker will do it."""


def _misfit(error: msgspec.ValidationError) -> str:
    """Return what does not fit, beginning with the field: ``user_id: expected int, got str``."""
    text, _, place = str(error).partition(" - at `$")
    text = text.replace("`", "")
    field = place.rstrip("`").lstrip(".")
    return f"{field}: {text[:1].lower()}{text[1:]}" if field else text


class JobCodec:
    """Decodes the bodies of the job classes that a program knows.

    Raises:
        TypeError: one of them is no job class.
        ConfigError: two classes share a name, a queue has a ``RawJob`` class beside others, or a field has a type that
            JSON cannot carry.
    """

    def __init__(self, kinds: Iterable[type[Job]]) -> None:
        self._kinds: dict[str, type[Job]] = {}
        self._raw: dict[str, type[RawJob]] = {}
        for kind in kinds:
            self._add(kind)
        typed = [kind for kind in self._kinds.values() if not issubclass(kind, RawJob)]
        for kind in typed:
            self._refuse_beside_raw(kind)
            check_fields(kind)
            check_result(kind)
        self._decoder = decoder(reduce(or_, [*typed, Batch])) if typed else None

    def _add(self, kind: type[Job]) -> None:
        check_class(kind)
        options = kind.job_options
        twin = self._kinds.setdefault(options.name, kind)
        if twin is not kind:
            raise ConfigError(
                f"two job classes are named {options.name!r}: {_where(twin)} and {_where(kind)}; "
                f'give one of them another name: class {kind.__name__}(Job, name="…")'
            )
        if issubclass(kind, RawJob):
            rival = self._raw.setdefault(options.queue, kind)
            if rival is not kind:
                raise ConfigError(
                    f"queue {options.queue!r} has two raw job classes, {_where(rival)} and {_where(kind)}; "
                    "a raw body does not say which one it is for, so give each a queue of its own"
                )

    def _refuse_beside_raw(self, kind: type[Job]) -> None:
        raw = self._raw.get(kind.job_options.queue)
        if raw is not None:
            raise ConfigError(
                f"queue {kind.job_options.queue!r} has the raw job class {_where(raw)}, which takes every body, also "
                f"those of {_where(kind)}; give one of them a queue of its own"
            )

    @property
    def kinds(self) -> list[type[Job]]:
        """All classes."""
        return list(self._kinds.values())

    @property
    def queues(self) -> list[str]:
        """The queues of all classes, sorted."""
        return sorted({kind.job_options.queue for kind in self._kinds.values()})

    def latency_targets(self, queues: Iterable[str]) -> dict[str, float]:
        """Return the smallest ``latency_target`` of each queue's classes in seconds, without queues that have none."""
        served, found = frozenset(queues), dict[str, float]()
        for kind in self._kinds.values():
            options = kind.job_options
            if options.latency_target is not None and options.queue in served:
                found[options.queue] = min(options.latency_target, found.get(options.queue, options.latency_target))
        return found

    @property
    def cancel_patience(self) -> list[float]:
        """Seconds that a cancelled job has before its process is killed, for each of ``runnable_names``."""
        kinds: list[type[Job]] = [*(self._kinds[name] for name in self.names), Batch]
        return [kind.job_options.cancel_patience for kind in kinds]

    @property
    def names(self) -> list[str]:
        """The names of all classes, sorted."""
        return sorted(self._kinds)

    @property
    def runnable_names(self) -> list[str]:
        """The names of all classes whose jobs a worker may run: ``names``, then that of ``Batch``."""
        return [*self.names, Batch.job_options.name]

    def kind_named(self, name: str | None) -> type[Job] | None:
        """Return the class of that name; None if there is none."""
        return None if name is None else self._kinds.get(name)

    def decode(self, queue: str, body: bytes) -> Job:
        """Return the job that a body of ``queue`` holds.

        Raises:
            BodyInvalid: it holds no job of a known class; the message says why and what to do.
        """
        raw = self._raw.get(queue)
        if raw is not None:
            return _raw_job(raw, body)
        try:
            if self._decoder is not None:
                job: Job = self._decoder.decode(body)
                return job
        except DECODE_ERRORS as error:
            if (plain := unmarked(body)) is not None:
                return self.decode(queue, plain)
            raise BodyInvalid(self._why(queue, body, error)) from error
        except (Exception, SystemExit) as error:  # of the job's __post_init__; it must fail the job, not the process
            raise BodyInvalid(self._why(queue, body, f"{type(error).__name__}: {error}")) from error
        raise BodyInvalid(f"queue {queue!r} has a job, but this worker knows no job class for it")

    def _why(self, queue: str, body: bytes, error: object) -> str:
        name = name_in(body)
        if name is None:
            return (
                f"queue {queue!r} has a body that is no job of ours ({error}); if another program writes it, "
                "define a RawJob class for this queue"
            )
        if name not in self._kinds:
            return (
                f"no job class is named {name!r} here (known: {', '.join(self.names)}); load its module, too; or, "
                f"if it was renamed, let it keep that name: class Renamed(Job, name={name!r})"
            )
        hint = _hint_for_missing(self._kinds[name], body) if "missing required field" in str(error) else ""
        return f"the body of a {name} does not fit its class: {error}{hint}"


def _raw_job(kind: type[RawJob], body: bytes) -> RawJob:
    """Return the job of a raw class that holds a body.

    Raises:
        BodyInvalid: the class refuses the body.
    """
    try:
        return kind(body=body)
    except (Exception, SystemExit) as error:  # of its __post_init__; it must fail the job, not the process
        raise BodyInvalid(f"{kind.job_options.name} refuses the body: {type(error).__name__}: {error}") from error


def _hint_for_missing(kind: type[Job], body: bytes) -> str:
    """Return a hint for a body that lacks a field of its class; it may have it under a former name."""
    former = next(iter(unknown_fields(kind, body)), None)
    hint = "; give it a default if older jobs lack it"
    return hint if former is None else f"{hint}, or msgspec.field(name={former!r}) if that is what it was called"


def _where(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def options_of(job: Job, body: bytes) -> JobOptions:
    """Return the options of a job: those of its class, as changed by the policy in its body.

    Raises:
        BodyInvalid: see ``read_policy``.
    """
    policy = None if isinstance(job, RawJob) else read_policy(body)
    return job.job_options if policy is None else job.job_options.with_policy(policy)
