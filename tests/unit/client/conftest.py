"""Small servers, which answer as a test says."""

import pytest

from tests.unit.client.fake_server import FakeServer


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
