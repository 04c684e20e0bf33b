"""Fields that a running job publishes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from pinlater.errors import BodyInvalid
from pinlater.jobs.finite import NO_JSON, encode_finite

MOST_BYTES = 4096
"""Limit of all published fields of a job together, as JSON; every save sends them."""


def publish(published: dict[str, Any], fields: Mapping[str, Any]) -> None:
    """Update the fields that a job has published.

    Args:
        published: the fields so far; changed unless an error is raised.
        fields: new values; None removes a field.

    Raises:
        BodyInvalid: JSON cannot carry a field.
        ValueError: all fields together are too large.
    """
    try:
        new = published | msgspec.json.decode(encode_finite(fields), type=dict[str, Any])
    except NO_JSON as error:
        raise BodyInvalid(f"publish() takes what JSON can carry: {error}") from error
    kept = {name: value for name, value in new.items() if value is not None}
    size = len(msgspec.json.encode(kept))
    if size > MOST_BYTES:
        raise ValueError(
            f"publish() shows {MOST_BYTES} bytes of JSON at most, and with {', '.join(fields)} there would be {size}; "
            "publish where larger data is, or remove a field by None"
        )
    published.clear()
    published.update(kept)
