"""Full-screen terminal output in plain ANSI, which adapts to the window size and reads keys."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self

from pinlater.cli.key_presses import key_names

_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
"""Switch to the alternate screen without a cursor, and back."""
_HOME, _CLEAR_LINE, _CLEAR_BELOW = "\x1b[H", "\x1b[K", "\x1b[J"


class Terminal:
    """Full-screen terminal; a context manager for use within an event loop.

    Args:
        pressed: called with each key, by its name; returns whether that ends the program.

    Attributes:
        ended: set when a key or ^C ends the program, or on SIGTERM.
        changed: set when a key was pressed or the window size changes.
    """

    def __init__(self, pressed: Callable[[str], bool]) -> None:
        self.ended = asyncio.Event()
        self.changed = asyncio.Event()
        self._press = pressed
        self._stack = contextlib.ExitStack()
        self._keyboard = _Keyboard()

    def __enter__(self) -> Self:
        self._stack.callback(self._leave)
        self._enter()
        self._stack.enter_context(self._keyboard.read(self._pressed))
        loop = asyncio.get_running_loop()
        for number, heard in (
            (signal.SIGINT, self.ended.set),
            (signal.SIGTERM, self.ended.set),
            (signal.SIGWINCH, self.changed.set),
            (signal.SIGTSTP, self._suspend),
            (signal.SIGCONT, self._enter),
        ):
            loop.add_signal_handler(number, heard)
            self._stack.callback(loop.remove_signal_handler, number)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    async def rest(self, seconds: float) -> None:
        """Wait until the time is over, the user quits, a key is pressed, or the window size changes."""
        waits = [asyncio.create_task(event.wait()) for event in (self.ended, self.changed)]
        try:
            await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        self.changed.clear()

    def show(self, lines: Sequence[str]) -> None:
        """Show as much of the lines as fits the window."""
        size = self.size
        shown = [line[: size.columns] + _CLEAR_LINE for line in lines[: max(size.lines, 1)]]
        self._write(_HOME + "\r\n".join(shown) + _CLEAR_BELOW)

    @property
    def size(self) -> os.terminal_size:
        """The current window size; COLUMNS and LINES may be out of date."""
        with contextlib.suppress(OSError):
            size = os.get_terminal_size(sys.stdout.fileno())
            if size.columns and size.lines:  # serial lines and containers report 0
                return size
        return shutil.get_terminal_size()

    def _pressed(self, keys: bytes) -> None:
        if not keys or any(key == "^c" or self._press(key) for key in key_names(keys)):
            self.ended.set()
        self.changed.set()

    def _enter(self) -> None:
        """Take over the screen and the keyboard; also after ``fg``, since the shell restores neither."""
        self._keyboard.take()
        self._write(_ENTER)
        self.changed.set()

    def _leave(self) -> None:
        self._write(_LEAVE)
        self._keyboard.give_back()

    def _suspend(self) -> None:
        """Stop on ^Z, with the terminal restored; the shell's SIGCONT then calls ``_enter``."""
        self._leave()
        os.kill(os.getpid(), signal.SIGSTOP)

    @staticmethod
    def _write(text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()


class _Keyboard:
    """Keys as they are pressed, without Enter; none if stdin is not a terminal."""

    def __init__(self) -> None:
        self._number = sys.stdin.fileno() if sys.stdin.isatty() else None
        self._before: Any = None

    def take(self) -> None:
        """Make the terminal deliver keys one by one, without echo."""
        if self._number is not None:
            import termios
            import tty

            self._before = termios.tcgetattr(self._number) if self._before is None else self._before
            tty.setcbreak(self._number)

    def give_back(self) -> None:
        """Restore the modes of the terminal."""
        if self._number is not None and self._before is not None:
            import termios

            termios.tcsetattr(self._number, termios.TCSADRAIN, self._before)

    @contextlib.contextmanager
    def read(self, pressed: Callable[[bytes], None]) -> Iterator[None]:
        """Call ``pressed`` with the bytes of pressed keys while the context is active."""
        if self._number is None:
            yield
            return
        number, loop = self._number, asyncio.get_running_loop()
        loop.add_reader(number, lambda: pressed(os.read(number, 100)))
        try:
            yield
        finally:
            loop.remove_reader(number)
