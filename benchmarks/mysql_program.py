"""The database server that benchmarks and tests start as MySQL store: MariaDB's, or MySQL's.

``PINLATER_TEST_MYSQL_SERVER`` names the program; without, it is the ``mariadbd`` of this machine, or else its
``mysqld``.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
from pathlib import Path

from benchmarks.programs import ProgramFailed

_NAMED = "PINLATER_TEST_MYSQL_SERVER"
_FOLDERS = "/usr/sbin:/usr/local/sbin:/usr/libexec"
"""Where distributions keep servers that are not in everybody's PATH."""


class MysqlProgram:
    """A program of MariaDB or MySQL.

    Args:
        path: of the server.

    Attributes:
        version: what it says of its version.
        is_mysql: whether it is of MySQL, which is installed in another way, and knows other options.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.version = subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout
        self.is_mysql = "-MariaDB" not in self.version

    def install(self, data: Path, temporary: Path) -> None:
        """Create the files of an empty server, whose root has no password.

        Args:
            data: the folder to create.
            temporary: an existing folder, for files that are of no use later.

        Raises:
            ProgramFailed: it did not work.
        """
        where = options_of_folders(data, temporary)
        if self.is_mysql:
            command = [self.path, "--no-defaults", "--initialize-insecure", *where]
        else:
            command = [_installer(self.path), "--no-defaults", *where, "--innodb-log-file-size=8M", "--skip-test-db"]
            command.append("--auth-root-authentication-method=normal")
        command.append("--innodb-use-native-aio=0")  # the system might not have it for all servers that start at once
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode != 0:
            raise ProgramFailed(f"{command[0]} has failed: {done.stdout[-3000:]}")


@functools.cache
def mysql_program() -> MysqlProgram:
    """Return the program of this machine.

    Raises:
        ProgramFailed: there is none.
    """
    path = os.environ.get(_NAMED) or _found("mariadbd") or _found("mysqld")
    if path is None:
        raise ProgramFailed("there is no mariadbd and no mysqld here (as root: apt-get install mariadb-server-core)")
    program = MysqlProgram(path)
    if not program.is_mysql:
        _installer(path)
    return program


def options_of_folders(data: Path, temporary: Path) -> list[str]:
    """Return the options for user and folders; a server empties ``temporary`` at start, so each needs its own."""
    folders = [f"--datadir={data}", f"--tmpdir={temporary}"]
    return ["--user=root", *folders] if os.getuid() == 0 else folders


def _installer(server: str) -> str:
    """Return MariaDB's program that creates the files, the server's own before any other."""
    own = Path(server).absolute().parent
    path = shutil.which("mariadb-install-db", path=f"{own}:{own.parent / 'bin'}") or shutil.which("mariadb-install-db")
    if path is None:
        raise ProgramFailed(f"there is no mariadb-install-db for {server} here")
    return path


def _found(name: str) -> str | None:
    return shutil.which(name) or shutil.which(name, path=_FOLDERS)
