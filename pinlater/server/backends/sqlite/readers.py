"""The readers: a few threads with a connection each, so that reads never delay writes."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from pinlater.errors import UnknownError

_T = TypeVar("_T")

READERS = 4

READING_SWITCH_SECONDS = 0.0001
"""While one reads, threads give up the interpreter after so long, if another one wants it.

A transaction in the event loop gives it up at each statement, and has to wait for it each time. When nobody reads, the
longer time of the process is cheaper: the writer and the event loop then share the interpreter.
"""


class Readers:
    """Runs reads in threads, each with a connection of its own."""

    def __init__(self, connect: Callable[[], sqlite3.Connection]) -> None:
        self._connect = connect
        self._local = threading.local()
        self._open: list[sqlite3.Connection] = []
        self._threads = ThreadPoolExecutor(READERS, thread_name_prefix="sqlite-reader")
        self._under_way = 0
        self._switch_seconds = sys.getswitchinterval()

    async def run(self, function: Callable[..., _T], *arguments: Any) -> _T:
        """Return ``function(connection, *arguments)``.

        Raises:
            ServiceError: the function's own, or UNKNOWN when the store failed.
        """
        self._under_way += 1
        sys.setswitchinterval(min(self._switch_seconds, READING_SWITCH_SECONDS))
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, self._call, function, arguments)
        except sqlite3.Error as error:
            raise UnknownError(f"the store could not be read: {error}") from error
        finally:
            self._under_way -= 1
            if not self._under_way:
                sys.setswitchinterval(self._switch_seconds)

    def close(self) -> None:
        """Wait for reads under way, then close the connections."""
        self._threads.shutdown(wait=True, cancel_futures=True)
        for connection in self._open:
            connection.close()

    def _call(self, function: Callable[..., _T], arguments: tuple[Any, ...]) -> _T:
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = self._connect()
            self._open.append(connection)
        return function(connection, *arguments)
