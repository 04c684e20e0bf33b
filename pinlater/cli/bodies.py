"""Bodies checked by their job classes, before they are enqueued as they are."""

from __future__ import annotations

import types
from collections.abc import Sequence

import msgspec

from pinlater.errors import BodyInvalid
from pinlater.jobs.body_codec import JobCodec, name_in
from pinlater.jobs.job import Job, RawJob
from pinlater.jobs.loader import load_job_classes

_fields_of = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class Bodies:
    """Knows the job classes of some modules.

    Args:
        modules: as a worker is given them.
        queue: that the jobs go to; None is that of their classes.

    Raises:
        ConfigError: a module cannot be loaded, or two classes share a name.
    """

    def __init__(self, modules: Sequence[str], queue: str | None) -> None:
        self._codec = JobCodec(load_job_classes(modules))
        self._queue = queue
        self._kinds: dict[type[Job], type[RawJob]] = {}

    def kind_of(self, body: bytes) -> type[RawJob]:
        """Return a class for the bytes as they are, with the options of the class that they fit.

        Raises:
            BodyInvalid: they fit none; the message says why.
        """
        if self._queue is None and name_in(body) is None:
            names = ", ".join(self._codec.names)
            raise BodyInvalid(
                f'the body has to name its class, such as {{"job": "{self._codec.names[0]}"}}, of {names}'
            )
        job = self._codec.decode(self._queue or "", body)
        kind = type(job)
        if not isinstance(job, RawJob):
            _refuse_unknown_fields(kind, body)
        if kind not in self._kinds:
            options = kind.job_options
            same = {"name": options.name, "queue": options.queue}
            header = same | {"attempts": options.attempts, "priority": options.priority}
            self._kinds[kind] = types.new_class(kind.__name__, (RawJob,), header)
        return self._kinds[kind]


def _refuse_unknown_fields(kind: type[Job], body: bytes) -> None:
    """Refuse what workers pass over: whoever writes a body by hand has mistyped it."""
    known = kind.__struct_encode_fields__
    unknown = [name for name in _fields_of(body) if name not in known and name != "job" and not name.startswith("$")]
    if unknown:
        has = f"its fields are {', '.join(known)}" if known else "it has no fields"
        raise BodyInvalid(f"{kind.job_options.name} has no field {', '.join(unknown)}; {has}")
