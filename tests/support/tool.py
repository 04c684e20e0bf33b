"""The command line ``pinlater`` called as a function: a program of its own spends most of its time on imports.

What only a program can show, such as signals, pipes and terminals, is tested with programs.
"""

import contextlib
import io
import os
import sys
from unittest import mock

from pinlater.cli.program import run

TOOL = [sys.executable, "-m", "pinlater.cli"]
"""The command line as a program of its own."""


def run_tool(*words, data=b"", **settings):
    """Run a command without a terminal; return exit status, stdout and stderr.

    Args:
        words: of the command line.
        data: what it finds in stdin.
        settings: environment, beside that of the tests without its ``PINLATER_`` variables.
    """
    kept = {key: value for key, value in os.environ.items() if not key.startswith("PINLATER_")}
    out, err = _stream(), _stream()
    with (
        mock.patch.dict(os.environ, kept | settings, clear=True),
        mock.patch.object(sys, "stdin", _stream(data)),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        status = run(words)
    return status, out.buffer.getvalue().decode(), err.buffer.getvalue().decode()


def _stream(data=b""):
    return io.TextIOWrapper(io.BytesIO(data), write_through=True)
