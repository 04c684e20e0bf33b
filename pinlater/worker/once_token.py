"""Something that one of several processes is to say, not each of them."""

from __future__ import annotations

import os
from contextlib import suppress


class Once:
    """A token that one process can take; made by the master before it forks."""

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        os.set_blocking(self._writer, False)
        self.renew()

    def take(self) -> bool:
        """Return True to the first caller of all processes."""
        try:
            return bool(os.read(self._reader, 1))
        except BlockingIOError:
            return False

    def renew(self) -> None:
        """Put the token back."""
        self.take()
        with suppress(OSError):
            os.write(self._writer, b"1")
