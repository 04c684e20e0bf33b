"""What holds for all tests.

Thousands of them, collected, are no garbage that must be looked for again and again. And a shell that starts the tests
in its background has SIGINT ignored; programs that the tests start would inherit that, and not end on ^C.
"""

import gc
import signal

import pytest

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def patience(monkeypatch):
    """However busy the machine is, no call of a store is given up."""
    for limit in (
        "mysql.connection.CONNECT_SECONDS", "mysql.database.CALL_SECONDS",
        "mysql.group_commit.ATTEMPT_SECONDS", "mysql.group_commit.RETRY_SECONDS",
        "redis.connection.CONNECT_SECONDS", "redis.connection.ANSWER_SECONDS",
        "sharded.fan_out.PATIENCE_SECONDS", "sharded.due_priorities.PATIENCE_SECONDS",
        "sharded.placement._PATIENCE_SECONDS", "sharded.queue_locks._PATIENCE_SECONDS",
        "sharded.poll_of_all.PATIENCE_SECONDS", "sharded.server_list.PATIENCE_SECONDS",
        "sharded.reports.PATIENCE_SECONDS",
    ):  # fmt: skip
        monkeypatch.setattr(f"pinlater.server.backends.{limit}", 60.0)


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()
