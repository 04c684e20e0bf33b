"""The tool, run in this process against a server of the tests."""

import io
import sys

import pytest

from pinlater.cli.program import run
from tests.unit.client.fake_server import FakeServer


@pytest.fixture
def server(monkeypatch):
    with FakeServer(lambda _: None) as server:
        monkeypatch.setenv("PINLATER_SERVERS", str(server.address))
        yield server


@pytest.fixture
def tool_run(capsysbinary):
    """Run the tool; return exit status, stdout and stderr as text."""

    def run_it(*words):
        status = run(words)
        out, err = capsysbinary.readouterr()
        return status, out.decode(), err.decode()

    return run_it


@pytest.fixture
def stdin(monkeypatch):
    def give(data):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))

    give(b"")
    return give


@pytest.fixture
def no_password(stdin, monkeypatch):
    """Neither the environment nor a terminal has one."""
    monkeypatch.delenv("PINLATER_ADMIN_PASSWORD", raising=False)
