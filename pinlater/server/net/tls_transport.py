"""TLS between a transport of the event loop and a connection: bytes of the network on one side, calls on the other.

Done here and not by the loop, because a peer has to count, and its deadline to run, from the moment it connects.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from typing import Any

_READ_BYTES = 1 << 18
_CLIENT_HELLO = b"\x16\x03"
_PROTOCOL_VERSION_ALERT = b"\x15\x03\x03\x00\x02\x02\x46"


class HandshakeFailed(Exception):
    """The peer cannot be talked to; the message says why, and what it should do."""


class SecureTransport:
    """What a connection writes to instead of the transport; it has as much of its methods as a connection uses.

    Args:
        transport: of the network.
        context: the server's.

    Attributes:
        is_established: whether the handshake is over.
        has_peer_ended: whether the peer has said that it will say no more.
    """

    def __init__(self, transport: asyncio.Transport, context: ssl.SSLContext) -> None:
        self._transport = transport
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self.is_established = self.has_peer_ended = False

    def feed(self, data: bytes) -> bytes:
        """Take bytes of the network; return what they say, which may be nothing yet.

        Raises:
            HandshakeFailed: the peer was told, as far as TLS has words for it.
            ssl.SSLError: the stream is damaged.
        """
        self._incoming.write(data)
        if not self.is_established:
            self._shake_hands(data)
        text = self._read() if self.is_established else b""
        self._flush()
        return text

    def _shake_hands(self, data: bytes) -> None:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return
        except ssl.SSLError as error:
            if not self._outgoing.pending:  # OpenSSL is silent where it sees no TLS at all
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
                self.has_peer_ended = True
                break
            pieces.append(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _flush(self) -> None:
        if self._outgoing.pending:
            self._transport.write(self._outgoing.read())

    # As of asyncio.Transport

    def write(self, data: bytes) -> None:
        """Send bytes."""
        rest = memoryview(data)
        while rest:
            rest = rest[self._tls.write(rest) :]
        self._flush()

    def close(self) -> None:
        """Say goodbye and close, when all is sent."""
        if self.is_established and not self._transport.is_closing():
            with contextlib.suppress(ssl.SSLError):  # that the peer has not said goodbye as well: nobody waits for it
                self._tls.unwrap()
            self._flush()
        self._transport.close()

    def abort(self) -> None:
        """Close at once."""
        self._transport.abort()

    def is_closing(self) -> bool:
        """Whether it is closed, or about to be."""
        return self._transport.is_closing()

    def pause_reading(self) -> None:
        """Let the peer wait."""
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Read on."""
        self._transport.resume_reading()

    def get_write_buffer_size(self) -> int:
        """Return how many bytes wait for the peer to read."""
        return self._transport.get_write_buffer_size()

    def set_write_buffer_limits(self, high: int) -> None:
        """Pause writing above so many bytes."""
        self._transport.set_write_buffer_limits(high)

    def get_extra_info(self, name: str) -> Any:
        """Return what the transport knows."""
        return self._transport.get_extra_info(name)


def speaks_tls(data: bytes) -> bool:
    """Whether a stream that begins so is TLS."""
    return data[:2] == _CLIENT_HELLO


def _reason(error: ssl.SSLError, data: bytes) -> str:
    words = (error.reason or str(error)).replace("_", " ").lower()
    if error.reason in {"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE"} and not speaks_tls(data):
        return "it does not speak TLS, which this port does; clients write tls://host:port"
    if error.reason == "PEER_DID_NOT_RETURN_A_CERTIFICATE":
        return "it has no certificate, and THRIFT_TLS_CLIENT_CA wants one"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {error.verify_message}"
    return words
