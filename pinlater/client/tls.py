"""The files that a client uses for TLS, and TLS sockets that behave like plain ones."""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass, field
from typing import NoReturn

from pinlater.errors import ConfigError
from pinlater.protocol.tls_context import CurrentTlsContext, lacks_key

CA_KEY, CERT_KEY, KEY_KEY = "PINLATER_TLS_CA", "PINLATER_TLS_CERT", "PINLATER_TLS_KEY"


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Files for servers at ``tls://host:port``, all in PEM format.

    They are checked for changes when a connection is made, at most once a second: renewed files need no restart. While
    they cannot be used, as between the writing of a certificate and of its key, those read before stay in use.

    Args:
        ca: authority of the servers' certificates; None: the system's authorities.
        cert: the client's certificate, for servers that require one.
        key: its key; None: it is in the same file.
    """

    ca: str | os.PathLike[str] | None = None
    cert: str | os.PathLike[str] | None = None
    key: str | os.PathLike[str] | None = None
    _current: CurrentTlsContext = field(default_factory=CurrentTlsContext, init=False, repr=False, compare=False)

    @classmethod
    def from_environment(cls, *, ca: str | None = None, cert: str | None = None, key: str | None = None) -> TlsFiles:
        """Read ``PINLATER_TLS_CA``, ``PINLATER_TLS_CERT`` and ``PINLATER_TLS_KEY``; arguments override them."""
        if cert is None:  # the key of another certificate would be of no use
            cert, key = os.environ.get(CERT_KEY) or None, key or os.environ.get(KEY_KEY) or None
        return cls(ca or os.environ.get(CA_KEY) or None, cert, key)

    @property
    def are_given(self) -> bool:
        """Whether any of the files is given."""
        return any((self.ca, self.cert, self.key))

    def context(self) -> ssl.SSLContext:
        """Return the TLS context: at least TLS 1.2, and the name or address of the server is verified.

        Raises:
            ConfigError: a file cannot be used, and none was read before.
        """
        return self._current.latest((self.ca, self.cert, self.key), self._make)

    def _make(self) -> ssl.SSLContext:
        if self.key and not self.cert:
            raise ConfigError(f"{KEY_KEY} has no effect without {CERT_KEY}; name the certificate, too")
        for path in (self.ca, self.cert, self.key):
            if path and not os.access(path, os.R_OK):
                raise ConfigError(f"{os.fspath(path)} cannot be read; check {CA_KEY}, {CERT_KEY} and {KEY_KEY}")
        try:
            context = ssl.create_default_context(cafile=self.ca)
            context.minimum_version = ssl.TLSVersion.TLSv1_2
            if self.cert:
                context.load_cert_chain(self.cert, self.key, _no_passphrase)
        except (ssl.SSLError, OSError) as error:
            if self.cert and not self.key and lacks_key(self.cert):
                raise ConfigError(
                    f"{os.fspath(self.cert)} has no private key; name the file that has it: {KEY_KEY}"
                ) from None
            files = ", ".join(os.fspath(path) for path in (self.ca, self.cert, self.key) if path)
            reason = getattr(error, "reason", None) or "not PEM"
            raise ConfigError(
                f"{files}: cannot be used for TLS: {str(reason).replace('_', ' ').lower()}; "
                f"check {CA_KEY}, {CERT_KEY} and {KEY_KEY}"
            ) from None
        return context


def _no_passphrase() -> NoReturn:
    raise ConfigError(f"{KEY_KEY} has a passphrase, which nobody is there to type; write a key without one")


class SecureSocket:
    """A non-blocking TLS socket that behaves like a plain one.

    A plain socket polls as readable exactly when it has data left. A TLS socket may poll as readable without data, or
    have decrypted data without polling as readable. So a read here takes all decrypted data, and a read without data
    raises ``BlockingIOError``.

    Args:
        sock: socket whose handshake is done.
    """

    def __init__(self, sock: ssl.SSLSocket) -> None:
        self._sock = sock
        self.getsockopt, self.setsockopt = sock.getsockopt, sock.setsockopt

    def fileno(self) -> int:
        """Return the descriptor; -1 once closed."""
        return self._sock.fileno()

    def recv(self, size: int) -> bytes:
        """Return up to about ``size`` bytes; b"" at the end."""
        pieces: list[bytes] = []
        total = 0
        while total < size or self._sock.pending():
            try:
                piece = self._sock.recv(size)
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                break
            if not piece:
                return b"".join(pieces)
            pieces.append(piece)
            total += len(piece)
        if not pieces:
            raise BlockingIOError
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def send(self, data: bytes | memoryview) -> int:
        """Send as much as the socket accepts; return the number of bytes."""
        try:
            return self._sock.send(data)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise BlockingIOError from None
        except ConnectionError:
            self._sock.recv(1)  # raises the TLS alert that the server sent before it closed, if any
            raise

    def shutdown(self, how: int) -> None:
        """Shut down the connection for all processes that have a copy of it, without a TLS close message."""
        self._sock.shutdown(how)

    def close(self) -> None:
        """Close without a TLS close message: after a fork, another process may still use the connection."""
        self._sock.close()
