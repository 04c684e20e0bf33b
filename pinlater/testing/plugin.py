"""The pytest plugin with the fixture ``pinlater_server``; pytest loads it wherever PinLater is installed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pinlater.testing.local_server import LocalServer


@pytest.fixture
def pinlater_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalServer]:
    """Start a real PinLater server for this test; see ``pinlater.testing.LocalServer``.

    The code under test may call ``Client()`` without an address: ``PINLATER_SERVERS`` is set to this server.
    """
    from pinlater.client.tls import CA_KEY, CERT_KEY, KEY_KEY  # here: most tests have nothing to do with jobs
    from pinlater.testing.local_server import LocalServer

    with LocalServer(tmp_path / "pinlater") as server:
        monkeypatch.setenv("PINLATER_SERVERS", server.address)
        for key in (CA_KEY, CERT_KEY, KEY_KEY):  # the server has no TLS
            monkeypatch.delenv(key, raising=False)
        yield server
