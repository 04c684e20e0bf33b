"""Structs of jobs to enqueue <-> what a table of another database stores of them until they are sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pinlater.errors import BodyInvalid
from pinlater.protocol.messages import PinLaterJob

_DEFAULTS: dict[str, Any] = dict(getattr(PinLaterJob, "default_spec"))  # noqa: B009 - set when the class is made
del _DEFAULTS["body"]  # it has a column of its own


def stored_fields(job: PinLaterJob) -> dict[str, Any]:
    """Return the fields of a job by their names on the wire, without its body and without default values."""
    fields = {name: getattr(job, name) for name in _DEFAULTS}
    return {name: value for name, value in fields.items() if value != _DEFAULTS[name]}


def stored_job(body: bytes, fields: Mapping[str, Any]) -> PinLaterJob:
    """Build a job from its body and the fields that ``stored_fields`` returned.

    Raises:
        BodyInvalid: it has fields that no row of this version has.
    """
    unknown = fields.keys() - _DEFAULTS.keys()
    if unknown:
        raise BodyInvalid(
            f"the options have fields that this version of PinLater does not know: {', '.join(sorted(unknown))}; "
            "if a newer version has stored the row, update the relay"
        )
    return PinLaterJob(body, **fields)


def needs_its_shard(job: PinLaterJob) -> bool:
    """Tell whether a key of the job decides which shard of a store it goes to."""
    return job.uniqueKey is not None or job.key is not None
