"""Lets the kernel report writes to the files of a folder (inotify), instead of polling them."""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress
from pathlib import Path

_MODIFIED, _CREATED = 0x2, 0x100
_READ_BYTES = 64 * 1024


class FileChanges:
    """Tells whether any process of this machine has written to a file in a folder.

    Args:
        folder: the folder.

    Attributes:
        file: file descriptor that is readable after a write; None if the system cannot report writes.
    """

    def __init__(self, folder: Path) -> None:
        self.file = _watch(folder)

    def take(self) -> bool:
        """Return whether something was written since the last call."""
        has_any = False
        with suppress(BlockingIOError):
            while self.file is not None and os.read(self.file, _READ_BYTES):
                has_any = True
        return has_any

    def close(self) -> None:
        """Stop watching."""
        if self.file is not None:
            os.close(self.file)
            self.file = None


def _watch(folder: Path) -> int | None:
    system = ctypes.CDLL(None, use_errno=True)
    try:
        file = int(system.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
    except AttributeError:  # not Linux
        return None
    if file < 0:
        return None
    if system.inotify_add_watch(file, os.fsencode(folder), _MODIFIED | _CREATED) < 0:
        os.close(file)
        return None
    return file
