"""Frames: a 4-byte big-endian length, then that many bytes (wire contract §1)."""

from __future__ import annotations

MAX_FRAME_BYTES = 16_384_000
"""Largest frame taken by default, Apache Thrift's own figure."""

HEADER_BYTES = 4


class FrameTooLarge(ValueError):
    """The announced length is negative or over the limit; the stream cannot be trusted any further."""


def with_header(payload: bytes) -> bytes:
    """Return ``payload`` as one frame."""
    return len(payload).to_bytes(HEADER_BYTES, "big") + payload


def frame_length(header: bytes | bytearray | memoryview, limit: int = MAX_FRAME_BYTES) -> int:
    """Read a frame's length.

    Raises:
        FrameTooLarge: it is negative or larger than ``limit`` bytes.
    """
    length = int.from_bytes(header, "big", signed=True)
    if not 0 <= length <= limit:
        raise FrameTooLarge(f"a frame of {length} bytes was announced; at most {limit} are taken")
    return length


class FrameSplitter:
    """Cuts a byte stream into frames, without keeping more than one unfinished frame."""

    def __init__(self, limit: int = MAX_FRAME_BYTES) -> None:
        self._limit = limit
        self._rest = bytearray()
        self._wanted = HEADER_BYTES

    @property
    def has_partial_frame(self) -> bool:
        """Whether a frame has begun and not ended."""
        return bool(self._rest)

    @property
    def announced(self) -> int:
        """Bytes of the frame that has begun and not ended, as far as that is known; 0 if none has."""
        return self._wanted if self._rest else 0

    def feed(self, data: bytes) -> list[bytes]:
        """Take the next bytes of the stream; return the payloads of the frames that are complete now.

        Raises:
            FrameTooLarge: see ``frame_length``; the splitter must not be fed any more.
        """
        rest = self._rest
        if not rest and len(data) >= HEADER_BYTES:  # the usual case: one read is one frame
            length = frame_length(data[:HEADER_BYTES], self._limit)
            if len(data) == length + HEADER_BYTES:
                return [data[HEADER_BYTES:]]
        rest += data
        if len(rest) < self._wanted:
            return []
        return self._cut()

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
