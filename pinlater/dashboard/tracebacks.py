"""Tracebacks for display: the frames of the user's code first, those of libraries folded."""

from __future__ import annotations

import re
import textwrap
from typing import NamedTuple

_FRAME = re.compile(r'^  File "(?P<path>[^"]*)", line \d+.*$', re.MULTILINE)
_FOREIGN = re.compile(
    r"[/\\](?:site|dist)-packages[/\\]|[/\\]lib(?:64)?[/\\]python\d|^<frozen |"
    r"[/\\]pinlater[/\\](?:jobs|worker|client|model)[/\\]"
)
"""Paths of installed packages, of Python and of PinLater."""


class TracebackView(NamedTuple):
    """A traceback prepared for display.

    Attributes:
        own: frames of the user's code; all frames if there are none.
        whole: all frames; empty if ``own`` already has them all.
        folded: number of frames that only ``whole`` has.
    """

    own: str
    whole: str = ""
    folded: int = 0


def traceback_view(text: str) -> TracebackView:
    """Prepare a traceback, as it is in a job's status, for display."""
    starts = [match.start() for match in _FRAME.finditer(text)]
    if not starts:
        return TracebackView(text)
    frames = [text[start:end].rstrip("\n") for start, end in zip(starts, [*starts[1:], len(text)], strict=True)]
    own = [frame for frame in frames if not _is_foreign(frame)]
    if not own or len(own) == len(frames):
        return TracebackView(textwrap.dedent(text))
    return TracebackView(textwrap.dedent("\n".join(own)), textwrap.dedent(text), len(frames) - len(own))


def _is_foreign(frame: str) -> bool:
    match = _FRAME.match(frame)
    return match is not None and _FOREIGN.search(match["path"]) is not None
