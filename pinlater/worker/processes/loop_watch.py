"""Detects jobs that block the event loop, and logs where."""

from __future__ import annotations

import logging
import selectors
import sys
import traceback
from collections.abc import Callable
from time import monotonic
from types import FrameType

BLOCKED_SECONDS = 1.0
_MOST_FRAMES = 12

log = logging.getLogger(__name__)


class TimedSelector(selectors.DefaultSelector):
    """A selector that records since when its loop has been busy.

    Attributes:
        busy_since: monotonic seconds; 0 while the loop waits.
    """

    busy_since = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Wait as usual."""
        self.busy_since = 0.0
        found = super().select(timeout)
        self.busy_since = monotonic()
        return found


class LoopWatch:
    """Checks the loop from another thread.

    Args:
        selector: the selector of the loop.
        current_job: returns what the loop runs now.
    """

    def __init__(self, selector: TimedSelector, current_job: Callable[[], object]) -> None:
        self._selector = selector
        self._current_job = current_job
        self._reported_since = 0.0

    def check(self, thread: int) -> float:
        """Log once if the loop is blocked; return the seconds until the next check."""
        busy_since = self._selector.busy_since
        if not busy_since or busy_since == self._reported_since:
            return BLOCKED_SECONDS
        remaining = busy_since + BLOCKED_SECONDS - monotonic()
        if remaining > 0:
            return remaining
        self._reported_since = busy_since
        stack = _stack_of(sys._current_frames().get(thread))  # noqa: SLF001 - documented, for debugging
        log.warning(
            "the event loop and all its jobs have been blocked for %.1f s by %s:\n%s",
            BLOCKED_SECONDS - remaining,
            self._current_job(),
            stack,
        )
        return BLOCKED_SECONDS


def _stack_of(frame: FrameType | None) -> str:
    return "".join(traceback.format_stack(frame)[-_MOST_FRAMES:]).rstrip() if frame is not None else ""
