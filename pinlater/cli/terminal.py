"""Full-screen terminal output in plain ANSI, which adapts to the window size and ends with q."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Self

_ENTER, _LEAVE = (
    "\x1b[?1049h\x1b[?25l",
    "\x1b[?25h\x1b[?1049l",
)  # switch to the alternate screen without a cursor, and back
_HOME, _CLEAR_LINE, _CLEAR_BELOW = "\x1b[H", "\x1b[K", "\x1b[J"
_QUIT_KEYS = frozenset(b"qQ\x03\x1b")


class Terminal:
    """Full-screen terminal; a context manager for use within an event loop.

    Attributes:
        ended: set when q, Escape or ^C is pressed, or on SIGTERM.
        resized: set when the window size changes.
    """

    def __init__(self) -> None:
        self.ended = asyncio.Event()
        self.resized = asyncio.Event()
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        self._stack.callback(lambda: self._write(_LEAVE))
        self._write(_ENTER)
        self._stack.enter_context(_keys(self._pressed))
        loop = asyncio.get_running_loop()
        for number, heard in (
            (signal.SIGINT, self.ended.set),
            (signal.SIGTERM, self.ended.set),
            (signal.SIGWINCH, self.resized.set),
        ):
            loop.add_signal_handler(number, heard)
            self._stack.callback(loop.remove_signal_handler, number)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    async def rest(self, seconds: float) -> None:
        """Wait until the time is over, the user quits, or the window size changes."""
        waits = [asyncio.create_task(event.wait()) for event in (self.ended, self.resized)]
        await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
        self.resized.clear()

    def show(self, lines: Sequence[str]) -> None:
        """Show as much of the lines as fits the window."""
        size = _window()
        shown = [line[: size.columns] + _CLEAR_LINE for line in lines[: max(size.lines, 1)]]
        self._write(_HOME + "\r\n".join(shown) + _CLEAR_BELOW)

    def _pressed(self, keys: bytes) -> None:
        if not keys or _QUIT_KEYS & set(keys):
            self.ended.set()

    @staticmethod
    def _write(text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()


def _window() -> os.terminal_size:
    """Return the current window size; COLUMNS and LINES may be out of date."""
    with contextlib.suppress(OSError):
        size = os.get_terminal_size(sys.stdout.fileno())
        if size.columns and size.lines:  # serial lines and containers report 0
            return size
    return shutil.get_terminal_size()


@contextlib.contextmanager
def _keys(pressed: Callable[[bytes], None]) -> Iterator[None]:
    """Call ``pressed`` with each key if stdin is a terminal; restore the terminal at the end."""
    if not sys.stdin.isatty():
        yield
        return
    import termios
    import tty

    keyboard = sys.stdin.fileno()
    before = termios.tcgetattr(keyboard)
    loop = asyncio.get_running_loop()
    tty.setcbreak(keyboard)
    loop.add_reader(keyboard, lambda: pressed(os.read(keyboard, 100)))
    try:
        yield
    finally:
        loop.remove_reader(keyboard)
        termios.tcsetattr(keyboard, termios.TCSADRAIN, before)
