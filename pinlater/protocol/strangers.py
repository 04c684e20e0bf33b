"""Other protocols that a peer may speak by mistake, known by the first bytes of its stream."""

from __future__ import annotations

_TLS_HELLO = b"\x16\x03"
_TLS_ALERT = b"\x15\x03"
_HTTP_REQUESTS = (b"GET ", b"HEAD ", b"POST ", b"PUT ", b"DELETE ", b"OPTIONS ", b"CONNECT ")
_HTTP_ANSWER = b"HTTP/"
_UNFRAMED_CALL = b"\x80\x01"
_PROXY_HEADERS = (b"PROXY ", b"\r\n\r\n\0\r\nQUIT\n")


def speaks_tls(data: bytes) -> bool:
    """Return whether the stream of a client, which begins with ``data``, is TLS."""
    return data.startswith(_TLS_HELLO)


def hint_about_client(data: bytes) -> str:
    """Return what a server says of a client that sends no calls; empty if its protocol is not known."""
    if speaks_tls(data):
        return "; the client speaks TLS, but this port does not (THRIFT_TLS_CERT)"
    if data.startswith(_HTTP_REQUESTS):
        return "; the client speaks HTTP: dashboard, metrics and health checks have a port of their own (ADMIN_PORT)"
    if data.startswith(_UNFRAMED_CALL):
        return "; the client sends Thrift calls without frames: give it a framed transport, such as TFramedTransport"
    if data.startswith(_PROXY_HEADERS):
        return "; it is a load balancer that speaks the PROXY protocol: turn that off there (such as send-proxy)"
    return ""


def hint_about_server(data: bytes) -> str:
    """Return what a client says of a server that answers no call; empty if its protocol is not known."""
    if data.startswith(_TLS_ALERT):
        return "; it speaks TLS: write tls://host:port"
    if data.startswith(_HTTP_ANSWER):
        return "; it speaks HTTP, like the port of the dashboard: write the port of the service (THRIFT_PORT, 9010)"
    return ""
