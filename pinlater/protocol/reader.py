"""Decode the arguments of a call from untrusted bytes, at nearly the speed of thriftpy2.

The Cython decoder can only be trapped by containers that it skips or counts (see ``guard``). So containers, and the few
structs that hold them, are decoded here, in Python; the many small structs without containers (jobs, acks) are left to
Cython, with a depth limit that makes it refuse any container. A field that is unknown to the IDL, or has another type,
is not decoded: the caller falls back to the full decoding after ``guard``. The same goes for containers that are rare
in a kind of struct, so that structs without them are read as fast as if the IDL had none.
"""

from __future__ import annotations

import functools
from struct import Struct
from typing import Any

from thriftpy2.protocol.cybin import TCyBinaryProtocol, read_val
from thriftpy2.thrift import TType
from thriftpy2.transport.buffered import TCyBufferedTransport

from pinlater.protocol.guard import MAX_ELEMENTS, MalformedMessage
from pinlater.protocol.messages import PinLaterCheckpointJobRequest, PinLaterJobInfo

_PLAIN = frozenset({TType.BOOL, TType.BYTE, TType.DOUBLE, TType.I16, TType.I32, TType.I64, TType.STRING, TType.BINARY})
_STOP = bytes((TType.STOP,))
_RARELY_NESTED = frozenset({PinLaterCheckpointJobRequest, PinLaterJobInfo})
"""Structs whose containers are nearly always absent."""
_FIELD_HEAD = Struct(">Bh")
_LIST_HEAD = Struct(">Bi")


class NeedsFullDecoding(Exception):
    """The message contains something that this reader does not decode."""


class RequestReader:
    """Decodes structs from a transport."""

    def __init__(self, transport: TCyBufferedTransport) -> None:
        self._transport = transport
        self._leaf = TCyBinaryProtocol(transport, strict_decode=True, max_depth=1)
        self._elements_left = 0

    def read(self, kind: Any, most_elements: int = MAX_ELEMENTS) -> Any:
        """Decode the rest of the message as a struct of class ``kind``.

        Args:
            kind: a class of ``messages``.
            most_elements: limit for all its lists together.

        Raises:
            NeedsFullDecoding: it has unknown fields or types, or repeated fields; it may still be valid.
            Exception: anything that decoding damaged bytes may raise.
        """
        self._elements_left = most_elements
        return self._struct(kind)

    def read_leaves(self, kind: Any, count: int) -> list[Any]:
        """Decode ``count`` structs of class ``kind``, none of which has structs or containers."""
        read_leaf = self._leaf.read_struct
        return [read_leaf(kind()) for _ in range(count)]

    def _struct(self, kind: Any) -> Any:
        transport, fields = self._transport, _fields_of(kind)
        read = transport.read
        struct = kind()
        for _ in range(len(kind.thrift_spec) + 1):  # bounds the decoding of repeated fields
            wire_type = read(1)
            if wire_type == _STOP:
                return struct
            field = fields.get(wire_type + read(2))
            if field is None:
                raise NeedsFullDecoding
            name, value_type, content = field
            if content is None:
                setattr(struct, name, read_val(transport, value_type, True, True))
            else:
                setattr(struct, name, self._value(value_type, content))
        raise NeedsFullDecoding

    def _value(self, wire_type: int, spec: Any) -> Any:
        if wire_type == TType.STRUCT:
            return self._leaf.read_struct(spec()) if _is_leaf(spec) else self._struct(spec)
        if wire_type == TType.LIST:
            return self._list(*(spec if isinstance(spec, tuple) else (spec, None)))
        if wire_type in _PLAIN:
            return read_val(self._transport, wire_type, True, True)
        raise NeedsFullDecoding

    def _list(self, element_type: int, spec: Any) -> list[Any]:
        wire_type, count = _LIST_HEAD.unpack(self._transport.read(_LIST_HEAD.size))
        if wire_type != element_type:
            raise NeedsFullDecoding
        self._elements_left -= count  # for the whole message: a field may be repeated
        if count < 0 or self._elements_left < 0:
            raise MalformedMessage(
                f"a list of {count} elements; a message may have at most {MAX_ELEMENTS}, send smaller batches"
            )
        if element_type == TType.STRUCT and _is_leaf(spec):
            return self.read_leaves(spec, count)
        return [self._value(element_type, spec) for _ in range(count)]


@functools.cache
def _fields_of(kind: Any) -> dict[bytes, tuple[str, int, Any]]:
    """Return the name, type and, for structs and containers, content of each field, by the bytes before its value."""
    fields = {}
    for number, (wire_type, name, content, *_) in kind.thrift_spec.items():
        field = name, wire_type, None if wire_type in _PLAIN else content
        fields[_FIELD_HEAD.pack(wire_type, number)] = field
        if wire_type == TType.BINARY:  # text on the wire
            fields[_FIELD_HEAD.pack(TType.STRING, number)] = field
    return fields


@functools.cache
def _is_leaf(kind: Any) -> bool:
    """Return whether structs of a class never, or hardly ever, contain structs or containers."""
    return kind in _RARELY_NESTED or all(field[0] in _PLAIN for field in kind.thrift_spec.values())
