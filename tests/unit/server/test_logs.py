"""Log records: one line each, as plain text or JSON."""

import json
import logging
import sys

import pytest

from pinlater.logs import JsonFormatter
from pinlater.server.logs import PlainFormatter, set_up_logs


def record(message, *arguments, exc_info=None):
    made = logging.LogRecord("pinlater.server", logging.WARNING, "x.py", 1, message, arguments, exc_info)
    made.created = 1_700_000_000.25
    return made


def failure():
    try:
        raise KeyError("lost")
    except KeyError:
        return sys.exc_info()


def test_a_plain_line():
    line = PlainFormatter().format(record("queue %s", "é"))
    assert line == "2023-11-14T22:13:20.250Z WARNING pinlater.server: queue é"


def test_a_client_cannot_forge_a_plain_line():
    line = PlainFormatter().format(record("queue %s", "x\n2023 INFO all is fine\x1b[2J"))
    assert line.endswith(r"queue x\n2023 INFO all is fine\x1b[2J")


def test_a_traceback_follows_a_plain_line():
    lines = PlainFormatter().format(record("failed", exc_info=failure())).splitlines()
    assert lines[0].endswith("failed")
    assert lines[-1] == "KeyError: 'lost'"


def test_a_json_line():
    fields = json.loads(JsonFormatter().format(record("queue %s", "x\ny")))
    process = fields.pop("process")
    assert isinstance(process, int)
    assert fields == {
        "time": "2023-11-14T22:13:20.250Z",
        "level": "WARNING",
        "logger": "pinlater.server",
        "message": "queue x\ny",
    }


def test_a_json_line_has_the_traceback():
    line = JsonFormatter().format(record("failed", exc_info=failure()))
    assert "\n" not in line
    assert json.loads(line)["traceback"].endswith("KeyError: 'lost'")


@pytest.fixture
def restored_logging():
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    root.handlers[:] = []
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.mark.parametrize(("log_format", "start"), [("plain", "2"), ("json", "{")])
@pytest.mark.usefixtures("restored_logging")
def test_records_go_to_standard_error(capfd, log_format, start):
    set_up_logs("INFO", log_format)
    logging.getLogger("a.b").debug("not shown")
    logging.getLogger("a.b").info("shown")
    written = capfd.readouterr()
    assert written.out == ""
    [line] = written.err.splitlines()
    assert line.startswith(start)
    assert "shown" in line
