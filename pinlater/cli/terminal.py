"""A terminal that shows one page again and again, in plain ANSI: it follows the window's size, and gives way to q."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Self

_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"  # another screen without a cursor, and back
_HOME, _CLEAR_LINE, _CLEAR_BELOW = "\x1b[H", "\x1b[K", "\x1b[J"
_QUIT_KEYS = frozenset(b"qQ\x03\x1b")


class Terminal:
    """Use it as a context manager, within an event loop.

    Attributes:
        ended: is set when q, Escape or ^C is pressed, or TERM comes.
        resized: is set when the window has another size.
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
        """Wait; no longer than until the user wants to leave, or the window has another size."""
        waits = [asyncio.create_task(event.wait()) for event in (self.ended, self.resized)]
        await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
        self.resized.clear()

    def show(self, lines: Sequence[str]) -> None:
        """Show as much of the lines as the window has room for."""
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
    """Return the size of the window as it is now; what COLUMNS and LINES say was true when the shell set them."""
    with contextlib.suppress(OSError):
        size = os.get_terminal_size(sys.stdout.fileno())
        if size.columns and size.lines:  # a serial line, or a container, says 0
            return size
    return shutil.get_terminal_size()


@contextlib.contextmanager
def _keys(pressed: Callable[[bytes], None]) -> Iterator[None]:
    """Hear each key as it is pressed, if there is a keyboard; the shell finds its terminal as it was."""
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
