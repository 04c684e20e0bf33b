"""Client sockets: without delay, with keep-alive, optionally TLS, connected within a deadline."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import ssl
import struct
import time
from typing import Any

from pinlater.client.address import Address
from pinlater.client.name_lookup import IpAddresses, look_up
from pinlater.client.tls import SecureSocket, TlsFiles
from pinlater.errors import CallError, CallTimeout, ServerStopping, ServerUnavailable

_UNCONFIRMED_SECONDS = 3.0
"""A connection is lost once the other machine has not confirmed for this long what was sent, and sent again. A machine
also confirms for programs that hang: so it is cut off, or a device on the way has forgotten the connection. This is
less than the timeout of clients, so that they still have the time to connect anew."""

_UNREAD_BYTES = 32 * 1024
"""So much is confirmed even if the server does not read it."""

_KEEPALIVE_IDLE_SECONDS = 15
"""Some devices that translate addresses forget a connection on which nothing was sent for 30 s."""
_KEEPALIVE_INTERVAL_SECONDS = 10
_KEEPALIVE_PROBES = 3

_SHORTEST_ROUND_TRIP_AT = 148
"""Position of ``tcpi_min_rtt`` in Linux's ``struct tcp_info``: the shortest one of the last five minutes."""
_UNKNOWN = 2**32 - 1

_CUT_OFF = {errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETUNREACH}
"""How a connection ends after ``_UNCONFIRMED_SECONDS``; the latter two if a machine on the way gave the reason."""

_OUT_OF_DATE = {9, 10}
"""OpenSSL's codes of a certificate that is not valid yet, or not any more."""

_LEAST_SHARE_SECONDS = 0.5
"""An IP address gets at least this long to answer, however many others there are: as long as the longest way takes."""


def connect(address: Address, timeout: float, tls: TlsFiles) -> socket.socket | SecureSocket:
    """Return a non-blocking socket to the first IP address of a server that answers.

    Args:
        address: server to reach.
        timeout: seconds for the look-up of its name, all of its IP addresses and the TLS handshake together.
        tls: files for a ``tls://`` address.

    Raises:
        ServerUnavailable: it did not answer in time, its name is unknown, or it is not trusted.
        ConfigError: a file of ``tls`` cannot be used.
    """
    deadline = time.monotonic() + timeout
    failure: OSError = TimeoutError(f"no answer within {timeout:g} s")
    try:
        candidates = _candidates(address, timeout)
    except (OSError, UnicodeError) as error:
        raise unavailable(address, error) from error
    for number, candidate in enumerate(candidates):
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            break
        try:
            sock = _connected(candidate, share_of(remaining, len(candidates) - number))
            return _secured(sock, address, deadline, tls) if address.is_tls else _unblocked(sock)
        except OSError as error:
            failure = error
    raise unavailable(address, failure) from failure


def share_of(remaining: float, addresses: int) -> float:
    """Return how many of the ``remaining`` seconds the next of several IP addresses gets: others may answer if not."""
    return min(max(remaining / addresses, _LEAST_SHARE_SECONDS), remaining)


def _candidates(address: Address, timeout: float) -> IpAddresses:
    if address.kind == "unix":
        return [(socket.AF_UNIX, socket.SOCK_STREAM, 0, "", address.host)]
    try:
        return look_up(address.host, address.port).result(timeout)
    except TimeoutError:
        raise ServerUnavailable(f"{address}: its name was not found in time") from None


def _connected(candidate: tuple[Any, ...], seconds: float) -> socket.socket:
    family, kind, protocol, _, target = candidate
    sock = socket.socket(family, kind, protocol)
    try:
        sock.settimeout(seconds)
        sock.connect(target)
        tune(sock)
    except BaseException:
        sock.close()
        raise
    return sock


def _unblocked(sock: socket.socket) -> socket.socket:
    sock.setblocking(False)
    return sock


def _secured(sock: socket.socket, address: Address, deadline: float, tls: TlsFiles) -> SecureSocket:
    try:
        sock.settimeout(max(deadline - time.monotonic(), 0.001))
        secure = tls.context().wrap_socket(sock, server_hostname=address.host)
        secure.setblocking(False)
    except BaseException:
        sock.close()
        raise
    return SecureSocket(secure)


def tune(sock: socket.socket) -> None:
    """Set the options of a connected socket."""
    if sock.family == socket.AF_UNIX:
        return
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_USER_TIMEOUT", int(_UNCONFIRMED_SECONDS * 1000)),
        ("TCP_KEEPIDLE", _KEEPALIVE_IDLE_SECONDS),
        ("TCP_KEEPINTVL", _KEEPALIVE_INTERVAL_SECONDS),
        ("TCP_KEEPCNT", _KEEPALIVE_PROBES),
    ):
        with contextlib.suppress(AttributeError, OSError):  # not every system has them
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def await_reader(sock: socket.socket | SecureSocket, size: int) -> None:
    """Keep the connection while the other side reads nothing, if a call of ``size`` bytes may have to wait for that.

    To the system, a server that does not read is as good as one that confirms nothing; but it may wait for memory.
    """
    if size > _UNREAD_BYTES:
        with contextlib.suppress(AttributeError, OSError):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 0)


def round_trip_seconds(sock: socket.socket | SecureSocket) -> float:
    """Return how long bytes take to the other machine and back, at best; 0.0 if the system does not know."""
    try:
        info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _SHORTEST_ROUND_TRIP_AT + 4)
        (microseconds,) = struct.unpack_from("I", info, _SHORTEST_ROUND_TRIP_AT)
    except (AttributeError, OSError, struct.error):  # not every system has it, and no Unix socket
        return 0.0
    return float(microseconds) / 1e6 if microseconds != _UNKNOWN else 0.0


def lost(address: Address, error: BaseException) -> CallError:
    """Return the error to raise for a call whose connection was lost."""
    if isinstance(error, OSError) and error.errno in _CUT_OFF:
        return CallTimeout(f"{address}: no reply, and no sign that the call arrived; its machine cannot be reached")
    return unavailable(address, error)


def unavailable(address: Address, error: BaseException) -> ServerUnavailable:
    """Return the error to raise for a server that could not be reached."""
    if isinstance(error, TimeoutError):
        return ServerUnavailable(f"{address}: no answer to the attempt to connect")
    if isinstance(error, ssl.SSLError):
        return ServerUnavailable(f"{address}: {_tls_reason(error)}")
    return ServerUnavailable(f"{address}: {_reason(error).lower()}")


def stopping(address: Address) -> ServerStopping:
    """Return the error to raise for a call that a stopping server has not carried out."""
    return ServerStopping(f"{address}: the server is stopping, and has not carried out the call")


def _tls_reason(error: ssl.SSLError) -> str:
    """Return what went wrong in the handshake, and what to do about it."""
    if isinstance(error, ssl.SSLCertVerificationError):
        if error.verify_code in _OUT_OF_DATE:
            return f"its {error.verify_message}; renew it there, or set the clock of this machine"
        return f"its certificate is not trusted: {error.verify_message}; PINLATER_TLS_CA names those who are"
    words = (error.reason or str(error)).replace("_", " ").lower()
    if isinstance(error, ssl.SSLEOFError) or error.reason in {"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"}:
        return f"it does not seem to speak TLS ({words}); leave out tls:// if its port is plain"
    if "CERTIFICATE" in (error.reason or "") or "UNKNOWN_CA" in (error.reason or ""):
        return f"it does not accept our certificate ({words}); PINLATER_TLS_CERT names one that its CA has signed"
    return f"TLS failed: {words}"


def _reason(error: BaseException) -> str:
    """Return the system's message for an error number; asyncio replaces it by its own."""
    if isinstance(error, OSError) and error.errno and not isinstance(error, socket.gaierror):
        return os.strerror(error.errno)
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
