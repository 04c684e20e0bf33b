"""Split a byte stream into frames: a 4-byte big-endian length, then that many bytes (wire contract §1)."""

from __future__ import annotations

MAX_FRAME_BYTES = 16_384_000
"""Default limit of a frame, as in Apache Thrift."""

HEADER_BYTES = 4


class FrameTooLarge(ValueError):
    """The length of a frame is negative or above the limit; the rest of the stream cannot be trusted."""


def with_header(payload: bytes) -> bytes:
    """Return a payload as a frame, with its length in front."""
    return len(payload).to_bytes(HEADER_BYTES, "big") + payload


def frame_length(header: bytes | bytearray | memoryview, limit: int = MAX_FRAME_BYTES) -> int:
    """Decode the length of a frame.

    Raises:
        FrameTooLarge: it is negative or above ``limit``.
    """
    length = int.from_bytes(header, "big", signed=True)
    if not 0 <= length <= limit:
        raise FrameTooLarge(f"a frame of {length} bytes was announced; at most {limit} are allowed")
    return length


class FrameSplitter:
    """Splits a byte stream into frames, buffering at most one incomplete frame.

    Attributes:
        announced: known size of the partially received frame in bytes; 0 if there is none.
    """

    def __init__(self, limit: int = MAX_FRAME_BYTES) -> None:
        self.announced = 0
        self._limit = limit
        self._rest = bytearray()
        self._wanted = HEADER_BYTES

    def feed(self, data: bytes) -> list[bytes]:
        """Add bytes of the stream; return the payloads of the frames that they complete.

        Raises:
            FrameTooLarge: see ``frame_length``; the splitter cannot be used any more.
        """
        rest = self._rest
        if not rest and int.from_bytes(data[:HEADER_BYTES], "big") == len(data) - HEADER_BYTES <= self._limit:
            return [data[HEADER_BYTES:]]  # the usual case: one read is one frame
        rest += data
        frames = self._cut() if len(rest) >= self._wanted else []
        self.announced = self._wanted if rest else 0
        return frames

    def _cut(self) -> list[bytes]:
        frames: list[bytes] = []
        position = 0
        with memoryview(self._rest) as view:
            while True:
                self._wanted = HEADER_BYTES
                if len(view) - position < HEADER_BYTES:
                    break
                body = position + HEADER_BYTES
                length = frame_length(view[position:body], self._limit)
                if len(view) - body < length:
                    self._wanted = HEADER_BYTES + length
                    break
                frames.append(bytes(view[body : body + length]))
                position = body + length
        del self._rest[:position]
        return frames
