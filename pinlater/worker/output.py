"""Standard output and error of jobs: text that cannot be written is dropped and fails no job."""

from __future__ import annotations

import io
import sys
from typing import Any, TextIO


class _LossyFile(io.FileIO):
    """A file whose writes never fail, even if the disk is full or the pipe is closed.

    Otherwise a job that prints a line after its work would fail and do the work again.
    """

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError:
            return memoryview(data).nbytes


def make_output_lossy() -> None:
    """Make stdout and stderr drop what cannot be written, and flush each line: a killed process loses its buffers."""
    sys.stdout = _lossy(sys.stdout)
    sys.stderr = _lossy(sys.stderr)


def _lossy(stream: TextIO) -> TextIO:
    if not isinstance(stream, io.TextIOWrapper):  # there is none, or it is a test's
        return stream
    raw = _LossyFile(stream.fileno(), "w", closefd=False)
    return io.TextIOWrapper(io.BufferedWriter(raw), encoding=stream.encoding, errors=stream.errors, line_buffering=True)
