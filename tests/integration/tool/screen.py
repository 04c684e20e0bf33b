"""Programs in a terminal."""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
from pathlib import Path

from tests.support.server import wait_for

# Top


class Screen:
    """A program in a terminal."""

    def __init__(self, command, environment, rows=24, columns=100):
        self._shown = b""
        self._terminal, inside = pty.openpty()
        self.resize(rows, columns)
        self.modes = termios.tcgetattr(self._terminal)
        self._process = subprocess.Popen(
            command, stdin=inside, stdout=inside, stderr=inside, env=environment, start_new_session=True
        )
        self._inside = inside

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait(20)
        os.close(self._terminal)
        os.close(self._inside)

    def resize(self, rows, columns):
        fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def text(self):
        while select.select([self._terminal], [], [], 0)[0]:
            self._shown += os.read(self._terminal, 100_000)
        return self._shown.decode(errors="replace")

    def frame(self):
        """Return what was shown last, as lines."""
        lines = self.text().split("\x1b[H")[-1].split("\r\n")
        return [re.sub(r"\x1b\[[?0-9;]*[A-Za-z]", "", line).rstrip("\r") for line in lines]

    def press(self, keys):
        os.write(self._terminal, keys)

    def signal(self, number):
        self._process.send_signal(number)

    def is_stopped(self):
        return Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"

    def status(self):
        wait_for(lambda: self.text() is not None and self._process.poll() is not None)
        return self._process.returncode

    def modes_now(self):
        return termios.tcgetattr(self._terminal)
