"""Check that a Thrift message is safe to decode, if the fast reader does not handle it.

thriftpy2's decoder trusts the element count of a container. If elements take space, it stops at the end of the frame.
But elements without a size (void, stop, unknown types) let a message of sixty bytes keep it busy for minutes, and
millions of one-byte structs exhaust the memory. So a message with anything unexpected is checked here first.
"""

from __future__ import annotations

from typing import Any

MAX_DEPTH = 64
"""Levels of structs and containers, as in Apache Thrift and thriftpy2."""

MAX_ELEMENTS = 250_000
"""Maximum number of elements in all containers of a message together; this many structs still fit into memory."""

_FIXED_WIDTHS = {2: 1, 3: 1, 4: 8, 6: 2, 8: 4, 10: 8}
_STRING, _STRUCT, _MAP, _SET, _LIST = 11, 12, 13, 14, 15
_BINARY_ALIAS = 18
_LEAST_WIDTHS = {**_FIXED_WIDTHS, _STRING: 4, _BINARY_ALIAS: 4, _STRUCT: 1, _MAP: 6, _SET: 5, _LIST: 5}


class MalformedMessage(ValueError):
    """The bytes are not a valid Thrift message, or could exhaust the decoder."""


class TooManyElements(MalformedMessage):
    """The containers of the message have too many elements."""


class WrongElements(MalformedMessage):
    """A list has elements of another type. thriftpy2 would take it as empty, and the server confirm what it ignored."""


def check_message(frame: bytes, most_elements: int = MAX_ELEMENTS, kind: Any = None) -> None:
    """Refuse a message that decoding could turn into unbounded work or memory, or would misread.

    Args:
        frame: the message.
        most_elements: limit for all its containers together.
        kind: a class of ``messages`` as which it is decoded; None: it is not.

    Raises:
        TooManyElements: its containers have more elements.
        WrongElements: it is safe, but a list has elements of another type than that of ``kind``.
        MalformedMessage: it is damaged or unsafe.
    """
    _MessageChecker(frame, most_elements).check(kind)


class _MessageChecker:
    """Walks over one message: holds the position and the remaining element count."""

    def __init__(self, frame: bytes, most_elements: int) -> None:
        self._frame = frame
        self._end = len(frame)
        self._position = 0
        self._elements_left = most_elements
        self._wrong = ""

    def check(self, kind: Any) -> None:
        first = self._i32()
        if first < 0:  # the strict format: version, name, sequence id
            self._skip(self._i32())
        else:  # the old format: name, type, sequence id
            self._skip(first + 1)
        self._skip(4)
        self._struct(MAX_DEPTH, kind)
        if self._wrong:
            raise WrongElements(self._wrong)

    def _skip(self, count: int) -> None:
        if count < 0 or count > self._end - self._position:
            raise MalformedMessage(f"a length of {count} exceeds the message")
        self._position += count

    def _i32(self) -> int:
        start = self._position
        self._skip(4)
        return int.from_bytes(self._frame[start : start + 4], "big", signed=True)

    def _byte(self) -> int:
        self._skip(1)
        return self._frame[self._position - 1]

    def _struct(self, depth: int, spec: Any) -> None:
        if depth <= 0:
            raise MalformedMessage(f"nested deeper than {MAX_DEPTH} levels")
        widths = _FIXED_WIDTHS
        while kind := self._byte():
            width = widths.get(kind)
            if width is not None:
                self._skip(2 + width)
            elif kind in {_STRING, _BINARY_ALIAS}:
                self._skip(2)
                self._skip(self._i32())
            else:
                number = self._byte() << 8 | self._byte()
                field = None if spec is None else spec.thrift_spec.get(number)
                self._value(kind, depth - 1, field[2] if field is not None and field[0] == kind else None)

    def _value(self, kind: int, depth: int, spec: Any = None) -> None:
        """Check a value; ``spec`` is what the contract says of the content of a struct or list, if it knows it."""
        if kind == _STRUCT:
            self._struct(depth, spec)
        elif kind == _MAP:
            self._elements((self._byte(), self._byte()), depth)
        elif kind == _LIST:
            self._elements((self._byte(),), depth, spec)
        elif kind == _SET:
            self._elements((self._byte(),), depth)
        elif kind in {_STRING, _BINARY_ALIAS}:
            self._skip(self._i32())
        elif kind in _FIXED_WIDTHS:
            self._skip(_FIXED_WIDTHS[kind])
        else:
            raise MalformedMessage(f"unknown Thrift type {kind}")

    def _elements(self, kinds: tuple[int, ...], depth: int, spec: Any = None) -> None:
        if depth <= 0:
            raise MalformedMessage(f"nested deeper than {MAX_DEPTH} levels")
        count = self._i32()
        if count == 0:  # some encoders set the element type of an empty container to void
            return
        least = sum(_LEAST_WIDTHS.get(kind, 0) for kind in kinds)
        if not all(kind in _LEAST_WIDTHS for kind in kinds) or count < 0 or count * least > self._end - self._position:
            raise MalformedMessage(f"a container of {count} elements of type {kinds} does not fit into the message")
        self._elements_left -= count * len(kinds)
        if self._elements_left < 0:
            raise TooManyElements(
                f"a call may have at most {MAX_ELEMENTS} jobs, acks or other elements; split it into several calls"
            )
        expected, content = spec if isinstance(spec, tuple) else (spec, None)
        if expected not in {None, *kinds} and {expected, *kinds} != {_STRING, _BINARY_ALIAS}:
            self._wrong = f"a list has elements of type {kinds[0]}; the contract says {expected}"
            content = None
        if all(kind in _FIXED_WIDTHS for kind in kinds):
            self._skip(count * least)
            return
        for _ in range(count):
            for kind in kinds:
                self._value(kind, depth - 1, content)
