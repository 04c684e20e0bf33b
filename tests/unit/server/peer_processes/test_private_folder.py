"""The private folder of a server, removed even after the server was killed."""

import os
import socket
import tempfile
import time
from pathlib import Path

import pytest

from pinlater.errors import ConfigError
from pinlater.server.peer_processes.private_folder import private_folder, restore_folder


@pytest.fixture(autouse=True)
def parent(monkeypatch):
    with tempfile.TemporaryDirectory(dir="/tmp") as name:  # a short name, as sockets need it
        monkeypatch.setattr(tempfile, "tempdir", name)
        yield Path(name)


def age(folder):
    long_ago = time.time() - 3600
    os.utime(folder, (long_ago, long_ago))


def test_it_is_private_and_gone_at_the_end(parent):
    with private_folder() as folder:
        (folder / "service.sock").touch()
        assert folder.parent == parent
        assert folder.stat().st_mode & 0o777 == 0o700
    assert list(parent.iterdir()) == []


def test_a_folder_that_another_user_has_made_in_its_place_is_not_used(parent, monkeypatch):
    with private_folder() as folder:
        restore_folder(folder)
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
        with pytest.raises(ConfigError, match="was made by another user; restart the server"):
            restore_folder(folder)
        monkeypatch.undo()


def test_a_folder_that_cannot_be_made_again(parent):
    with pytest.raises(ConfigError, match="was removed, and cannot be made again: No such file"):
        restore_folder(parent / "gone" / "folder")


def test_a_folder_with_a_long_name_is_not_taken(parent, monkeypatch):
    long = parent / ("long" * 40)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    with private_folder() as folder, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "12345678.socket"))
    assert list(long.iterdir()) == []


def test_if_all_names_are_too_long_the_error_says_so(parent, monkeypatch):
    long = parent / ("long" * 40)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    monkeypatch.setattr("pinlater.server.peer_processes.private_folder._SHORT_FOLDERS", (parent / "missing",))
    with pytest.raises(ConfigError, match="set TMPDIR to a folder with a shorter path"), private_folder():
        pass


@pytest.fixture
def read_only(monkeypatch):
    """What Python says on a file system that is read-only."""

    def refuse():
        raise FileNotFoundError("No usable temporary directory found")

    monkeypatch.setattr(tempfile, "gettempdir", refuse)


def test_without_a_folder_for_temporary_files_another_one_is_taken(parent, monkeypatch, read_only):
    monkeypatch.setattr("pinlater.server.peer_processes.private_folder._SHORT_FOLDERS", (parent / "missing", parent))
    with private_folder() as folder:
        assert folder.parent == parent


def test_if_no_folder_is_writable_the_error_says_so(parent, monkeypatch, read_only):
    monkeypatch.setattr("pinlater.server.peer_processes.private_folder._SHORT_FOLDERS", (parent / "missing",))
    with pytest.raises(ConfigError, match="make /tmp writable, or set TMPDIR"), private_folder():
        pass


def test_what_a_killed_server_left_is_removed(parent):
    left = parent / "pinlater-server-abc"
    left.mkdir()
    (left / "service.sock").touch()
    age(left)
    with private_folder() as folder:
        assert list(parent.iterdir()) == [folder]


def test_folders_of_living_servers_are_left_alone_and_so_is_everything_else(parent):
    with private_folder() as living:
        age(living)
        new, other = parent / "pinlater-server-new", parent / "pinlater-worker-x"
        new.mkdir()
        other.mkdir()
        age(other)
        file, link = parent / "pinlater-server-file", parent / "pinlater-server-link"
        file.touch()
        age(file)
        link.symlink_to(other)
        os.utime(link, (1, 1), follow_symlinks=False)
        with private_folder() as folder:
            assert sorted(parent.iterdir()) == sorted([folder, living, new, other, file, link])


def test_a_folder_lives_as_long_as_a_child_of_its_server(parent):
    wakeup, wake = os.pipe()
    with private_folder() as living:
        pid = os.fork()
        if pid == 0:
            os.close(wake)
            os.read(wakeup, 1)
            os._exit(0)
        # Of a server that was killed, nothing is left but its children.
        living.rename(parent / "pinlater-server-orphaned")
        living.mkdir()
    orphaned = parent / "pinlater-server-orphaned"
    age(orphaned)
    with private_folder():
        assert orphaned.exists()
    os.close(wake)
    os.waitpid(pid, 0)
    os.close(wakeup)
    with private_folder():
        assert not orphaned.exists()
