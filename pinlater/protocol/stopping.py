"""The last message of a server that stops, to clients that want to hear it.

Calls that it has not answered before were not carried out, so the client may safely make them elsewhere. Without it, a
connection that ends says nothing of the kind: the server may have died in the middle of a call.
"""

from __future__ import annotations

from thriftpy2.thrift import TMessageType

from pinlater.protocol.framing import with_header

_STRICT_VERSION = 0x80010000
_NAME = b"stopping"

STOPPING = b"".join(
    (
        (_STRICT_VERSION | TMessageType.ONEWAY).to_bytes(4, "big"),
        len(_NAME).to_bytes(4, "big"),
        _NAME,
        bytes(4),  # sequence id
        b"\0",  # a struct without fields
    )
)
"""The payload of its frame."""

STOPPING_FRAME = with_header(STOPPING)
