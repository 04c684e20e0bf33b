"""A real server on a clock of its own, for the tests of what stands on top of one; and spans."""

import pytest

from pinlater.testing.local_server import LocalServer


@pytest.fixture
def local_server(tmp_path):
    with LocalServer(tmp_path / "store") as server:
        yield server


@pytest.fixture
def exporter():
    from tests.support.spans import exporting  # few tests need OpenTelemetry

    with exporting() as exporter:
        yield exporter
