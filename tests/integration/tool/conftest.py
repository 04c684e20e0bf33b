"""A tool for the server of the tests."""

import functools
import os

import pytest

from pinlater import Client
from tests.support.server import ROOT
from tests.support.tool import run_tool


@pytest.fixture
def environment(server):
    kept = {key: value for key, value in os.environ.items() if not key.startswith("PINLATER_")}
    return kept | {"PINLATER_SERVERS": server.address, "PYTHONPATH": str(ROOT), "TERM": "xterm"}


@pytest.fixture
def client(server):
    with Client(server.address) as client:
        yield client


@pytest.fixture
def tool(server):
    return functools.partial(run_tool, PINLATER_SERVERS=server.address)
