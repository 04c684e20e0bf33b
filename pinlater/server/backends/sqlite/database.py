"""The database file: opened by one server at a time, migrated to the present schema, tuned for durable commits."""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pinlater.errors import ConfigError
from pinlater.server.backends.records import StoreSize
from pinlater.server.backends.sqlite.file_check import FileCheck
from pinlater.server.backends.sqlite.file_system import file_system_of
from pinlater.server.backends.sqlite.preallocation import preallocate
from pinlater.server.backends.sqlite.queries import schema
from pinlater.server.backends.unavailable import StoreUnavailable

log = logging.getLogger(__name__)

SCHEMA_VERSION = 16

CHECKPOINT_PAGES = 4000
"""The log is copied to the database when it has this many pages, 16 MB: pages that change often are copied once."""

BUSY_TIMEOUT_MS = 30_000
"""How long a connection waits for another program's lock."""

_LOCK_PATIENCE_SECONDS = 5.0
_DISK_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EMFILE, errno.ENFILE})
_SQLITE_DISK_ERRORS = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_BUSY})
_ADVICE = {
    sqlite3.SQLITE_CORRUPT: "remove it with the -wal and -shm files, which would damage a backup, and restore one, or ",
    sqlite3.SQLITE_NOTADB: "if it was a store, restore a backup instead of it and of its -wal and -shm files, or ",
}
_NETWORK_FILE_SYSTEMS = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "fuse.sshfs", "glusterfs"}
)


class SqliteDatabase:
    """The open database file and its lock; opens its connections.

    Attributes:
        path: path of the database file.
        files: checks whether the files are still there.

    Args:
        path: the database file; it is created when missing.
        synchronous: ``FULL`` (an answered call survives a power cut) or ``NORMAL`` (it survives a crash of
            the program, but the last moments before a power cut may be lost).

    Raises:
        ConfigError: the file cannot be used: held by another server, on a network file system, not writable,
            not a PinLater store, damaged, or made by a newer version.
        StoreUnavailable: the file cannot be used at present, for instance because its disk is full.
    """

    def __init__(self, path: Path, synchronous: str = "FULL") -> None:
        self.path = path
        self._log_path = path.with_name(path.name + "-wal")
        self._synchronous = synchronous
        with opening(path):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _refuse_network_file_system(path)
            self._lock = _lock(path)
            try:
                # Other users may not read bodies. SQLite creates the files beside it with the mode of the file.
                self.files = FileCheck(path)
            except BaseException:
                os.close(self._lock)
                raise
            try:
                self._migrate()
            except BaseException:
                self.close()
                raise

    def writer(self) -> sqlite3.Connection:
        """Open the connection that writes; there must be only one."""
        connection = self._connect(str(self.path))
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute(f"PRAGMA synchronous = {self._synchronous}")
            connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
            connection.execute("PRAGMA cache_size = -65536")
            if self._synchronous == "FULL":
                connection.execute("PRAGMA user_version").fetchone()  # opens the log
                preallocate(self._log_path)
        except BaseException:
            connection.close()
            raise
        return connection

    def reader(self) -> sqlite3.Connection:
        """Open a connection that reads what is committed, and cannot write."""
        connection = self._connect(f"{self.path.absolute().as_uri()}?mode=ro", is_uri=True)
        connection.execute("PRAGMA query_only = 1")
        return connection

    def size(self) -> StoreSize:
        """Return the size of the files, and the free space of their disk for this user; call it in a thread.

        Preallocated space counts as used.
        """
        files = (self.path, self._log_path)
        disk = os.statvfs(self.path.parent)
        return StoreSize(sum(_bytes_of(file) for file in files), disk.f_bavail * disk.f_frsize)

    def close(self) -> None:
        """Release the lock, so that another server may open the file."""
        self.files.close()
        os.close(self._lock)

    @staticmethod
    def _connect(name: str, *, is_uri: bool = False) -> sqlite3.Connection:
        connection = sqlite3.connect(
            name,
            timeout=BUSY_TIMEOUT_MS / 1000,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=300,
            uri=is_uri,
        )
        connection.execute("PRAGMA temp_store = MEMORY")
        return connection

    def _migrate(self) -> None:
        connection = self._connect(str(self.path))  # changes nothing yet: it may be a file of another program
        try:
            version = int(connection.execute("PRAGMA user_version").fetchone()[0])
            if version > SCHEMA_VERSION:
                raise ConfigError(
                    f"the store {self.path} has version {version}, this program knows {SCHEMA_VERSION}; "
                    "install a newer version of PinLater, or restore a backup of the older one"
                )
            if version == 0 and connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                raise ConfigError(f"{self.path} is a database of something else; choose another place with --data-dir")
            if version < SCHEMA_VERSION:
                if version:
                    log.info("the store %s is upgraded from version %d to %d", self.path, version, SCHEMA_VERSION)
                # One transaction for all steps: each would wait for the disk several times.
                steps = "\n".join(map(schema, range(version + 1, SCHEMA_VERSION + 1)))
                connection.executescript(f"BEGIN IMMEDIATE;\n{steps}\nPRAGMA user_version = {SCHEMA_VERSION};\nCOMMIT;")
        finally:
            connection.close()


@contextmanager
def opening(path: Path) -> Iterator[None]:
    """Translate errors of the block, which opens the file, into errors that say what to do.

    Raises:
        ConfigError, StoreUnavailable: see ``SqliteDatabase``.
    """
    try:
        yield
    except (OSError, sqlite3.Error) as error:
        code = 0 if isinstance(error, OSError) else getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in _SQLITE_DISK_ERRORS or (isinstance(error, OSError) and _is_of_the_disk(error, path)):
            raise StoreUnavailable(
                f"the store {path} cannot be used at present: {error}; its disk may be full or "
                "broken, nothing was changed"
            ) from error
        raise ConfigError(
            f"the store {path} cannot be used: {error}; {_ADVICE.get(code, '')}choose another place with --data-dir"
        ) from error


def _is_of_the_disk(error: OSError, path: Path) -> bool:
    # The kernel makes a failing file system read-only. A new store in a read-only place is a wrong setting.
    return error.errno in _DISK_ERRORS or (error.errno == errno.EROFS and path.exists())


def _lock(path: Path) -> int:
    """Lock the file beside the database; the kernel releases the lock when this process ends, however it ends."""
    descriptor = os.open(path.with_name(path.name + ".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    if not _is_locked(descriptor) and not _is_locked_in_time(descriptor, path):
        holder = _holder(descriptor)
        os.close(descriptor)
        raise ConfigError(
            f"the store {path} is held by another pinlater-server (process {holder}); "
            "stop that one, or choose another place with --data-dir"
        )
    with suppress(OSError):  # the disk may be full, and the number is only for people
        os.truncate(descriptor, os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0))
    return descriptor


def _is_locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_locked_in_time(descriptor: int, path: Path) -> bool:
    """Wait a few seconds for the lock: a server that was just killed may still be exiting."""
    seconds = _LOCK_PATIENCE_SECONDS
    log.warning("process %s holds the store %s; waiting for its end, %g s at most", _holder(descriptor), path, seconds)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if _is_locked(descriptor):
            return True
        time.sleep(0.05)
    return False


def _holder(descriptor: int) -> str:
    return os.pread(descriptor, 20, 0).decode("ascii", "replace").strip() or "unknown"


def _refuse_network_file_system(path: Path) -> None:
    place = path.parent.resolve()
    kind = file_system_of(place)
    if kind in _NETWORK_FILE_SYSTEMS:
        raise ConfigError(
            f"{place} is on a network file system ({kind}), where SQLite's locks and syncs are not safe; "
            "choose a local place with --data-dir"
        )


def _bytes_of(file: Path) -> int:
    """Return the size of a file on disk; 0 if it does not exist."""
    try:
        return file.stat().st_blocks * 512
    except OSError:
        return 0
