import pytest

from benchmarks import mysql_program as subject
from benchmarks.programs import ProgramFailed

MARIADB = "mariadbd  Ver 10.11.14-MariaDB-0+deb12u2 for debian-linux-gnu on x86_64 (Debian 12)"
MYSQL = "/usr/sbin/mysqld  Ver 9.7.4-2 for Linux on x86_64 ((Debian))"


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Return what installs a program in a folder of a machine that has no others."""
    folders = [tmp_path / "bin", tmp_path / "sbin"]
    monkeypatch.setenv("PATH", str(folders[0]))
    monkeypatch.setattr(subject, "_FOLDERS", str(folders[1]))
    monkeypatch.delenv(subject._NAMED, raising=False)
    for folder in folders:
        folder.mkdir()

    def install(place, version=""):
        program = tmp_path / place
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!/bin/sh\necho '{version}'\necho \"$0\" \"$@\" > '{tmp_path}/called'\n")
        program.chmod(0o755)
        return str(program)

    return install


def find():
    return subject.mysql_program.__wrapped__()


def test_without_mariadb_it_is_mysql(machine, tmp_path):
    server = machine("sbin/mysqld", MYSQL)
    program = find()
    assert (program.path, program.is_mysql) == (server, True)
    program.install(tmp_path / "data", tmp_path / "tmp")
    assert (tmp_path / "called").read_text().startswith(f"{server} --no-defaults --initialize-insecure ")


def test_mariadb_comes_first_and_is_installed_by_a_program_of_its_own(machine, tmp_path):
    server = machine("sbin/mariadbd", MARIADB)
    installer = machine("bin/mariadb-install-db")
    machine("bin/mysqld", MYSQL)
    program = find()
    assert (program.path, program.is_mysql) == (server, False)
    program.install(tmp_path / "data", tmp_path / "tmp")
    assert (tmp_path / "called").read_text().startswith(f"{installer} --no-defaults ")


def test_the_named_one_is_taken(machine, monkeypatch):
    machine("bin/mysqld", MYSQL)
    own = machine("opt/mysqld", MYSQL)
    monkeypatch.setenv("PINLATER_TEST_MYSQL_SERVER", own)
    assert find().path == own


def test_a_machine_without_them_or_without_the_installer_is_told_what_it_lacks(machine):
    with pytest.raises(ProgramFailed, match="no mariadbd and no mysqld here"):
        find()
    machine("bin/mysqld", MARIADB)  # as Debian's MariaDB has it
    with pytest.raises(ProgramFailed, match="no mariadb-install-db for"):
        find()
