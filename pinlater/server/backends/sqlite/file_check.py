"""Check of the store's files: what is written to a deleted file is lost when the server ends."""

from __future__ import annotations

import os
from pathlib import Path

_HEADER_BYTES = 32
_NOT_A_PAGE_SIZE = 1
"""Stands for 65536, which does not fit into its field."""

_ADVICE = (
    "jobs that are stored now would be lost; stop the server, bring the file back (if it is a backup, first remove the "
    "-wal and -shm files, which would damage it), and start the server again"
)


class FileCheck:
    """Compares the file at a path with the one that was opened there.

    Its file descriptor stays open until ``close``: closing any descriptor of a file drops all locks that this process
    has on it, including SQLite's.

    Args:
        path: the database file; it is created when missing, for this user alone.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._log_path = path.with_name(path.name + "-wal")
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._size = 0
        self._log_inode: int | None = None
        self._is_truncated = False

    def look(self) -> str | None:
        """Return what is wrong with the files; None if they are intact."""
        opened = os.fstat(self._descriptor)
        self._is_truncated |= opened.st_size < self._size and opened.st_size < self._expected_size()
        self._size = opened.st_size
        if self._inode(self._path) != opened.st_ino:
            return f"the store file {self._path} was deleted or replaced while the server uses it; {_ADVICE}"
        if self._is_truncated:
            return f"the store file {self._path} was truncated while the server uses it; {_ADVICE}"
        log_inode = self._inode(self._log_path)
        self._log_inode = self._log_inode or log_inode  # SQLite creates the log with the first change
        if log_inode != self._log_inode:
            return f"{self._log_path} was deleted or replaced while the server uses it; {_ADVICE}"
        return None

    def close(self) -> None:
        """Close the file descriptor of the database file."""
        os.close(self._descriptor)

    def _expected_size(self) -> int:
        """Return the size of the database according to the file's header, which VACUUM updates."""
        header = os.pread(self._descriptor, _HEADER_BYTES, 0)
        if len(header) < _HEADER_BYTES:
            return 1 << 62
        page_bytes, pages = int.from_bytes(header[16:18], "big"), int.from_bytes(header[28:32], "big")
        return pages * (65536 if page_bytes == _NOT_A_PAGE_SIZE else page_bytes)

    @staticmethod
    def _inode(path: Path) -> int | None:
        try:
            return path.stat().st_ino
        except OSError:
            return None
