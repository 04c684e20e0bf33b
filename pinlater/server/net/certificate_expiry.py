"""Read the expiry date of a certificate from its encoding (X.509 in DER), which ``ssl`` does not expose."""

from __future__ import annotations

import re
import ssl
from datetime import UTC, datetime
from pathlib import Path

_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)
_VERSION, _UTC_TIME = 0xA0, 0x17


def expires_at(file: Path) -> float | None:
    """Return when the first certificate of a PEM file expires, in epoch seconds; None if it cannot be read."""
    try:
        found = _CERTIFICATE.search(file.read_text(encoding="ascii", errors="replace"))
        return None if found is None else _not_after(ssl.PEM_cert_to_DER_cert(found[0]))
    except (OSError, ValueError, IndexError):
        return None


def _not_after(certificate: bytes) -> float:
    _, body, _ = _element(certificate)
    _, rest, _ = _element(body)  # the signed part: version, serial number, algorithm, issuer, validity, ...
    if rest[0] == _VERSION:
        _, _, rest = _element(rest)
    for _ in range(3):
        _, _, rest = _element(rest)
    _, validity, _ = _element(rest)
    _, _, rest = _element(validity)  # not before
    tag, moment, _ = _element(rest)
    form = "%y%m%d%H%M%SZ" if tag == _UTC_TIME else "%Y%m%d%H%M%SZ"
    return datetime.strptime(moment.decode("ascii"), form).replace(tzinfo=UTC).timestamp()


def _element(data: bytes) -> tuple[int, bytes, bytes]:
    """Split off the first DER element: return its tag, its content and the bytes after it."""
    length, start = data[1], 2
    if length & 0x80:
        start += length & 0x7F
        length = int.from_bytes(data[2:start], "big")
    return data[0], data[start : start + length], data[start + length :]
