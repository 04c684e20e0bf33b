"""The ``tls`` setting of a shard in shard files."""

from __future__ import annotations

import msgspec


class TlsFiles(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Files for a TLS connection.

    Attributes:
        ca: certificates of the authorities that may sign the server's certificate; None: those of the system.
        cert: client certificate.
        key: private key of the client certificate.
    """

    ca: str | None = None
    cert: str | None = None
    key: str | None = None


def tls_files(setting: bool | TlsFiles) -> TlsFiles | None:
    """Return the files of a setting, which may also be just ``true`` or ``false``; None: no TLS."""
    if isinstance(setting, bool):
        return TlsFiles() if setting else None
    return setting
