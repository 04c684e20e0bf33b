"""A store file that is deleted or truncated under a running server: it says so, and takes no job that would be lost."""

import os

import pytest

from pinlater import Client
from pinlater.client import NewJob
from pinlater.errors import UnknownError
from tests.support.server import ServerProcess, wait_for


@pytest.fixture
def server(tmp_path):
    server = ServerProcess(tmp_path / "server")
    yield server
    server.kill()


@pytest.mark.parametrize("harm", [os.unlink, lambda path: os.truncate(path, 0)], ids=["deleted", "truncated"])
def test_it_is_noticed_said_and_no_job_is_taken(server, harm):
    with Client(server.address, retries=0, connect_timeout=30) as client:
        client.create_queue("q")
        client.enqueue_jobs("q", [NewJob(b"x" * 1000)] * 10)
        wait_for(lambda: (server.data / "pinlater.db").stat().st_size > 0)
        assert server.page("/readyz") == (200, "ok\n")
        harm(server.data / "pinlater.db")
        wait_for(lambda: server.page("/readyz")[0] == 503)
        assert "while the server uses it" in server.page("/readyz")[1]
        with pytest.raises(UnknownError, match=r"nothing was changed: the store file .* while the server uses it"):
            client.enqueue_jobs("q", [NewJob(b"x")])
        assert server.log.count("no new jobs are taken") == 1
