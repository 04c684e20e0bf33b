"""Decode the arguments of a call from untrusted bytes, at nearly the speed of thriftpy2.

Only containers that it skips or counts can trap the Cython decoder (see ``guard``). So containers, and the few structs
that hold them, are decoded here, in Python; the many small structs without containers (jobs, acks) are left to Cython,
with a depth limit that makes it refuse any container. A field that is unknown to the IDL, or has another type, is not
decoded: the caller falls back to the full decoding after ``guard``.
"""

from __future__ import annotations

from typing import Any

from thriftpy2.protocol.cybin import TCyBinaryProtocol, read_val
from thriftpy2.thrift import TType
from thriftpy2.transport.buffered import TCyBufferedTransport

from pinlater.protocol.guard import MAX_ELEMENTS, MalformedMessage

_SCALARS = frozenset({TType.BOOL, TType.BYTE, TType.DOUBLE, TType.I16, TType.I32, TType.I64})
_TEXTS = frozenset({TType.STRING, TType.BINARY})


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
        """Decode ``count`` structs of class ``kind``, which has neither structs nor containers."""
        read_leaf = self._leaf.read_struct
        return [read_leaf(kind()) for _ in range(count)]

    def _struct(self, kind: Any) -> Any:
        read = self._transport.read
        fields = kind.thrift_spec
        struct = kind()
        for _ in range(len(fields) + 1):  # bounds the decoding of repeated fields
            wire_type = read(1)[0]
            if not wire_type:
                return struct
            field = fields.get(int.from_bytes(read(2), "big", signed=True))
            if field is None or (wire_type != field[0] and not (wire_type == TType.STRING and field[0] in _TEXTS)):
                raise NeedsFullDecoding
            setattr(struct, field[1], self._value(field[0], field[2]))
        raise NeedsFullDecoding

    def _value(self, wire_type: int, spec: Any) -> Any:
        if wire_type in _SCALARS or wire_type in _TEXTS:
            return read_val(self._transport, wire_type, True, True)
        if wire_type == TType.STRUCT:
            return self._leaf.read_struct(spec()) if _is_leaf(spec) else self._struct(spec)
        if wire_type == TType.LIST:
            return self._list(*(spec if isinstance(spec, tuple) else (spec, None)))
        raise NeedsFullDecoding

    def _list(self, element_type: int, spec: Any) -> list[Any]:
        read = self._transport.read
        wire_type = read(1)[0]
        count = int.from_bytes(read(4), "big", signed=True)
        if wire_type != element_type:
            raise NeedsFullDecoding
        self._elements_left -= count  # of the whole message, in which a field may be repeated
        if count < 0 or self._elements_left < 0:
            raise MalformedMessage(
                f"a list of {count} elements; a message may have at most {MAX_ELEMENTS}, send smaller batches"
            )
        if element_type == TType.STRUCT and _is_leaf(spec):
            return self.read_leaves(spec, count)
        return [self._value(element_type, spec) for _ in range(count)]


def _is_leaf(kind: Any) -> bool:
    """Return whether a struct class contains no structs or containers; cached on the class."""
    leaf = kind.__dict__.get("_is_leaf")
    if leaf is None:
        leaf = all(field[0] in _SCALARS or field[0] in _TEXTS for field in kind.thrift_spec.values())
        kind._is_leaf = leaf  # noqa: SLF001 - ours
    return bool(leaf)
