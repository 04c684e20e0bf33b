"""Serve one client connection that is encrypted with TLS."""

from __future__ import annotations

import logging
import ssl
from typing import TYPE_CHECKING, cast

from pinlater.server.log_rate_limit import LogRateLimit
from pinlater.server.net.connection import ClientConnection
from pinlater.server.net.peers import host_of
from pinlater.server.net.tls_transport import HandshakeFailed, TlsTransport

if TYPE_CHECKING:
    import asyncio

    from pinlater.server.net.thrift_server import ThriftServer

log = logging.getLogger(__name__)
log.addFilter(LogRateLimit())

_LINGER_SECONDS = 1.0
"""How long a client whose handshake failed can read the reason: closing at once could discard the TLS alert."""


class TlsClientConnection(ClientConnection):
    """Serves one client over TLS, once its handshake is complete.

    Args:
        owner: the server that has accepted it.
        context: the server's TLS context.
    """

    _tls: TlsTransport

    def __init__(self, owner: ThriftServer, context: ssl.SSLContext) -> None:
        super().__init__(owner)
        self._context = context
        self._handshake_failed_at: float | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if self._peer is not None:
            self._transport = self._tls = TlsTransport(cast("asyncio.Transport", transport), self._context)

    def data_received(self, data: bytes) -> None:
        if self._has_sent_stopping:
            return
        if plain := self._decrypt(data):
            super().data_received(plain)
        if self._tls.peer_sent_eof and not self.eof_received():
            self._transport.close()

    def _decrypt(self, data: bytes) -> bytes:
        """Decrypt received bytes; return nothing before the handshake is complete, or after it failed."""
        if self._handshake_failed_at is not None:
            return b""
        try:
            return self._tls.feed(data)
        except HandshakeFailed as failure:
            self._owner.metrics.handshakes_failed.add()
            self._handshake_failed_at = self._loop.time()
            log.info("TLS handshake with %s failed: %s", host_of(self._tls), failure)
        except ssl.SSLError as error:
            self._reject(f"invalid TLS data: {error}")
        return b""

    def check_progress(self, now: float) -> None:
        """Close the connection if it is idle, or if its handshake, a call or a reply makes no progress."""
        if self._handshake_failed_at is not None:
            if now - self._handshake_failed_at > _LINGER_SECONDS:
                self._transport.abort()
        elif self._tls.is_established:
            super().check_progress(now)
        elif now - self._active_at > self._owner.handshake_seconds:
            self._owner.metrics.handshakes_failed.add()
            self.abort("the TLS handshake was not completed in time")
