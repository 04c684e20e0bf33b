"""Standard output and error of jobs: text that cannot be written is dropped or escaped, and fails no job."""

from __future__ import annotations

import io
import sys
from typing import TextIO

from pinlater.logs import LossyText


def make_output_lossy() -> None:
    """Make stdout and stderr drop what cannot be written, and flush each line: a killed process loses its buffers."""
    sys.stdout = _lossy(sys.stdout)
    sys.stderr = _lossy(sys.stderr)


def _lossy(stream: TextIO) -> TextIO:
    if not isinstance(stream, io.TextIOWrapper):  # there is none, or it is a test's
        return stream
    errors = "backslashreplace" if stream.errors == "strict" else stream.errors
    return LossyText(stream.fileno(), stream.encoding, errors)
