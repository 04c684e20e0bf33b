"""A job that blocks the event loop of the others."""

import logging
import time

from tests.unit.worker.processes.team_jobs import DEADLINE_SECONDS, Awaited, gate


def test_a_job_that_blocks_the_loop_is_named_once_each_time(tasks, monkeypatch, caplog):
    monkeypatch.setattr("pinlater.worker.processes.loop_watch.BLOCKED_SECONDS", 0.05)
    caplog.set_level(logging.WARNING, "pinlater.worker.processes.loop_watch")
    for occurrence in (1, 2):
        tasks.start(Awaited(how="block"))
        deadline = time.monotonic() + DEADLINE_SECONDS
        while len(caplog.records) < occurrence and time.monotonic() < deadline:
            tasks.turn()
        for _ in range(3):
            tasks.turn()
        gate.set()
        assert list(tasks.outcomes(1).values()) == [None]
        gate.clear()
        assert len(caplog.records) == occurrence
        text = caplog.records[-1].getMessage()
        assert f"by jobs:s1:p1:{occurrence}:" in text
        assert "in block" in text


def test_a_loop_that_waits_is_not_blocked(tasks, monkeypatch, caplog):
    monkeypatch.setattr("pinlater.worker.processes.loop_watch.BLOCKED_SECONDS", 0.05)
    tasks.start(Awaited(how="gate"))
    began = time.monotonic()
    while time.monotonic() < began + 0.3:
        tasks.turn()
    assert caplog.records == []


def test_without_running_jobs_no_blocked_loop_is_reported(tasks):
    tasks.run(Awaited(how="fail later"))
    assert tasks.team.check() is None
