"""The kind of file system that a folder is on."""

from pathlib import Path

import psutil
import pytest

from pinlater.server.backends.sqlite import file_system
from pinlater.server.backends.sqlite.file_system import file_system_of

MOUNTS = (
    rb"""/dev/sda1 / ext4 rw,relatime 0 0
proc /proc proc rw,nosuid 0 0
server:/jobs /srv nfs4 rw,vers=4.2 0 0
/dev/sdb1 /srv/local xfs rw 0 0
tmpfs /over tmpfs rw 0 0
//server/share /over cifs rw 0 0
server:/jobs /with\040a\040space nfs rw 0 0
server:/jobs /caf%s nfs rw 0 0
"""
    % b"\xe9"
)


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("/var/lib/pinlater", "ext4"),
        ("/srv/pinlater", "nfs4"),
        ("/srv/local/pinlater", "xfs"),
        ("/srv2", "ext4"),
        ("/over/data", "cifs"),
        ("/with a space/data", "nfs"),
        ("/caf\udce9", "nfs"),
        ("/", "ext4"),
    ],
)
def test_the_nearest_mount_counts(folder, kind, tmp_path, monkeypatch):
    (tmp_path / "mounts").write_bytes(MOUNTS)
    monkeypatch.setattr(file_system, "MOUNTS", tmp_path / "mounts")
    assert file_system_of(Path(folder)) == kind


def test_a_system_without_a_list_of_mounts_tells_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(file_system, "MOUNTS", tmp_path / "mounts")
    assert file_system_of(tmp_path) is None


def test_the_list_of_this_system_is_understood(tmp_path):
    folder = tmp_path.resolve()
    mounts = {mount.mountpoint: mount.fstype for mount in psutil.disk_partitions(all=True)}
    assert file_system_of(folder) == mounts[max(filter(folder.is_relative_to, mounts), key=len)]
