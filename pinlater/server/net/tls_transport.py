"""Encrypt a connection with TLS, between its network transport and its protocol.

Done here and not by the event loop, because a client must count, and its deadline run, from the moment it connects.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from typing import Any

from pinlater.protocol.strangers import speaks_tls

_READ_BYTES = 1 << 18
_PROTOCOL_VERSION_ALERT = b"\x15\x03\x03\x00\x02\x02\x46"


class HandshakeFailed(Exception):
    """The TLS handshake failed; the message says why and what the client should do."""


class TlsTransport:
    """Encrypts and decrypts a connection; offers the methods of a transport that a connection uses.

    Args:
        transport: the network transport.
        context: the server's TLS context.

    Attributes:
        is_established: whether the handshake is complete.
        peer_sent_eof: whether the client has ended its side of the stream.
    """

    def __init__(self, transport: asyncio.Transport, context: ssl.SSLContext) -> None:
        self._transport = transport
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self.is_established = self.peer_sent_eof = False

    def feed(self, data: bytes) -> bytes:
        """Decrypt bytes of the network; return the plain bytes, which may be none yet.

        Raises:
            HandshakeFailed: the client was sent a TLS alert.
            ssl.SSLError: the stream is invalid.
        """
        self._incoming.write(data)
        if not self.is_established:
            self._handshake(data)
        plain = self._read() if self.is_established else b""
        self._flush()
        return plain

    def _handshake(self, data: bytes) -> None:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return
        except ssl.SSLError as error:
            if not self._outgoing.pending:  # OpenSSL sends no alert to a client that does not speak TLS
                self._outgoing.write(_PROTOCOL_VERSION_ALERT)
            self._flush()
            if self._transport.can_write_eof():
                self._transport.write_eof()
            raise HandshakeFailed(_reason(error, data)) from error
        self.is_established = True

    def _read(self) -> bytes:
        pieces: list[bytes] = []
        while True:
            try:
                piece = self._tls.read(_READ_BYTES)
            except ssl.SSLWantReadError:
                break
            except ssl.SSLZeroReturnError:
                piece = b""
            if not piece:
                self.peer_sent_eof = True
                break
            pieces.append(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _flush(self) -> None:
        if self._outgoing.pending:
            self._transport.write(self._outgoing.read())

    # Methods of asyncio.Transport

    def write(self, data: bytes) -> None:
        """Encrypt and send bytes."""
        rest = memoryview(data)
        while rest:
            rest = rest[self._tls.write(rest) :]
        self._flush()

    def close(self) -> None:
        """Send the TLS closure alert, and close once everything is sent."""
        if self.is_established and not self._transport.is_closing():
            with contextlib.suppress(ssl.SSLError):  # the client's own closure alert is not awaited
                self._tls.unwrap()
            self._flush()
        self._transport.close()

    def abort(self) -> None:
        self._transport.abort()

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def pause_reading(self) -> None:
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._transport.resume_reading()

    def get_write_buffer_size(self) -> int:
        return self._transport.get_write_buffer_size()

    def set_write_buffer_limits(self, high: int) -> None:
        self._transport.set_write_buffer_limits(high)

    def get_extra_info(self, name: str) -> Any:
        return self._transport.get_extra_info(name)


def _reason(error: ssl.SSLError, data: bytes) -> str:
    if error.reason in {"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE"} and not speaks_tls(data):
        return "the client does not speak TLS, which this port requires; connect to tls://host:port"
    if error.reason == "PEER_DID_NOT_RETURN_A_CERTIFICATE":
        return "the client sent no certificate, which THRIFT_TLS_CLIENT_CA requires"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the client's certificate was rejected: {error.verify_message}"
    return (error.reason or str(error)).replace("_", " ").lower()
