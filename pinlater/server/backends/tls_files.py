"""The ``tls`` setting of a shard in shard files."""

from __future__ import annotations

import ssl
from functools import cache
from typing import NoReturn

import msgspec

from pinlater.protocol.tls_context import CurrentTlsContext


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


def tls_context(tls: TlsFiles) -> ssl.SSLContext:
    """Return the TLS context for the next connection to a server, whose certificate must be valid for its host name.

    Renewed files are used without a restart; see ``CurrentTlsContext``.

    Raises:
        OSError: a file is missing or invalid, and none was read before.
    """
    return _current(tls).latest((tls.ca, tls.cert, tls.key), lambda: _make(tls))


@cache
def _current(_: TlsFiles) -> CurrentTlsContext:
    """Return what all connections with the same files share."""
    return CurrentTlsContext()


def _make(tls: TlsFiles) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=tls.ca)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if tls.cert:
        context.load_cert_chain(tls.cert, tls.key, _no_passphrase)
    return context


def _no_passphrase() -> NoReturn:
    raise OSError("the key has a passphrase, which nobody is there to type; write a key without one")
