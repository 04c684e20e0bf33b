"""What jobs print, and the log: if it cannot be written, it is lost, and no job with it."""

from __future__ import annotations

import io
import sys
from typing import Any, TextIO


class _Forgiving(io.FileIO):
    """A file that takes everything: its disk may be full, or whoever reads the pipe may have gone.

    Otherwise a job that has done its work and prints a line about it fails, and does the work again.
    """

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError:
            return memoryview(data).nbytes


def show_output() -> None:
    """Show what jobs print when they print it, also in a pipe or a file: a process that is killed loses its buffers."""
    sys.stdout = _forgiving(sys.stdout)
    sys.stderr = _forgiving(sys.stderr)


def _forgiving(stream: TextIO) -> TextIO:
    if not isinstance(stream, io.TextIOWrapper):  # none at all, or a test's
        return stream
    raw = _Forgiving(stream.fileno(), "w", closefd=False)
    return io.TextIOWrapper(io.BufferedWriter(raw), encoding=stream.encoding, errors=stream.errors, line_buffering=True)
