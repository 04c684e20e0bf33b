"""What the programs import at their start, in all of their processes: nothing that others need, and they do not.

Imports are most of what a start costs. The tests name what once was imported for nothing, or easily would be.
"""

import re
import subprocess
import sys

import pytest

from pinlater.cli import program
from tests.support.redis_service import RedisService, shard_file
from tests.support.server import ServerProcess, environment

PARSING_THRIFT = {"thriftpy2.parser", "thriftpy2.hook", "thriftpy2.protocol.json", "ply", "ijson"}
PAGES = {"pinlater.dashboard", "starlette", "jinja2", "uvicorn"}
SQLITE, SHARDED, REDIS, MYSQL = (f"pinlater.server.backends.{name}" for name in ("sqlite", "sharded", "redis", "mysql"))
STORES = {SQLITE, SHARDED, REDIS, MYSQL, "redis", "hiredis", "asyncmy"}
NOT_IN_SERVERS = {
    *("pinlater.jobs", "pinlater.client", "pinlater.triage", "pinlater.cli", "pinlater.worker", "pinlater.testing"),
    *("tenacity", "psutil"),
    *PARSING_THRIFT,
}

OF_LIBRARY = [
    ("import pinlater", {"pinlater.jobs", "pinlater.model", "pinlater.protocol", "pinlater.client", "msgspec"}),
    ("from pinlater import Job, JobContext", {"pinlater.protocol", "pinlater.client", "thriftpy2", "asyncio"}),
    ("from pinlater import Client", {"pinlater.client.async_client", "pinlater.cli", "asyncio", *PARSING_THRIFT}),
    ("from pinlater import AsyncClient", {"pinlater.client.client", *PARSING_THRIFT}),
]


@pytest.fixture
def tells_imports(monkeypatch):
    """Every Python program that is started from here on writes to stderr what it imports, its forks included."""
    monkeypatch.setenv("PYTHONVERBOSE", "1")


def imported(text):
    """Return the modules that are named in what programs wrote."""
    return set(re.findall(r"^import '([\w.]+)' # ", text, re.MULTILINE))


def among(modules, unwanted):
    """Return those of the modules that have one of these names, or are inside a package with such a name."""
    return {module for module in modules if any(f"{module}.".startswith(f"{name}.") for name in unwanted)}


def imports_of(*words, **options):
    done = subprocess.run(
        [sys.executable, *words], env=environment(), capture_output=True, text=True, timeout=60, check=False, **options
    )
    assert done.returncode == 0, done.stderr
    return imported(done.stderr)


def imports_of_server(folder, **settings):
    with ServerProcess(folder, **settings) as server:
        assert server.page("/readyz")[0] == 200  # so the admin process has started, too
        assert server.stop() == 0
    return imported(server.log)


@pytest.mark.parametrize(("statement", "unwanted"), OF_LIBRARY)
def test_a_program_that_uses_the_library(statement, unwanted, tells_imports):
    found = imports_of("-c", statement)
    assert "pinlater" in found
    assert among(found, unwanted) == set()


def test_a_command(server, tells_imports):
    found = imports_of("-m", "pinlater.cli", "queues", "--server", server.address)
    assert "pinlater.cli.queues" in found
    others = {"pinlater.cli.doctor", "pinlater.cli.top", "pinlater.cli.enqueue", "pinlater.outbox", "pinlater.triage"}
    assert among(found, {*others, "asyncio", "pinlater.client.async_client", *PARSING_THRIFT}) == set()


def of_commands():
    return {f"pinlater.cli.{home.partition(':')[0]}" for home, _ in program._COMMANDS.values()}


def test_the_help(tells_imports):
    found = imports_of("-m", "pinlater.cli", "--help")
    assert "pinlater.cli.program" in found
    assert among(found, {*of_commands(), "asyncio", "pinlater.model.jobs", "pinlater.client", "thriftpy2"}) == set()


def test_completing_a_command(tells_imports, monkeypatch):
    words = {"_PINLATER_COMPLETE": "bash_complete", "COMP_WORDS": "pinlater del", "COMP_CWORD": "1"}
    for name, value in words.items():
        monkeypatch.setenv(name, value)
    found = imports_of("-m", "pinlater.cli")
    assert "click.shell_completion" in found
    assert among(found, {*of_commands(), "asyncio", "pinlater.model.jobs", "pinlater.client", "thriftpy2"}) == set()


def test_the_version_needs_no_command(tells_imports):
    found = imports_of("-m", "pinlater.cli", "--version")
    assert among(found, {"pinlater.cli.queues", "pinlater.jobs", "pinlater.protocol", "pinlater.client"}) == set()


def test_a_server_with_a_file(tmp_path, tells_imports):
    found = imports_of_server(tmp_path)
    assert {"pinlater.server.process", "pinlater.server.admin.process", f"{SQLITE}.store"} <= found
    assert among(found, {*NOT_IN_SERVERS, *PAGES, *STORES - {SQLITE}}) == set()


def test_a_server_with_redis(tmp_path, tells_imports):
    with RedisService(tmp_path / "redis", appendonly="yes", appendfsync="always") as service:
        file = shard_file(tmp_path, [service])
        found = imports_of_server(tmp_path / "server", PINLATER_BACKEND="redis", BACKEND_CONFIG=str(file))
    assert {f"{REDIS}.shard", f"{SHARDED}.store"} <= found
    assert among(found, {*PAGES, SQLITE, MYSQL, "asyncmy", "pinlater.client", "pinlater.jobs"}) == set()


def test_a_server_with_a_dashboard(tmp_path, tells_imports):
    found = imports_of_server(tmp_path, DASHBOARD="true")
    assert "pinlater.dashboard.app" in found
    assert among(found, {"pinlater.worker", "pinlater.cli", *PARSING_THRIFT, *STORES - {SQLITE}}) == set()


def test_a_worker(server, folder, client, tells_imports):
    (folder / "idle.py").write_text(
        "from pinlater import Job\n\n\nclass Idle(Job, queue='idle'):\n    def run(self, context): ...\n"
    )
    client.create_queue("idle")
    worker = ("-m", "pinlater.worker.program", "idle", "--burst", "--processes", "1", "--server", server.address)
    found = imports_of(*worker, cwd=folder)
    assert {"pinlater.worker.processes.solo", "pinlater.worker.keeper.lease_renewer"} <= found
    unwanted = {"pinlater.server", "pinlater.cli", "pinlater.dashboard", "pinlater.worker.processes.team_process"}
    assert among(found, {*unwanted, "psutil", "tenacity", "re2", "uvloop", *PARSING_THRIFT}) == set()
