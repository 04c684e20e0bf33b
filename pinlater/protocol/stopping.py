"""The stopping notice: the last message of a stopping server, to clients that have asked for it.

Calls that were not answered before it were not carried out, so the client may safely send them elsewhere. If a
connection ends without it, the server may have died in the middle of a call.
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
"""The payload of the notice."""

STOPPING_FRAME = with_header(STOPPING)
