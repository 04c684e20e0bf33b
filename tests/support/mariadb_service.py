"""A MariaDB or MySQL server of our own: on a free port, in a folder of its own, to be killed, stopped and started at
will; ``benchmarks/mysql_program.py`` says which program it is.
"""

import atexit
import fcntl
import functools
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

from benchmarks.mysql_program import mysql_program, options_of_folders
from benchmarks.programs import ProgramFailed
from tests.support.ports import free_port

SMALL = (
    "--innodb-buffer-pool-size=256M",
    "--innodb-flush-log-at-trx-commit=2",
    "--skip-log-bin",
    "--skip-name-resolve",
    "--performance-schema=OFF",
    "--max-connections=300",
    "--innodb-use-native-aio=0",
    "--innodb-flush-method=nosync",
    "--skip-innodb-doublewrite",
    "--innodb-file-per-table=OFF",
)
"""No test here cuts the power: what the server process wrote survives its death. Several run at once, so that the
system might not have asynchronous I/O for all of them. Most tests make a database of 17 tables; with a synced file for
each, that takes MariaDB six times as long, and MySQL three times.
"""

SMALL_MARIADB = ("--innodb-log-file-size=64M", "--debug-no-sync", "--sync-frm=OFF")

SMALL_MYSQL = ("--innodb-redo-log-capacity=64M", "--mysqlx=OFF", "--secure-file-priv=NULL")

START_SECONDS = 60

CACHE = Path(__file__).parents[2] / ".pytest_cache" / "mariadb"


def is_mysql():
    """Return whether the program is of MySQL, and not of MariaDB."""
    return mysql_program().is_mysql


@functools.cache
def _fresh_data():
    """Return the files of an empty server of this version; made once, and copied for each server of a test."""
    folder = CACHE / re.sub(r"[^\w.]+", "-", mysql_program().version)
    folder.mkdir(parents=True, exist_ok=True)
    data, temporary = folder / "data", folder / "tmp"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # other processes of these tests want them at the same time
        if not data.exists():
            shutil.rmtree(temporary, ignore_errors=True)
            temporary.mkdir()
            mysql_program().install(temporary / "data", temporary)
            (temporary / "data").rename(data)
    return data


class MariadbService:
    """One server process.

    Args:
        folder: for its files.
        options: of the server, beside those of ``SMALL``.
    """

    def __init__(self, folder, *options):
        self._folder = Path(folder)
        self._options = options
        self._process = None
        self.host, self.port, self.user, self.password = "127.0.0.1", free_port(), "pinlater", "s3cret pass"
        self._data = self._folder / "data"
        self._temporary = self._folder / "tmp"
        self._temporary.mkdir(exist_ok=True)
        if not self._data.exists():
            (self._folder / "init.sql").write_text(
                f"CREATE USER IF NOT EXISTS '{self.user}'@'%' IDENTIFIED BY '{self.password}';\n"
                f"GRANT ALL ON *.* TO '{self.user}'@'%' WITH GRANT OPTION;\n"
            )
            shutil.copytree(_fresh_data(), self._data)
        self.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def start(self):
        """Start it, and wait until it takes connections."""
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    mysql_program().path,
                    "--no-defaults",
                    *options_of_folders(self._data, self._temporary),
                    f"--port={self.port}",
                    "--bind-address=127.0.0.1",
                    "--socket=socket",  # in the data folder; a whole path may be longer than sockets allow
                    f"--pid-file={self._folder / 'pid'}",
                    f"--init-file={self._folder / 'init.sql'}",
                    *SMALL,
                    *(SMALL_MYSQL if is_mysql() else SMALL_MARIADB),
                    *self._options,
                ],
                stdout=log,
                stderr=log,
            )
        deadline = time.monotonic() + START_SECONDS
        while not self._takes_connections():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.end()
                raise RuntimeError(
                    f"{mysql_program().path} does not start:\n" + (self._folder / "log").read_text()[-3000:]
                )
            time.sleep(0.05)

    def _takes_connections(self):
        try:
            with socket.create_connection((self.host, self.port), timeout=1) as peer:
                return bool(peer.recv(1))
        except OSError:
            return False

    @property
    def pid(self):
        return self._process.pid

    def kill(self):
        """End it as a crash would."""
        self._process.kill()
        self._process.wait()

    def stop(self):
        """End it in order."""
        self._process.terminate()
        self._process.wait()

    def freeze(self):
        """Let it keep its connections, and say nothing."""
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self):
        self._process.send_signal(signal.SIGCONT)

    def end(self):
        """End it for good."""
        self.thaw()
        self.kill()


def skip_if_missing():
    """Skip the test where there is neither MariaDB nor MySQL to start."""
    try:
        mysql_program()
    except ProgramFailed as error:
        pytest.skip(str(error))


_shared = None


def shared_service():
    """Return the one that all tests of this process share, as long as they leave it alone."""
    global _shared  # noqa: PLW0603 - one for the session; fixtures cannot be had where homes are made
    skip_if_missing()
    if _shared is None:
        folder = tempfile.mkdtemp(prefix="pinlater-mariadb-")
        _shared = MariadbService(folder)
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        atexit.register(_shared.end)
    return _shared
