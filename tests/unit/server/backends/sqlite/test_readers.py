"""The readers: what they do beside the event loop, which carries out transactions meanwhile."""

import asyncio
import sqlite3
import sys
import threading

import pytest

from pinlater.errors import UnknownError
from pinlater.server.backends.sqlite.readers import READING_SWITCH_SECONDS, Readers


def connect():
    return sqlite3.connect(":memory:", check_same_thread=False)


def fail(connection):
    connection.execute("SELECT nothing")


@pytest.fixture
def usual():
    """How long a thread keeps the interpreter when nobody reads."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(0.002)
    yield pytest.approx(0.002)
    sys.setswitchinterval(before)


def test_a_thread_keeps_the_interpreter_for_a_shorter_time_while_any_reads(usual):
    async def scenario():
        readers, may_end = Readers(connect), threading.Event()
        first = asyncio.create_task(readers.run(lambda _: may_end.wait(30)))
        assert await readers.run(lambda _: sys.getswitchinterval()) == pytest.approx(READING_SWITCH_SECONDS)
        with pytest.raises(UnknownError, match="could not be read"):
            await readers.run(fail)
        assert sys.getswitchinterval() == pytest.approx(READING_SWITCH_SECONDS)
        may_end.set()
        assert await first
        assert sys.getswitchinterval() == usual
        readers.close()

    asyncio.run(scenario())
