"""The fields of a JSON body, each as JSON: those of the class, and metadata."""

from __future__ import annotations

import msgspec

DECODE_ERRORS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What decoding a body raises that is not JSON of the expected form, not UTF-8, or nested too deep."""

_decoder = msgspec.json.Decoder(dict[str, msgspec.Raw])


def read_fields(body: bytes) -> dict[str, msgspec.Raw]:
    """Return all fields of a body by name; their values are not checked.

    Raises:
        msgspec.DecodeError: the body is not a JSON object.
    """
    return _decoder.decode(body)
