"""Variables of the environment that look like ours, and that nobody reads."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from pinlater.environment import unread_variables
from pinlater.server.config.settings import DECLARATIONS

ROOT = Path(__file__).parents[2]


def test_a_slip_is_named_with_the_nearest_name():
    environ = {"PINLATER_SERVER": "a:1", "PINLATER_TYPO": "1", "PINLATER_THRIFT_PROT": "1", "HOME": "/"}
    assert unread_variables(environ) == (
        "environment: no program of PinLater reads PINLATER_SERVER (did you mean PINLATER_SERVERS?), "
        "PINLATER_THRIFT_PROT (did you mean PINLATER_THRIFT_PORT?), PINLATER_TYPO"
    )


def test_many_slips_take_one_line():
    line = unread_variables({f"PINLATER_X\n{number}" + "x" * 1000: "" for number in range(1000)})
    assert line.endswith("and 995 more")
    assert len(line) < 600
    assert "\n" not in line


def test_what_is_read_or_set_by_others_is_left_alone():
    names = {name for file in ("pinlater", "deploy", "supervisor") for name in _named_in(ROOT / file)}
    assert {"PINLATER_SERVERS", "PINLATER_WEBHOOK", "PINLATER_WORKER_ARGS"} < names
    settings = {f"PINLATER_{declared.key}" for declared in DECLARATIONS}
    assert unread_variables(dict.fromkeys(names | settings, "1")) == ""


def _named_in(folder):
    """Yield the variables that options, files of deployments and help texts name."""
    for file in folder.rglob("*"):
        if file.is_file() and not file.name.endswith(".pyc"):
            text = file.read_text(errors="replace")
            yield from re.findall(r"env: (PINLATER_\w+)", text)
            yield from re.findall(r"\$\{?(PINLATER_\w+)", text)
            yield from re.findall(r'"(PINLATER_\w+)"\]', text)


@pytest.mark.parametrize(
    "variable",
    [
        ("PINLATER_PORT", "tcp://10.0.0.1:9010"),
        ("PINLATER_SERVICE_PORT_ADMIN", "9999"),
        ("PINLATER_SERVER_SERVICE_HOST", "10.0.0.1"),
        ("PINLATER_PORT_9010_TCP_ADDR", "10.0.0.1"),
        ("PINLATER_MYSQL_PORT", "tcp://10.0.0.1:3306"),
    ],
)
def test_variables_of_services_in_a_cluster_are_left_alone(variable):
    assert unread_variables(dict([variable])) == ""


@pytest.mark.parametrize(
    ("program", "arguments"),
    [
        ("pinlater.cli", ["queues", "--server", "127.0.0.1:1"]),
        ("pinlater.server.program", ["--port", "0", "--admin-port", "0", "--host", "256.0.0.1"]),
        ("pinlater.worker.program", ["no_such_module", "--server", "127.0.0.1:1", "--health", "256.0.0.1:0"]),
    ],
)
def test_each_program_says_it_once(program, arguments, tmp_path):
    environ = {"PATH": "/usr/bin:/bin", "PINLATER_TYPO": "1", "PINLATER_DATA_DIR": str(tmp_path)}
    command = [sys.executable, "-m", program, *arguments]
    ended = subprocess.run(command, env=environ, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode > 0
    assert ended.stderr.count("no program of PinLater reads PINLATER_TYPO") == 1
