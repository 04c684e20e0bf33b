"""The server's certificates: read again when their files change, for connections made from then on."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, NoReturn

from pinlater.errors import ConfigError
from pinlater.server.config.settings import Settings
from pinlater.server.config.watched_file import WatchedFile
from pinlater.server.net.certificate_expiry import expires_at


class Certificates:
    """What the service's port proves itself with, and by whom its clients have to be vouched for.

    Made in the master, so that a process that replaces another one, be it by HUP, has something to go on with also when
    the files cannot be used just then. A change that cannot be used is logged, and what was read before stays in force:
    a certificate and its key are seldom replaced in the same moment.

    Args:
        certificate: PEM file, with the chain below it.
        key: PEM file of its key; None is the same file.
        client_ca: PEM file of those who vouch for clients; None takes clients without a certificate.

    Raises:
        ConfigError: a file cannot be used.
    """

    def __init__(self, certificate: Path, key: Path | None = None, client_ca: Path | None = None) -> None:
        self._certificate, self._key, self._client_ca = certificate, key, client_ca
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._expires_at: float | None = None
        paths = [path for path in (certificate, key, client_ca) if path is not None]
        self._files = [WatchedFile(path, lambda _: self._reload()) for path in paths]
        for file in self._files:
            file.load()

    @property
    def context(self) -> ssl.SSLContext:
        """What the next connection is to be made with."""
        return self._context

    @property
    def expires_at(self) -> float | None:
        """When the certificate in force ends, in epoch seconds; None if that cannot be read."""
        return self._expires_at

    def look(self) -> None:
        """Read the files again if they have changed; never raises."""
        for file in self._files:
            file.look()

    def watches(self) -> list[Coroutine[Any, Any, Any]]:
        """Return what has to run for changes to be noticed."""
        return [file.watch() for file in self._files]

    def _reload(self) -> None:
        self._context = self._load()
        self._expires_at = expires_at(self._certificate)

    def _load(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_TICKET
        context.num_tickets = 0  # connections live long; and a client's idle one has nothing to read
        self._use(self._certificate, lambda: context.load_cert_chain(self._certificate, self._key, _no_passphrase))
        if self._client_ca is not None:
            context.verify_mode = ssl.CERT_REQUIRED
            self._use(self._client_ca, lambda: context.load_verify_locations(self._client_ca))
        return context

    @staticmethod
    def _use(path: Path, load: Callable[[], None]) -> None:
        try:
            load()
        except ssl.SSLError as error:
            reason = (error.reason or "no PEM").replace("_", " ").lower()
            raise ConfigError(
                f"{path}: cannot be used for TLS: {reason}; it and its key have to be PEM files"
            ) from None
        except OSError as error:
            raise ConfigError(f"{path}, or its key, cannot be read: {error.strerror}; check the paths") from None


def _no_passphrase() -> NoReturn:
    raise ConfigError("THRIFT_TLS_KEY has a passphrase, which a server cannot be asked for; write a key without one")


def certificates_of(settings: Settings) -> Certificates | None:
    """Return what the settings name; None: the port is plain.

    Raises:
        ConfigError: a file cannot be used.
    """
    if settings.tls_certificate is None:
        return None
    return Certificates(settings.tls_certificate, settings.tls_key, settings.tls_client_ca)
