"""Encode and decode the reply to an enqueue of one job, the most frequent reply, in a third of the codec's time."""

from __future__ import annotations

import struct

from thriftpy2.thrift import TMessageType, TType

from pinlater.protocol.enqueue_head import METHOD

_VERSION = b"\x80\x01\0"
_MESSAGE = _VERSION + struct.pack(f">Bi{len(METHOD)}s", TMessageType.REPLY, len(METHOD), METHOD.encode())
_LIST = struct.pack(">BhBhBi", TType.STRUCT, 0, TType.LIST, 1, TType.STRING, 1)
"""Field 0 of the result is the response; its field 1 is the list, with one string."""

_END = b"\0\0"
_START = struct.Struct(f">i{len(_MESSAGE)}si{len(_LIST)}si")
_START_OF_PAYLOAD = struct.Struct(_START.format.replace("i", "", 1))
_OTHER_BYTES = _START_OF_PAYLOAD.size + len(_END)
"""Bytes of the payload that are not the descriptor."""


def encode_descriptor(sequence_id: int, descriptor: str) -> bytes:
    """Encode the reply to an enqueue of one job as a frame, exactly as the codec would."""
    data = descriptor.encode()
    size = len(data)
    return _START.pack(size + _OTHER_BYTES, _MESSAGE, sequence_id, _LIST, size) + data + _END


def decode_descriptor(payload: bytes, sequence_id: int) -> str | None:
    """Decode the reply to an enqueue of one job; return None for any other or damaged reply: the codec decodes that."""
    size = len(payload) - _OTHER_BYTES
    if size < 0:
        return None
    if _START_OF_PAYLOAD.unpack_from(payload) != (_MESSAGE, sequence_id, _LIST, size) or not payload.endswith(_END):
        return None
    try:
        return str(payload[_START_OF_PAYLOAD.size : -len(_END)], "utf-8")
    except UnicodeDecodeError:
        return None
