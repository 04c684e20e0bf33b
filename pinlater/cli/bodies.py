"""Validation of bodies against job classes before they are enqueued."""

from __future__ import annotations

import types
from collections.abc import Sequence
from typing import Any

import msgspec

from pinlater.errors import BodyInvalid
from pinlater.jobs.body_codec import JobCodec, unknown_fields
from pinlater.jobs.job import Job, RawJob
from pinlater.jobs.keys import key_of_class
from pinlater.jobs.loader import load_job_classes
from pinlater.model.body_fields import DECODE_ERRORS
from pinlater.model.class_name import name_in

_KEY = "key_in_body"


class BodyChecker:
    """Checks bodies against the job classes of some modules.

    Args:
        modules: modules as given to a worker.
        queue: queue of the jobs; None for the queue of their classes.

    Raises:
        ConfigError: a module cannot be loaded, or two classes share a name.
    """

    def __init__(self, modules: Sequence[str], queue: str | None) -> None:
        self._codec = JobCodec(load_job_classes(modules))
        self._queue = queue
        raw = (kind.job_options for kind in self._codec.kinds if issubclass(kind, RawJob))
        self._takes_any = any(options.queue == queue for options in raw)
        self._kinds: dict[type[Job], type[RawJob]] = {}

    def kind_of(self, body: bytes) -> type[RawJob]:
        """Return a raw job class with the options of the class that the body fits.

        Raises:
            BodyInvalid: the body fits no class.
        """
        if not self._takes_any and name_in(body) is None:
            names, meant = self._codec.names, body.decode(errors="replace")
            raise BodyInvalid(
                f'{_fault_of(body)}, such as {{"job": "{meant if meant in names else names[0]}"}}; '
                f"the classes are {', '.join(names)}"
            )
        job = self._codec.decode(self._queue or "", body)
        kind = type(job)
        if not isinstance(job, RawJob):
            _refuse_unknown_fields(kind, body)
        if kind not in self._kinds:
            options = kind.job_options
            same = {"name": options.name, "queue": options.queue}
            header: dict[str, Any] = same | {"attempts": options.attempts, "priority": options.priority}
            if options.key is not None:
                header |= {"key": _KEY, "running_per_key": options.running_per_key, "in_order": options.in_order}
                header["rate_per_key"] = options.rate_per_key
            self._kinds[kind] = types.new_class(kind.__name__, (RawJob,), header, self._add_key)
        return self._kinds[kind]

    def _add_key(self, namespace: dict[str, Any]) -> None:
        """Give a raw class a property with the key that the body's class takes from its fields."""
        namespace[_KEY] = property(lambda raw: self._key_in(raw.body))

    def _key_in(self, body: bytes) -> str | None:
        key = key_of_class(self._codec.decode(self._queue or "", body))
        return None if key is None else key.text


def _fault_of(body: bytes) -> str:
    """Return what is wrong with a body that names no class."""
    try:
        msgspec.json.decode(body, type=dict[str, Any])
    except DECODE_ERRORS as error:
        return f"the body is not a JSON object ({error}); write one that names its class"
    return "the body must name its class"


def _refuse_unknown_fields(kind: type[Job], body: bytes) -> None:
    """Refuse fields that workers would ignore: in a hand-written body they are probably typos."""
    unknown = unknown_fields(kind, body)
    if unknown:
        known = kind.__struct_encode_fields__
        has = f"its fields are {', '.join(known)}" if known else "it has no fields"
        raise BodyInvalid(f"{kind.job_options.name} has no field {', '.join(unknown)}; {has}")
