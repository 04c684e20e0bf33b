"""``pinlater outbox-table``, ``outbox-relay`` and ``outbox``."""

import json
import logging
import sqlite3
from contextlib import closing

import pytest

from pinlater import Job
from pinlater.cli.outbox import _set_up_logs
from pinlater.outbox import Outbox
from pinlater.protocol.messages import PinLaterEnqueueResponse


class SendInvoice(Job, queue="invoices"):
    order: int

    def run(self, context):
        pass


@pytest.fixture
def url(tmp_path, tool_run):
    """A database with an outbox that has one job."""
    _, sql, _ = tool_run("outbox-table", "sqlite", "--table", "jobs")
    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection:
        connection.executescript(sql)
        Outbox("jobs").enqueue(connection, SendInvoice(order=7))
        connection.commit()
    return f"sqlite:///{tmp_path}/shop.db"


@pytest.mark.parametrize("database", ["postgresql", "mysql", "sqlite"])
def test_the_sql_of_a_table_is_printed(tool_run, database):
    expected = Outbox().create_table(database)
    assert tool_run("outbox-table", database) == (0, expected, "")
    assert json.loads(tool_run("outbox-table", database, "--json")[1]) == {"sql": expected}


def test_a_relay_delivers_and_ends_with_burst(tool_run, server, url, monkeypatch, caplog):
    caplog.set_level("INFO")
    monkeypatch.setattr("pinlater.cli.outbox._set_up_logs", lambda _: None)  # for this process, that is pytest's matter
    server.answer = lambda call: PinLaterEnqueueResponse(["invoices:s1:p1:1"] * len(call.arguments.request.jobs))
    assert tool_run("outbox-relay", url, "--table", "jobs", "--burst")[:2] == (0, "1 job delivered\n")
    assert "delivers the jobs of jobs" in caplog.text
    assert tool_run("outbox-relay", url, "--table", "jobs", "--burst", "--json")[1] == '{"delivered": 0}\n'


def test_a_relay_logs_times_in_utc_as_other_programs_do(monkeypatch):
    formatters = []
    monkeypatch.setattr("pinlater.logs.configure_logging", lambda level, formatter: formatters.append(formatter))
    _set_up_logs("plain")
    record = logging.makeLogRecord({"msg": "hello", "created": 1790000000.25})
    assert formatters[0].format(record).startswith("2026-09-21T14:13:20.250Z ")


def test_what_waits_is_shown(tool_run, url, tmp_path):
    status, out, _ = tool_run("outbox", url, "--table", "jobs")
    assert status == 0
    assert "waiting  1 job\n" in out
    assert "refused  0 jobs\n" in out
    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection:
        connection.execute("UPDATE jobs SET error = 'EnqueueRejected: too large', refusals = 3, retry_at_ms = 2e12")
        connection.commit()
    out = tool_run("outbox", url, "--table", "jobs")[1]
    assert "row 1 for queue invoices, refused 3 times, again at 2033-05-18T03:33:20.000Z: EnqueueRejected" in out
    found = json.loads(tool_run("outbox", url, "--table", "jobs", "--json")[1])
    assert found["refused"] == 1
    assert found["rows"][0]["error"] == "EnqueueRejected: too large"


def test_a_table_that_is_missing_is_said_to_be(tool_run, url):
    status, _, err = tool_run("outbox", url)
    assert status == 1
    assert "no such table: pinlater_outbox; create the table with: pinlater outbox-table" in err


def test_a_burst_without_its_table_ends(tool_run, url, monkeypatch):
    monkeypatch.setattr("pinlater.cli.outbox._set_up_logs", lambda _: None)
    monkeypatch.setattr("pinlater.outbox.relay._LONGEST_PAUSE_SECONDS", 0.1)
    status, out, err = tool_run("outbox-relay", url, "--burst")
    assert (status, out) == (1, "")
    assert "no such table: pinlater_outbox; create the table with: pinlater outbox-table" in err


def test_a_database_that_does_not_answer_is_not_said_to_lack_the_table(tool_run):
    status, _, err = tool_run("outbox", "postgresql://shop@127.0.0.1:1/shop")
    assert status == 1
    assert "the database: " in err
    assert "create the table" not in err


def test_the_url_may_be_in_the_environment(tool_run, url, monkeypatch):
    monkeypatch.setenv("PINLATER_OUTBOX_DATABASE", url)
    assert tool_run("outbox", "--table", "jobs")[0] == 0


def test_a_url_that_is_none_is_an_error_of_the_configuration(tool_run):
    status, _, err = tool_run("outbox", "shop.db")
    assert status == 78
    assert "a database is named by a URL" in err
