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

from pinlater.errors import ConfigError

_PREFIX = "pinlater-server-"

_SHORT_FOLDERS = (Path("/tmp"), Path("/var/tmp"), Path("/dev/shm"))  # noqa: S108 - what is made there is private

_MOST_PARENT_BYTES = 65
"""The system takes 107 bytes for the name of a socket; some are the folder's own and the socket's."""

_NEW_SECONDS = 60.0
"""A folder may be this old before its server has locked it."""


@contextmanager
def private_folder() -> Iterator[Path]:
    """Lend a new folder, which only this user may enter; those that killed servers have left are removed.

    It is locked for as long as a process of the server lives, the children that its master forks from here on included.
    """
    parent = _parent()
    _remove_leftovers(parent)
    with tempfile.TemporaryDirectory(prefix=_PREFIX, dir=parent) as name:
        lock = os.open(name, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield Path(name)
        finally:
            os.close(lock)


def _parent() -> Path:
    """Return the folder for temporary files (TMPDIR), or another one if sockets in it had names that are too long.

    Raises:
        ConfigError: there is none.
    """
    preferred = Path(tempfile.gettempdir())
    for folder in (preferred, *_SHORT_FOLDERS):
        if len(os.fsencode(folder)) <= _MOST_PARENT_BYTES and os.access(folder, os.W_OK | os.X_OK):
            return folder
    raise ConfigError(
        f"the server needs a folder for its sockets: {preferred} has a name of more than {_MOST_PARENT_BYTES} bytes, "
        f"and {' and '.join(map(str, _SHORT_FOLDERS))} cannot be written; set TMPDIR to a shorter one"
    )


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
