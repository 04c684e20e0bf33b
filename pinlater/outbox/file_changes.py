"""Hears of writes to the files of a folder from the kernel (inotify), instead of looking at them all the time."""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress
from pathlib import Path

_MODIFIED, _CREATED = 0x2, 0x100
_READ_BYTES = 64 * 1024


class FileChanges:
    """Tells that something was written into a folder, by whichever process of this machine.

    Args:
        folder: the folder.

    Attributes:
        file: descriptor that can be read when something was written; None if the system cannot tell.
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
        """Hear of nothing any more."""
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
