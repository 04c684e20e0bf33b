"""The folder that the processes of one server share, and nobody else."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_PREFIX = "pinlater-server-"

_NEW_SECONDS = 60.0
"""A folder may be this old before its server has locked it."""


@contextmanager
def private_folder() -> Iterator[Path]:
    """Lend a new folder, which only this user may enter; those that killed servers have left are removed.

    It is locked for as long as a process of the server lives, the children that its master forks from here on included.
    """
    _remove_leftovers(Path(tempfile.gettempdir()))
    with tempfile.TemporaryDirectory(prefix=_PREFIX) as name:
        lock = os.open(name, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield Path(name)
        finally:
            os.close(lock)


def _remove_leftovers(parent: Path) -> None:
    for folder in parent.glob(f"{_PREFIX}*"):
        with suppress(OSError):  # somebody else's, in use, or gone by now
            if time.time() - folder.lstat().st_mtime > _NEW_SECONDS:
                _remove_if_left(folder)


def _remove_if_left(folder: Path) -> None:
    """Remove a folder.

    Raises:
        OSError: its server lives, or it is not ours.
    """
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if os.fstat(lock).st_uid == os.geteuid():
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder)
    finally:
        os.close(lock)
