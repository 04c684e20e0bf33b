"""Preallocation of SQLite's write-ahead log, so that its syncs need not write a new file size while it fills up."""

from __future__ import annotations

import contextlib
import logging
import os
from pathlib import Path

log = logging.getLogger(__name__)

PREALLOCATED_BYTES = 18 << 20
"""A little more than the log's size when it is copied to the database (``CHECKPOINT_PAGES``) and begun again."""

_FREE_SPACE_FACTOR = 16
"""The free space must be this many times what is still to be preallocated; the rest of the disk is for jobs."""

_CHUNK = bytes(1 << 20)


def preallocate(log_file: Path) -> bool:
    """Extend the log with zeros to ``PREALLOCATED_BYTES``; return whether it has that size now.

    SQLite takes zeros for the end of the log, since the checksum of a frame of zeros is wrong. The zeros have to be
    written: space that is only reserved costs a change of metadata when it is first used. No other connection may write
    meanwhile. Closing the file is safe: SQLite has no locks on the log, only on the files beside it.
    """
    try:
        descriptor = os.open(log_file, os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        return _not_done(str(error))
    try:
        return _extend(descriptor)
    finally:
        os.close(descriptor)


def _extend(descriptor: int) -> bool:
    size = os.fstat(descriptor).st_size
    missing = PREALLOCATED_BYTES - size
    if missing <= 0:
        return True
    disk = os.fstatvfs(descriptor)
    if disk.f_bavail * disk.f_frsize < _FREE_SPACE_FACTOR * missing:
        return _not_done("little space is left on the disk")
    try:
        _write_zeros(descriptor, size)
        os.fsync(descriptor)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.ftruncate(descriptor, size)  # a part of the zeros is of no use
        return _not_done(str(error))
    return True


def _write_zeros(descriptor: int, position: int) -> None:
    while position < PREALLOCATED_BYTES:
        position += os.pwrite(descriptor, _CHUNK[: PREALLOCATED_BYTES - position], position)


def _not_done(reason: str) -> bool:
    log.warning("the write-ahead log is not preallocated (%s); commits are slower until it has grown", reason)
    return False
