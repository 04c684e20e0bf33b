"""Putting the systemd units in place."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from pinlater.errors import ConfigError
from pinlater.worker import install_units as subject
from pinlater.worker.install_units import COMPANIONS, UNITS, command, install_companions, install_units

PROGRAMS = Path("/srv/apps/pinlater/bin")


def run(*arguments):
    return CliRunner().invoke(command, [str(argument) for argument in arguments])


def contents(folder):
    return {path.name: path.read_text() for path in folder.iterdir()}


def test_units_get_the_paths_of_the_installation(tmp_path):
    written = install_units(tmp_path, PROGRAMS)
    assert sorted(written) == sorted(tmp_path / name for name in UNITS)
    found = contents(tmp_path)
    assert set(found) == set(UNITS)
    assert "\nExecStart=/srv/apps/pinlater/bin/pinlater-server\n" in found["pinlater-server.service"]
    assert "\nExecStart=/srv/apps/pinlater/bin/pinlater-worker $" in found["pinlater-worker@.service"]
    assert "/opt/pinlater" not in "".join(found.values())
    assert {oct(path.stat().st_mode & 0o777) for path in written} == {"0o644"}


def test_a_second_time_there_is_nothing_to_do(tmp_path):
    install_units(tmp_path, PROGRAMS)
    assert install_units(tmp_path, PROGRAMS) == []


def test_units_that_differ_are_kept_unless_forced_and_then_nothing_is_written(tmp_path):
    (tmp_path / UNITS[1]).write_text("mine")
    with pytest.raises(ConfigError, match="--force"):
        install_units(tmp_path, PROGRAMS)
    assert contents(tmp_path) == {UNITS[1]: "mine"}
    assert len(install_units(tmp_path, PROGRAMS, force=True)) == len(UNITS)
    assert "mine" not in contents(tmp_path).values()


def test_a_dry_run_writes_nothing(tmp_path):
    folder = tmp_path / "new"
    assert len(install_units(folder, PROGRAMS, dry_run=True)) == len(UNITS)
    assert not folder.exists()


@pytest.mark.parametrize("path", ["/srv/my apps/bin", "/srv/50%/bin", "/srv/$HOME/bin", "/srv/a\nb"])
def test_a_path_that_systemd_would_read_as_something_else_is_refused(tmp_path, path):
    with pytest.raises(ConfigError, match="install elsewhere"):
        install_units(tmp_path / "units", Path(path))
    assert not (tmp_path / "units").exists()


def test_a_directory_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="file/pinlater"):
        install_units(tmp_path / "file", PROGRAMS)


def test_companions_go_where_they_belong_and_settings_are_kept(tmp_path):
    assert len(install_companions(root=tmp_path)) == len(COMPANIONS)
    assert "u     pinlater " in (tmp_path / "etc/sysusers.d/pinlater.conf").read_text()
    assert "/etc/pinlater" in (tmp_path / "etc/tmpfiles.d/pinlater.conf").read_text()
    settings = tmp_path / "etc/pinlater/server.conf"
    settings.write_text("PINLATER_THRIFT_PORT=9011")
    (tmp_path / "etc/pinlater/worker-example.conf").unlink()
    assert install_companions(root=tmp_path) == [tmp_path / "etc/pinlater/worker-example.conf"]
    assert settings.read_text() == "PINLATER_THRIFT_PORT=9011"


def test_the_command_writes_units_and_says_which(tmp_path):
    result = run("--directory", tmp_path, "--programs", PROGRAMS)
    assert result.exit_code == 0
    assert result.output.splitlines() == [f"wrote {tmp_path / name}" for name in UNITS]
    again = run("--directory", tmp_path, "--programs", PROGRAMS)
    assert again.output == "nothing to do: all files are up to date\n"


def test_the_command_finds_the_programs_beside_itself(tmp_path, monkeypatch):
    (tmp_path / "bin").mkdir()
    for name in ("pinlater-server", "pinlater-worker"):
        (tmp_path / "bin" / name).touch()
    monkeypatch.setattr("sys.argv", [str(tmp_path / "bin" / "pinlater-worker"), "install-units"])
    assert run("--directory", tmp_path / "units").exit_code == 0
    assert f"ExecStart={tmp_path}/bin/pinlater-server\n" in contents(tmp_path / "units")["pinlater-server.service"]


def test_without_programs_it_asks_for_them(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.argv", [str(tmp_path / "x")])
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    monkeypatch.setattr("sysconfig.get_path", lambda _: str(tmp_path))
    result = run("--directory", tmp_path / "units")
    assert result.exit_code == 78
    assert "--programs DIRECTORY" in result.output


def test_a_conflict_is_an_error_of_the_command(tmp_path):
    (tmp_path / UNITS[0]).write_text("mine")
    result = run("--directory", tmp_path, "--programs", PROGRAMS)
    assert result.exit_code == 78
    assert str(tmp_path / UNITS[0]) in result.output


def test_a_plain_call_also_plans_the_companions(tmp_path, monkeypatch):
    monkeypatch.setattr(subject, "UNIT_DIRECTORY", tmp_path / "units")
    monkeypatch.setattr(subject, "COMPANIONS", {"server.conf": tmp_path / "server.conf"})
    result = run("--dry-run", "--programs", PROGRAMS)
    planned = [*(tmp_path / "units" / name for name in UNITS), tmp_path / "server.conf"]
    assert result.output.splitlines() == [f"would write {path}" for path in planned]


def test_programs_in_a_home_directory_are_warned_of(tmp_path):
    result = run("--directory", tmp_path, "--programs", "/home/ann/venv/bin")
    assert result.exit_code == 0
    assert "/home/ann/venv/bin/pinlater-server, which is in a home directory" in result.output
    assert subject.hidden_file(PROGRAMS) is None


def test_the_warning_of_a_link_that_leads_to_a_home_directory_names_its_target(tmp_path):
    (tmp_path / "python").symlink_to("/root/.pyenv/bin/python3")
    result = run("--directory", tmp_path / "units", "--programs", tmp_path)
    assert f"{tmp_path} needs /root/.pyenv/bin/python3, which is in a home directory" in result.output


def test_an_installation_without_the_files_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(subject, "__file__", str(tmp_path / "install_units.py"))
    with pytest.raises(ConfigError, match="reinstall the package"):
        install_units(tmp_path, PROGRAMS)
