import pytest

from tests.unit.dashboard.app import LOCKED, dashboard


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
