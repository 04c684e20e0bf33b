"""Small servers, which answer as a test says."""

import pytest

from pinlater import AsyncClient, Client
from tests.unit.client.fake_server import Blocking, FakeServer, client_of


@pytest.fixture
def serve():
    """Starts servers, and closes them at the end."""
    servers = []

    def start(answer, **options):
        servers.append(FakeServer(answer, **options))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


@pytest.fixture(params=[Client, AsyncClient])
def connect(request):
    """Makes clients of either kind, as ``client_of`` does; a test calls both alike."""

    def connect(*servers, **options):
        client = client_of(*servers, kind=request.param, **options)
        return client if request.param is Client else Blocking(client)

    return connect
