"""Regular expressions over bodies, bounded in length and time, off the event loop's back.

``regex`` lets go of the interpreter lock while it searches, and stops at a deadline, so that a pattern like
``(a+)+$`` costs its caller an error and nobody else anything.
"""

from __future__ import annotations

import time

import regex

from pinlater.errors import UnknownError
from pinlater.server.backends.pattern_size import MAX_SIZE, is_recursive, size_of

MAX_PATTERN_CHARACTERS = 1024


def check_pattern(pattern: str | None) -> None:
    """Return if ``pattern`` may be searched for.

    Raises:
        UnknownError: it is too long, too large when its repetitions are written out, or no regular expression.
    """
    if pattern:
        BodyPattern(pattern, 1.0)


class BodyPattern:
    """A pattern to be found anywhere in a body, case-sensitively; UTF-8, byte by byte.

    Args:
        pattern: the regular expression.
        seconds: for all searches together.
    """

    def __init__(self, pattern: str, seconds: float) -> None:
        if len(pattern) > MAX_PATTERN_CHARACTERS:
            raise UnknownError(f"the body pattern has more than {MAX_PATTERN_CHARACTERS} characters")
        if is_recursive(pattern):
            raise UnknownError("the body pattern calls itself ((?R), (?1), (?&name)), which is not taken")
        if size_of(pattern) > MAX_SIZE:
            raise UnknownError(
                f"the body pattern repeats too much: with its repetitions written out, it has more than {MAX_SIZE} "
                "characters; use smaller numbers in {}, above all behind groups"
            )
        try:
            self._search = regex.compile(pattern.encode()).search
        except (regex.error, UnicodeEncodeError, OverflowError, RecursionError) as error:
            raise UnknownError(f"the body pattern is no regular expression: {error}") from error
        self._seconds = seconds
        self._deadline = time.monotonic() + seconds

    def matches(self, body: bytes) -> bool:
        """Whether the pattern occurs in ``body``.

        Raises:
            UnknownError: the time is up.
        """
        left = self._deadline - time.monotonic()
        try:
            if left > 0:
                return self._search(body, timeout=left, concurrent=True) is not None
        except TimeoutError:
            pass
        raise UnknownError(
            f"searching bodies took longer than {self._seconds:g} s; use a simpler pattern, or fewer jobs at once "
            "(one priority, a smaller limit)"
        )
