"""A PostgreSQL server of our own, on a free port, in a folder of its own; it refuses to be run by root."""

import atexit
import functools
import glob
import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from tests.support.mariadb_service import START_SECONDS
from tests.support.ports import free_port
from tests.support.server import wait_for

SMALL = ("fsync=off", "shared_buffers=16MB", "max_connections=50", "unix_socket_directories=", "jit=off")
"""No test here cuts the power: what the server process wrote survives its death."""


def _program(name):
    """Return a program of the server, which Debian keeps out of the way of users; None if there is none."""
    folders = sorted(glob.glob("/usr/lib/postgresql/*/bin"), reverse=True)
    return shutil.which(name) or shutil.which(name, path=os.pathsep.join(folders))


@functools.cache
def _user():
    """Return as whom the server runs, as options of Popen."""
    if os.getuid() != 0:
        return {}
    names = {entry.pw_name: entry for entry in pwd.getpwall()}
    entry = names.get("postgres") or names["nobody"]
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}


class PostgresqlService:
    """One server with an empty database ``shop``.

    Attributes:
        url: of the database.
    """

    def __init__(self, folder):
        self._data = Path(folder) / "data"
        self.port = free_port()
        self.url = f"postgresql://shop@127.0.0.1:{self.port}/shop"
        shutil.chown(folder, _user().get("user"), _user().get("group")) if _user() else None
        os.chmod(folder, 0o755)
        self._run("initdb", "-U", "shop", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync", "-D", self._data)
        options = [word for each in SMALL for word in ("-c", each)]
        with (Path(folder) / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [_program("postgres"), "-D", self._data, "-p", str(self.port), "-h", "127.0.0.1", *options],
                stdout=log, stderr=log, cwd=folder, **_user(),
            )  # fmt: skip
        wait_for(self._makes_database, START_SECONDS, (Path(folder) / "log").read_text)

    def _run(self, program, *words):
        done = subprocess.run(
            [_program(program), *words], capture_output=True, text=True, check=False, cwd=self._data.parent, **_user()
        )
        assert done.returncode == 0, done.stderr

    def _makes_database(self):
        import psycopg

        try:
            with psycopg.connect(self.url.removesuffix("shop") + "postgres", autocommit=True) as connection:
                connection.execute("CREATE DATABASE shop")
        except psycopg.OperationalError:
            assert self._process.poll() is None
            return False
        return True

    def end(self):
        self._process.kill()
        self._process.wait()


_shared = None


def shared_service():
    """Return the one that all tests of this process share; skip the test where there is none to start."""
    global _shared  # noqa: PLW0603 - one for the session
    if _program("initdb") is None or _program("postgres") is None:
        pytest.skip("no PostgreSQL server here (as root: apt-get install postgresql)")
    if _shared is None:
        folder = tempfile.mkdtemp(prefix="pinlater-postgresql-", dir="/tmp")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        _shared = PostgresqlService(folder)
        atexit.register(_shared.end)
    return _shared
