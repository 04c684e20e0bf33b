"""The units: what they promise, and what systemd's own tools say of them. No systemd is started."""

import os
import re
import shutil
import stat
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from pinlater.server.config.settings import DECLARATIONS
from pinlater.server.program import main as server_program
from pinlater.worker.install_units import COMPANIONS, UNITS, install_units
from tests.support.units import ROOT, SERVER, SERVICES, SYSTEMD, TARGET, WORKER, Unit

EXPOSURE = 30
"""Tenths of a point, of 100; the figure that ``systemd-analyze security`` may not exceed."""


def tool(name, *arguments):
    if shutil.which(name) is None:
        pytest.skip(f"no {name} here; install the package systemd")
    environment = os.environ | {"SYSTEMD_LOG_TARGET": "console", "SYSTEMD_COLORS": "0", "LC_ALL": "C.UTF-8"}
    return subprocess.run(
        [name, *map(str, arguments)], capture_output=True, text=True, env=environment, timeout=60, check=False
    )


@pytest.fixture
def installed(tmp_path):
    """Units as they are installed, with programs that exist."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("pinlater-server", "pinlater-worker"):
        (programs / name).write_text("#!/bin/sh\n")
        (programs / name).chmod(0o755)
    install_units(tmp_path / "units", programs)
    return tmp_path / "units"


@pytest.fixture(params=SERVICES)
def service(request):
    return Unit(SYSTEMD / request.param)


def test_the_folder_holds_what_is_installed_and_what_explains_it():
    assert {path.name for path in SYSTEMD.iterdir()} == {*UNITS, *COMPANIONS, "README.md"}


def test_only_the_master_hears_and_speaks(service):
    assert service["Service", "Type"] == "notify"
    assert service["Service", "NotifyAccess"] == "main"
    assert service["Service", "KillMode"] == "mixed"
    assert service["Service", "ExecReload"].endswith("kill -HUP $MAINPID")


def test_it_comes_back_unless_that_is_of_no_use(service):
    assert service["Service", "Restart"] == "on-failure"
    assert service.seconds("RestartSec") == 1
    assert service["Unit", "StartLimitIntervalSec"] == "0"
    assert service.seconds("RestartMaxDelaySec") > service.seconds("RestartSec")
    assert service["Service", "RestartPreventExitStatus"].split() == ["2", "78"]
    assert service.seconds("WatchdogSec") == 30
    assert service.seconds("TimeoutAbortSec") < service.seconds("TimeoutStopSec")


def test_an_upgrade_of_the_store_may_take_long():
    assert Unit(SYSTEMD / SERVER)["Service", "TimeoutStartSec"] == "infinity"


def test_it_is_limited_and_the_end_of_one_process_is_not_the_end_of_all(service):
    for limit in ("MemoryMax", "TasksMax", "LimitNOFILE"):
        assert re.fullmatch(r"[1-9][0-9]*[%G]?", service["Service", limit])
    assert service["Service", "OOMPolicy"] == "continue"


def test_files_for_all_connections():
    connections = next(int(declared.default) for declared in DECLARATIONS if declared.key == "MAX_CONNECTIONS")
    assert int(Unit(SYSTEMD / SERVER)["Service", "LimitNOFILE"]) > 2 * connections


def test_workers_cannot_touch_the_store():
    server, worker = (Unit(SYSTEMD / name) for name in SERVICES)
    assert server["Service", "StateDirectory"] == "pinlater"
    assert server["Service", "StateDirectoryMode"] == "0700"
    assert server["Service", "Environment"] == "PINLATER_DATA_DIR=%S/pinlater"
    assert worker["Service", "User"] != server["Service", "User"]
    assert worker["Service", "StateDirectory"] == "pinlater-worker/%i"


def test_all_belong_to_the_target_and_workers_stop_first():
    for name in SERVICES:
        unit = Unit(SYSTEMD / name)
        assert unit["Unit", "PartOf"] == unit["Install", "WantedBy"] == TARGET
    assert SERVER in Unit(SYSTEMD / WORKER)["Unit", "After"].split()
    assert not Unit(SYSTEMD / WORKER).all("Unit", "Requires")
    assert Unit(SYSTEMD / TARGET)["Install", "WantedBy"] == "multi-user.target"


def test_settings_are_named_where_the_program_looks_for_them():
    assert Unit(SYSTEMD / SERVER)["Service", "EnvironmentFile"] == f"-{COMPANIONS['server.conf']}"
    worker = Unit(SYSTEMD / WORKER)
    path = worker["Service", "EnvironmentFile"]
    assert worker["Unit", "AssertPathExists"] == path == "/etc/pinlater/worker-%i.conf"
    assert path.replace("%i", "example") == str(COMPANIONS["worker-example.conf"])
    example = (SYSTEMD / "worker-example.conf").read_text()
    for variable in re.findall(r"\$(\w+)", worker["Service", "ExecStart"]):
        assert re.search(rf"^#?{variable}=", example, re.MULTILINE), variable


def test_every_setting_of_the_example_is_one_and_has_its_default(tmp_path):
    text = (SYSTEMD / "server.conf").read_text()
    file = tmp_path / "server.conf"
    file.write_text(re.sub(r"^#(PINLATER_\w+=)", r"\1", text, flags=re.MULTILINE).replace("/etc/", f"{tmp_path}/"))
    (tmp_path / "pinlater").mkdir()
    (tmp_path / "pinlater" / "queues.json").write_text('{"queues": []}')
    result = CliRunner().invoke(server_program, ["--config", str(file), "--check"])
    assert result.exit_code == 0, result.output
    defaults = {declared.key: declared.default for declared in DECLARATIONS}
    shown = re.findall(r"^#PINLATER_(\w+)=(.*)$", text, re.MULTILINE)
    assert shown
    for key, value in shown:
        assert value in {defaults[key], "/etc/pinlater/queues.json"}, key


def test_systemd_understands_the_units(installed):
    found = tool("systemd-analyze", "verify", *(installed / name for name in UNITS))
    # Keys of systemd 254, which older ones ignore; and the machine's other units may have faults of their own.
    known = re.compile(r"Unknown key.*'Restart(Steps|MaxDelaySec)'")
    faults = [line for line in found.stderr.splitlines() if "pinlater" in line and not known.search(line)]
    assert (found.returncode, faults) == (0, [])


def test_systemd_would_complain_of_a_program_that_is_not_there(installed):
    shutil.rmtree(installed.parent / "bin")
    found = tool("systemd-analyze", "verify", *(installed / name for name in UNITS))
    assert found.returncode != 0
    assert "pinlater-server" in found.stderr


@pytest.mark.parametrize("name", SERVICES)
def test_little_is_exposed(installed, name):
    found = tool(
        "systemd-analyze", "security", "--no-pager", "--offline=true", f"--threshold={EXPOSURE}", installed / name
    )
    assert found.returncode == 0, found.stdout + found.stderr
    exposure = re.search(r"Overall exposure level for \S+: ([0-9.]+)", found.stdout)
    assert float(exposure[1]) <= EXPOSURE / 10


def test_the_users_of_the_units_are_made(tmp_path):
    (tmp_path / "etc").mkdir()
    found = tool("systemd-sysusers", f"--root={tmp_path}", SYSTEMD / "pinlater.sysusers")
    assert found.returncode == 0, found.stderr
    users = {line.split(":")[0] for line in (tmp_path / "etc" / "passwd").read_text().splitlines()}
    assert users == {Unit(SYSTEMD / name)["Service", "User"] for name in SERVICES}


def test_settings_are_kept_from_others(tmp_path):
    rules = tmp_path / "rules"
    # Only root may give files away; the test is about who may read.
    rules.write_text(re.sub(r"root +\S+$", "- -", (SYSTEMD / "pinlater.tmpfiles").read_text(), flags=re.MULTILINE))
    folder = tmp_path / "root" / "etc" / "pinlater"
    folder.mkdir(parents=True, mode=0o700)
    for name in ("server.conf", "worker-email.conf", "queues.json"):
        (folder / name).touch(mode=0o644)
    found = tool("systemd-tmpfiles", f"--root={tmp_path / 'root'}", "--create", rules)
    assert found.returncode == 0, found.stderr
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in [folder, *folder.iterdir()]}
    assert modes == {"pinlater": 0o755, "server.conf": 0o640, "worker-email.conf": 0o640, "queues.json": 0o644}


def build(hook, folder):
    """Build a wheel of this source tree; return it unpacked as an installer does: the code, and its prefix."""
    code = f"import sys; from hatchling.build import {hook}; print({hook}(sys.argv[1]))"
    name = subprocess.check_output([sys.executable, "-c", code, folder], cwd=ROOT, text=True).split()[-1]
    site = folder / "prefix" / "lib" / "python3" / "site-packages"
    with zipfile.ZipFile(folder / name) as wheel:
        wheel.extractall(site)
    for data in site.glob("*.data/data"):
        shutil.copytree(data, folder / "prefix", dirs_exist_ok=True)
    for data in site.glob("*.data"):
        shutil.rmtree(data)
    return site


def install_from(paths, target):
    """Call ``install_units`` of an installation, in a process that cannot see this source tree."""
    code = (
        "import sys; from pathlib import Path; from pinlater.worker import install_units as it;"
        "it.install_units(Path(sys.argv[1]), Path('/srv/bin')); print(it.__file__); print(it.templates_directory())"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, paths))}
    lines = subprocess.check_output([sys.executable, "-c", code, target], cwd=target.parent, env=environment, text=True)
    return [Path(line) for line in lines.splitlines()]


def test_a_wheel_brings_the_units(tmp_path):
    site = build("build_wheel", tmp_path)
    module, templates = install_from([site], tmp_path / "units")
    assert module.is_relative_to(site)
    assert templates == tmp_path / "prefix" / "share" / "pinlater" / "systemd"
    assert {path.name for path in (tmp_path / "units").iterdir()} == set(UNITS)
    assert {path.name for path in templates.iterdir()} == {path.name for path in SYSTEMD.iterdir()}
    contract = Path("pinlater", "protocol", "pinlater.thrift")  # for clients in other languages
    assert (site / contract).read_bytes() == (ROOT / contract).read_bytes()


def test_an_editable_installation_takes_them_from_the_source_tree(tmp_path):
    site = build("build_editable", tmp_path)
    paths = [line for file in site.glob("*.pth") for line in file.read_text().splitlines()]
    module, templates = install_from(paths, tmp_path / "units")
    assert module == ROOT / "pinlater" / "worker" / "install_units.py"
    assert templates == SYSTEMD
    assert {path.name for path in (tmp_path / "units").iterdir()} == set(UNITS)
