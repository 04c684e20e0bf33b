"""The admin process: what it says if it cannot start."""

import json
import logging
import socket
from unittest.mock import MagicMock

import pytest

from pinlater.errors import EXIT_CONFIG, ConfigError
from pinlater.logs import JsonFormatter
from pinlater.server.admin import process
from pinlater.server.config.settings import Settings


@pytest.fixture
def json_logs():
    handler = logging.NullHandler()
    handler.setFormatter(JsonFormatter())
    logging.getLogger().addHandler(handler)
    yield
    logging.getLogger().removeHandler(handler)


async def _fail(*_):
    raise ConfigError("the certificate cannot be read")


def test_an_error_of_the_settings_is_told_as_a_line_of_json(json_logs, monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(process, "has_dashboard", lambda _: False)
    monkeypatch.setattr(process, "_serve_endpoint", _fail)
    with socket.socket() as listener:
        assert process.run(MagicMock(), Settings(), listener, tmp_path) == EXIT_CONFIG
    told = json.loads(capsys.readouterr().err)
    assert (told["level"], told["message"]) == ("CRITICAL", "the certificate cannot be read")
