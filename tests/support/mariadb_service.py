"""A MariaDB server of our own: on a free port, in a folder of its own, to be killed, stopped and started at will."""

import atexit
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

PROGRAM = shutil.which("mariadbd") or shutil.which("mariadbd", path="/usr/sbin:/usr/local/sbin")
INSTALL = shutil.which("mariadb-install-db")

SMALL = (
    "--innodb-buffer-pool-size=256M",
    "--innodb-log-file-size=64M",
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

START_SECONDS = 60


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class MariadbService:
    """One server process.

    Args:
        folder: for its files.
        options: of mariadbd, beside those of ``SMALL``.
    """

    def __init__(self, folder, *options):
        self._folder = Path(folder)
        self._options = options
        self._process = None
        self.host, self.port, self.user, self.password = "127.0.0.1", free_port(), "pinlater", "s3cret pass"
        self._data = self._folder / "data"
        if not self._data.exists():
            self._install()
        self.start()

    def _install(self):
        as_root = ["--user=root"] if os.getuid() == 0 else []
        self._init_file = self._folder / "init.sql"
        self._init_file.write_text(
            f"CREATE USER IF NOT EXISTS '{self.user}'@'%' IDENTIFIED BY '{self.password}';\n"
            f"GRANT ALL ON *.* TO '{self.user}'@'%';\n"
        )
        done = subprocess.run(
            [
                INSTALL,
                "--no-defaults",
                *as_root,
                f"--datadir={self._data}",
                "--auth-root-authentication-method=normal",
                "--skip-test-db",
                "--innodb-use-native-aio=0",
                "--innodb-log-file-size=8M",
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-3000:]

    def start(self):
        """Start it, and wait until it takes connections."""
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    PROGRAM,
                    "--no-defaults",
                    *(["--user=root"] if os.getuid() == 0 else []),
                    f"--datadir={self._data}",
                    f"--port={self.port}",
                    "--bind-address=127.0.0.1",
                    "--socket=socket",  # in the data folder; a whole path may be longer than sockets allow
                    f"--pid-file={self._folder / 'pid'}",
                    f"--init-file={self._folder / 'init.sql'}",
                    *SMALL,
                    *self._options,
                ],
                stdout=log,
                stderr=log,
            )
        deadline = time.monotonic() + START_SECONDS
        while not self._takes_connections():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("mariadbd does not start:\n" + (self._folder / "log").read_text()[-3000:])
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
    if not (PROGRAM and INSTALL):
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
