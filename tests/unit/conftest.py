"""A real server on a clock of its own, for the tests of what stands on top of one."""

import pytest

from pinlater.testing.local_server import LocalServer


@pytest.fixture
def local_server(tmp_path):
    with LocalServer(tmp_path / "store") as server:
        yield server
