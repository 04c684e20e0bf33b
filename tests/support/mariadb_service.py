"""A MariaDB or MySQL server of our own: on a free port, in a folder of its own, to be killed, stopped and started at
will. ``PINLATER_TEST_MYSQL_SERVER`` names the program; without, it is the ``mariadbd`` of this machine.
"""

import atexit
import fcntl
import functools
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

from tests.support.ports import free_port

PROGRAM = (
    os.environ.get("PINLATER_TEST_MYSQL_SERVER")
    or shutil.which("mariadbd")
    or shutil.which("mariadbd", path="/usr/sbin:/usr/local/sbin")
)

SMALL = (
    "--innodb-buffer-pool-size=256M",
    "--innodb-flush-log-at-trx-commit=2",
    "--skip-log-bin",
    "--skip-name-resolve",
    "--performance-schema=OFF",
    "--max-connections=300",
    "--innodb-use-native-aio=0",
)
"""No test here cuts the power: what the server process wrote survives its death. Several run at once, so that the
system might not have asynchronous I/O for all of them.
"""

SMALL_MARIADB = (
    "--innodb-log-file-size=64M",
    "--innodb-flush-method=nosync",
    "--skip-innodb-doublewrite",
    "--debug-no-sync",
    "--sync-frm=OFF",
    "--innodb-file-per-table=OFF",
)
"""Most tests make a database of 17 tables; with a synced file for each, that takes six times as long."""

SMALL_MYSQL = ("--innodb-redo-log-capacity=64M", "--mysqlx=OFF", "--secure-file-priv=NULL")

START_SECONDS = 60

CACHE = Path(__file__).parents[2] / ".pytest_cache" / "mariadb"


@functools.cache
def _version():
    return subprocess.run([PROGRAM, "--version"], capture_output=True, text=True, check=True).stdout


def is_mysql():
    """Return whether the program is of MySQL: it is installed in another way, and knows other options."""
    return "-MariaDB" not in _version()


def _install_program():
    """Return MariaDB's program for that, the server's own before any other; None if there is none."""
    own = Path(PROGRAM).absolute().parent
    return shutil.which("mariadb-install-db", path=f"{own}:{own.parent / 'bin'}") or shutil.which("mariadb-install-db")


@functools.cache
def _fresh_data():
    """Return the files of an empty server of this version; made once, and copied for each server of a test."""
    folder = CACHE / re.sub(r"[^\w.]+", "-", _version())
    folder.mkdir(parents=True, exist_ok=True)
    data, temporary = folder / "data", folder / "tmp"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # other processes of these tests want them at the same time
        if not data.exists():
            shutil.rmtree(temporary, ignore_errors=True)
            temporary.mkdir()
            _install(temporary / "data", temporary)
            (temporary / "data").rename(data)
    return data


def _install(data, temporary):
    common = [*_where(data, temporary), "--innodb-use-native-aio=0"]
    if is_mysql():
        command = [PROGRAM, "--no-defaults", "--initialize-insecure", *common]
    else:
        command = [_install_program(), "--no-defaults", *common, "--innodb-log-file-size=8M", "--skip-test-db"]
        command.append("--auth-root-authentication-method=normal")
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:]


def _where(data, temporary):
    """Return the options of a server's folders; whoever starts in a tmpdir empties it, so that each has its own."""
    folders = [f"--datadir={data}", f"--tmpdir={temporary}"]
    return ["--user=root", *folders] if os.getuid() == 0 else folders


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
                    PROGRAM,
                    "--no-defaults",
                    *_where(self._data, self._temporary),
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
                raise RuntimeError(f"{PROGRAM} does not start:\n" + (self._folder / "log").read_text()[-3000:])
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
    """Skip the test where there is no MariaDB to start."""
    if not PROGRAM or not (is_mysql() or _install_program()):
        pytest.skip("no mariadbd here (as root: apt-get install mariadb-server)")


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
