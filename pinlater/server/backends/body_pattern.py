"""Regular expressions over bodies: bounded in memory and time, whatever the pattern.

RE2 compiles within the memory it is given, searches in time linear in the length of the body, and releases the
interpreter lock during both. Syntax that it does not support (look-ahead, references to groups) is refused.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import re2

from pinlater.errors import UnknownError

MAX_PATTERN_CHARACTERS = 1024

_MEMORY_BYTES = 1 << 18
"""Memory for a compiled pattern. With this, no pattern of the length above takes a second to compile."""

_STEPS = 500_000_000
"""Most instructions of the program times bytes of one body: each step takes up to 20 ns, and no search can be stopped.
"""

_LEAST_INSTRUCTIONS = 64
"""Programs with up to this many instructions may search a body of any size."""

_UNICODE_CLASS = re.compile(r"(?<!\\)(?:\\\\)*\\[pP]")
"""Bodies are searched byte by byte, so these classes mean nothing; parsing each costs RE2 milliseconds."""

_ODD_NUMBER = re.compile(r"(?<!\\)(?:\\\\)*\{(?:\d+,)?(?:0\d|\d{5})", re.ASCII)
"""RE2 would take braces with such a number for literal text, and find nothing."""

_SYNTAX = "patterns are those of RE2: no look-ahead or look-behind, no references to groups, at most 1000 in {}"


def check_pattern(pattern: str) -> None:
    """Check that ``pattern`` may be searched for. This may take tenths of a second: call it in a thread.

    Raises:
        UnknownError: it is too long, too large when its repetitions are written out, or not valid in RE2.
    """
    BodyPattern(pattern, 1.0)


class BodyPattern:
    """A pattern to find anywhere in a body, case-sensitively, as UTF-8 byte by byte.

    Create and use it in a thread: compiling may take tenths of a second.

    Args:
        pattern: the regular expression.
        seconds: time limit for all searches together.
    """

    def __init__(self, pattern: str, seconds: float) -> None:
        self._seconds = seconds
        self._deadline = time.monotonic() + seconds
        self._compiled = _compiled(pattern)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stop the clock of the time limit within the block."""
        began = time.monotonic()
        try:
            yield
        finally:
            self._deadline += time.monotonic() - began

    def matches(self, body: bytes) -> bool:
        """Return whether the pattern occurs in ``body``.

        Raises:
            UnknownError: the time is up, or the pattern is too large for a body of this size.
        """
        if self.is_late:
            raise UnknownError(
                f"searching bodies took longer than {self._seconds:g} s; use a simpler pattern, or fewer jobs at once "
                "(one priority, a smaller limit)"
            )
        return self.occurs_in(body)

    @property
    def is_late(self) -> bool:
        """Whether the time is up."""
        return time.monotonic() >= self._deadline

    def occurs_in(self, body: bytes) -> bool:
        """Return whether the pattern occurs in ``body``, even if the time is up.

        Raises:
            UnknownError: the pattern is too large for a body of this size.
        """
        most = max(_STEPS // max(len(body), 1), _LEAST_INSTRUCTIONS)
        if self._compiled.programsize > most:
            raise UnknownError(
                f"the body pattern is too large for a body of {len(body)} bytes: it has {self._compiled.programsize} "
                f"instructions where {most} are allowed; use smaller numbers in {{}}"
            )
        return self._compiled.search(body) is not None


def _compiled(pattern: str) -> Any:
    if len(pattern) > MAX_PATTERN_CHARACTERS:
        raise UnknownError(f"the body pattern has more than {MAX_PATTERN_CHARACTERS} characters")
    if _UNICODE_CLASS.search(pattern):
        raise UnknownError(r"the body pattern has \p or \P: bodies are searched byte by byte; write the characters out")
    if _ODD_NUMBER.search(pattern):
        raise UnknownError("the body pattern repeats too much: write numbers up to 1000 in {}, without leading zeros")
    try:
        return re2.compile(pattern.encode(), _options())
    except (re2.error, UnicodeEncodeError) as error:
        raise UnknownError(f"the body pattern is refused: {_said(error)}; {_SYNTAX}") from error
    finally:
        re2.purge()  # it caches the last 128 patterns, each with its memory


def _options() -> re2.Options:
    options = re2.Options()
    options.max_mem = _MEMORY_BYTES
    options.encoding = re2.Options.Encoding.LATIN1  # a character is a byte
    options.never_capture = True
    options.log_errors = False
    return options


def _said(error: Exception) -> str:
    [reason, *_] = error.args
    return reason.decode(errors="replace") if isinstance(reason, bytes) else str(error)
