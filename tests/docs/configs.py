"""Blocks of configuration: each is read by the program that it is for."""

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

from click.testing import CliRunner

from pinlater.server.backends.mysql import read_shards as read_mysql_shards
from pinlater.server.backends.redis import read_shards as read_redis_shards
from pinlater.server.config.sources import from_file
from pinlater.server.limits.formats import queue_rates
from pinlater.server.program import main as server
from pinlater.worker.install_units import UNITS, install_units
from pinlater.worker.program import worker
from tests.docs.commands import check


def check_settings(path):
    """Check a file of KEY=VALUE lines: of a worker's unit if it says so, else of the server."""
    entries = {entry.key: entry.value for entry in from_file(path)}
    if "PINLATER_WORKER_MODULES" not in entries:
        result = CliRunner().invoke(server, ["--config", str(path), "--check"])
        assert result.exit_code == 0, result.output
        return
    words = [*entries["PINLATER_WORKER_MODULES"].split(), *shlex.split(entries.get("PINLATER_WORKER_ARGS", ""))]
    check("pinlater-worker " + " ".join(words))
    with worker.make_context("pinlater-worker", words):
        pass


def check_json(text):
    """Check JSON: a file of shards, a file of rate limits, or anything else, such as a line of a log."""
    values, content, path = (
        [json.loads(text)] if text.count("\n") > 1 else list(map(json.loads, text.splitlines())),
        text.encode(),
        Path("file"),
    )
    if "shards" in values[0]:
        read_redis_shards(content, path)
    elif "queues" in values[0]:
        queue_rates(content, path)
    elif any(isinstance(value, dict) and "master" in value for value in values[0].values()):
        read_mysql_shards(content, path, prefix="", databases=1)


def check_unit(text, name, folder):
    """Let systemd read a drop-in of one of our units; without systemd, at least its form is checked."""
    assert re.match(r"\[(Unit|Service|Install)\]\n", text), text
    for line in text.splitlines():
        assert re.fullmatch(r"(\[\w+\]|#.*|\w+=.*|)", line), line
    if shutil.which("systemd-analyze") is None:
        return
    programs = folder / "bin"
    programs.mkdir(parents=True)
    for program in ("pinlater-server", "pinlater-worker"):
        (programs / program).write_text("#!/bin/sh\n")
        (programs / program).chmod(0o755)
    install_units(folder / "units", programs)
    unit = folder / "units" / ("pinlater-server.service" if "server" in name else "pinlater-worker@.service")
    drop_in = unit.with_name(unit.name + ".d") / "override.conf"
    drop_in.parent.mkdir()
    drop_in.write_text(text)
    assert unit.name in UNITS
    found = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, timeout=60, check=False)
    faults = [line for line in found.stderr.splitlines() if "override.conf" in line]
    assert not faults, found.stderr
