"""Print events as they happen and, on a terminal, the current state below them."""

import shutil
import time
from typing import TextIO

PLAIN_STATUS_SECONDS = 2.0


class Screen:
    """Prints lines with the seconds since the start.

    Args:
        stream: where to print; if it is not a terminal, the state is printed as a line every two seconds.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._is_live = stream.isatty()
        self._start = time.monotonic()
        self._live_lines = 0
        self._next_status = 0.0

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._start

    def say(self, text: str) -> None:
        """Print an event."""
        self.clear()
        print(f"{self.seconds:5.1f} s  {text}", file=self._stream, flush=True)

    def text(self, text: str = "") -> None:
        """Print a text without the time."""
        self.clear()
        print(text, file=self._stream, flush=True)

    def status(self, lines: list[str], short: str) -> None:
        """Show the state: update ``lines`` in place on a terminal, or print ``short`` every two seconds."""
        if self._is_live:
            self.clear()
            width = shutil.get_terminal_size().columns - 1
            print("\n".join(line[:width] for line in lines), file=self._stream, flush=True)
            self._live_lines = len(lines)
        elif self.seconds >= self._next_status:
            self._next_status = self.seconds + PLAIN_STATUS_SECONDS
            self.say(short)

    def clear(self) -> None:
        """Remove the state from the terminal."""
        if self._live_lines:
            print(f"\x1b[{self._live_lines}F\x1b[J", end="", file=self._stream, flush=True)
            self._live_lines = 0


def bar(part: int, whole: int, width: int = 30) -> str:
    """Return a progress bar such as ``####......``."""
    filled = width * part // max(whole, 1)
    return "#" * filled + "." * (width - filled)
