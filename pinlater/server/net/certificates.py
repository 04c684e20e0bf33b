"""Load TLS certificates, and reload them for new connections when their files change."""

from __future__ import annotations

import logging
import ssl
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, NoReturn

from pinlater.errors import ConfigError
from pinlater.protocol.tls_context import lacks_key
from pinlater.server.config.settings import Settings
from pinlater.server.config.watched_file import WatchedFile
from pinlater.server.net.certificate_expiry import expires_at

log = logging.getLogger(__name__)

_SOON_SECONDS = 7 * 86400.0
"""So long before a certificate expires, its loading is warned of."""


class Certificates:
    """Holds the certificate of a port, and the CA that its clients' certificates must come from.

    Created in the master, so that a replacement process has a usable certificate even if the files are unusable at that
    moment. A change that cannot be used is logged and ignored, since a certificate and its key are rarely replaced in
    the same instant.

    Args:
        certificate: PEM file of the certificate and its chain.
        key: PEM file of its key; None: the same file.
        client_ca: PEM file of the CA for client certificates; None: clients need no certificate.

    Attributes:
        context: the TLS context for the next connection.
        expires_at: when the current certificate expires, in epoch seconds; None if it cannot be read.

    Raises:
        ConfigError: a file cannot be used.
    """

    def __init__(self, certificate: Path, key: Path | None = None, client_ca: Path | None = None) -> None:
        self._certificate, self._key, self._client_ca = certificate, key, client_ca
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.expires_at: float | None = None
        paths = [path for path in (certificate, key, client_ca) if path is not None]
        self._files = [WatchedFile(path, lambda _: self._reload()) for path in paths]
        for file in self._files:
            file.load()

    def reload_if_changed(self) -> None:
        """Reload the files that have changed; never raises."""
        for file in self._files:
            file.check()

    def watchers(self) -> list[Coroutine[Any, Any, Any]]:
        """Return the background tasks that reload changed files, one a file."""
        return [file.watch() for file in self._files]

    def _reload(self) -> None:
        try:
            self.context = self._load()
        except ConfigError:
            for file in self._files:
                file.forget_if_unreadable()  # what has changed is not offered again, so this one has to be
            raise
        before, self.expires_at = self.expires_at, expires_at(self._certificate)
        if self.expires_at is not None and self.expires_at != before:
            self._warn_of_end(self.expires_at - time.time())

    def _warn_of_end(self, seconds_left: float) -> None:
        if seconds_left < _SOON_SECONDS:
            day = time.strftime("%Y-%m-%d", time.gmtime(self.expires_at))
            log.warning("%s %s on %s; renew it", self._certificate, "expired" if seconds_left <= 0 else "expires", day)

    def _load(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_TICKET
        context.num_tickets = 0  # connections are long-lived, and a ticket would be data on an idle one
        self._load_file(self._certificate, lambda: self._load_chain(context))
        if self._client_ca is not None:
            context.verify_mode = ssl.CERT_REQUIRED
            self._load_file(self._client_ca, lambda: context.load_verify_locations(self._client_ca))
        return context

    def _load_chain(self, context: ssl.SSLContext) -> None:
        if self._key is None and lacks_key(self._certificate):
            raise ConfigError(f"{self._certificate} has no private key; name the file that has it: THRIFT_TLS_KEY")
        context.load_cert_chain(self._certificate, self._key, self._refuse_passphrase)

    def _refuse_passphrase(self) -> NoReturn:
        file = self._key or self._certificate
        raise ConfigError(f"{file}: the key has a passphrase; use one without, since nobody can enter it here")

    @staticmethod
    def _load_file(path: Path, load: Callable[[], None]) -> None:
        try:
            load()
        except ssl.SSLError as error:
            reason = (error.reason or "not PEM").replace("_", " ").lower()
            raise ConfigError(
                f"{path}: cannot be used for TLS: {reason}; the certificate and its key must be PEM files that match"
            ) from None
        except OSError as error:
            raise ConfigError(f"{path} or its key cannot be read: {error.strerror}; check the paths") from None


def certificates_of(settings: Settings) -> Certificates | None:
    """Load the certificates of the service; None if its port does not use TLS.

    Raises:
        ConfigError: a file cannot be used.
    """
    if settings.tls_certificate is None:
        return None
    return Certificates(settings.tls_certificate, settings.tls_key, settings.tls_client_ca)


def admin_certificates_of(settings: Settings) -> Certificates | None:
    """Load the certificate of the admin port; None if that does not use TLS.

    Raises:
        ConfigError: a file cannot be used.
    """
    if settings.admin_tls_cert is None:
        return None
    return Certificates(settings.admin_tls_cert, settings.admin_tls_key)
