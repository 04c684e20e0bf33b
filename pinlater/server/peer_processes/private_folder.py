"""Create the folder that only the processes of one server share."""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pinlater.errors import ConfigError

log = logging.getLogger(__name__)

_PREFIX = "pinlater-server-"

_SHORT_FOLDERS = (Path("/tmp"), Path("/var/tmp"), Path("/dev/shm"))  # noqa: S108 - what is made there is private

_MOST_PARENT_BYTES = 65
"""A socket path may have 107 bytes; the names of the folder and of the socket need some of them."""

_NEW_SECONDS = 60.0
"""A folder younger than this may belong to a server that has not locked it yet."""


@contextmanager
def private_folder() -> Iterator[Path]:
    """Yield a new folder that only this user may enter; remove folders that killed servers have left.

    It stays locked while any process of the server runs, including children that the master forks later.
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


def restore_folder(folder: Path) -> None:
    """Make the folder again if something has removed it, such as a job that cleans ``/tmp``.

    Raises:
        ConfigError: that cannot be done.
    """
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        if folder.lstat().st_uid == os.geteuid():
            return
        raise ConfigError(f"{folder} was made by another user; restart the server") from None
    except OSError as error:
        raise ConfigError(f"{folder} was removed, and cannot be made again: {error.strerror}") from error
    log.warning("%s was removed, and made again; restart the server for its dashboard to work", folder)


def _parent() -> Path:
    """Return the folder for temporary files (TMPDIR), or another one if its path is too long for sockets.

    Raises:
        ConfigError: no folder can be used.
    """
    preferred = _temporary_folder()
    for folder in (*preferred, *_SHORT_FOLDERS):
        if len(os.fsencode(folder)) <= _MOST_PARENT_BYTES and os.access(folder, os.W_OK | os.X_OK):
            return folder
    needed = "the server needs a folder for its sockets"
    others = ", ".join(map(str, _SHORT_FOLDERS))
    if not preferred:
        raise ConfigError(f"{needed}: none of {others} is writable; make /tmp writable, or set TMPDIR to one that is")
    raise ConfigError(
        f"{needed}: the path {preferred[0]} is longer than {_MOST_PARENT_BYTES} bytes, "
        f"and {others} are not writable; set TMPDIR to a folder with a shorter path"
    )


def _temporary_folder() -> list[Path]:
    """Return the folder for temporary files; empty if there is none, as with a file system that is read-only."""
    try:
        return [Path(tempfile.gettempdir())]
    except FileNotFoundError:
        return []


def _remove_leftovers(parent: Path) -> None:
    for folder in parent.glob(f"{_PREFIX}*"):
        with suppress(OSError):  # owned by another user, in use, or already gone
            if time.time() - folder.lstat().st_mtime > _NEW_SECONDS:
                _remove_if_left(folder)


def _remove_if_left(folder: Path) -> None:
    """Remove the folder of a server that no longer runs.

    Raises:
        OSError: its server runs, or it belongs to another user.
    """
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if os.fstat(lock).st_uid == os.geteuid():
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder)
    finally:
        os.close(lock)
