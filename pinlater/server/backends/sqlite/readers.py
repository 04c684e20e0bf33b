"""The readers: a few threads, each with its own connection, so that reads never delay writes."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from pinlater.errors import UnknownError

_T = TypeVar("_T")

READERS = 4


class Readers:
    """Runs reads in threads, each with its own connection."""

    def __init__(self, connect: Callable[[], sqlite3.Connection]) -> None:
        self._connect = connect
        self._local = threading.local()
        self._open: list[sqlite3.Connection] = []
        self._threads = ThreadPoolExecutor(READERS, thread_name_prefix="sqlite-reader")

    async def run(self, function: Callable[..., _T], *arguments: Any) -> _T:
        """Return ``function(connection, *arguments)``.

        Raises:
            ServiceError: raised by the function, or ``UnknownError`` if the store failed.
        """
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, self._call, function, arguments)
        except sqlite3.Error as error:
            raise UnknownError(f"the store could not be read: {error}") from error

    def close(self) -> None:
        """Wait for running reads, then close the connections."""
        self._threads.shutdown(wait=True, cancel_futures=True)
        for connection in self._open:
            connection.close()

    def _call(self, function: Callable[..., _T], arguments: tuple[Any, ...]) -> _T:
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = self._connect()
            self._open.append(connection)
        return function(connection, *arguments)
