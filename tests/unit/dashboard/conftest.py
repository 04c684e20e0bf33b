import pytest

from pinlater.dashboard import app, count_cache
from pinlater.dashboard.pages import failing, periodic
from tests.unit.dashboard.app import LOCKED, dashboard


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    """Do not take a machine that is busy with other tests for a server that is away, nor leave out what takes long."""
    monkeypatch.setattr(app, "_CALL_SECONDS", 30.0)
    monkeypatch.setattr(count_cache, "_LONG_PATIENCE_SECONDS", 30.0)
    for page in (failing, periodic):
        monkeypatch.setattr(page, "_PATIENCE_SECONDS", 30.0)


@pytest.fixture
def client(local_server):
    client = local_server.client()
    client.create_queue("pins")
    return client


@pytest.fixture
def browser(local_server, client):
    with dashboard(local_server.address) as browser:
        yield browser


@pytest.fixture
def locked(local_server, client):
    with dashboard(local_server.address, **LOCKED) as browser:
        yield browser
