"""Report the metrics and health of a server process to the admin process, over a socket in the private folder.

The admin process renders the pages, so that rendering never delays a dequeue, and several server processes share one
page. A killed process leaves a socket behind that nobody answers.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from pinlater_supervisor import rss_bytes

from pinlater.server.metrics import Metrics
from pinlater.server.metrics.families import Snapshot
from pinlater.server.metrics.reports import encode_report
from pinlater.server.metrics.shard_state import ShardState

SUFFIX = ".socket"
HEALTH = b"health"
"""Asks for a report without metrics; a caller that sends nothing gets all."""

_ASK_SECONDS = 0.1
"""How long to wait for the end of a question, which the admin process of an earlier version leaves open."""


class ReportServer:
    """Answers each connection with a report, when it has sent what it asks for, and closes it.

    Args:
        folder: the private folder of the server's processes.
        metrics: the metrics of this process.
        not_ready_reason: returns why this process cannot take calls now; None if it can.
        shards: returns the states of the store's shards.
    """

    def __init__(
        self,
        folder: Path,
        metrics: Metrics,
        not_ready_reason: Callable[[], str | None],
        shards: Callable[[], Sequence[ShardState]] = tuple,
    ) -> None:
        self._path = folder / f"{os.getpid()}{SUFFIX}"
        self._metrics = metrics
        self._not_ready_reason = not_ready_reason
        self._shards = shards
        self._started_ms = int(time.time() * 1000)
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Start answering; the socket gets its name last, since one that refuses a connection is removed."""
        starting = self._path.with_suffix(".new")
        self._server = await asyncio.start_unix_server(self._answer, starting)
        starting.rename(self._path)

    async def close(self) -> None:
        """Stop answering, and remove the socket."""
        if self._server is not None:
            self._server.close()
        self._path.unlink(missing_ok=True)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Cancelled when the process ends, which asyncio of Python 3.11 would log as an error.
        with contextlib.closing(writer.transport), contextlib.suppress(OSError, asyncio.CancelledError):
            # Copied here, which takes 30 ms with 2,000 queues; encoded in a thread, which takes longer.
            snapshot = [] if await _question(reader) == HEALTH else self._metrics.snapshot()
            reason, shards = self._not_ready_reason(), self._shards()
            writer.write(await asyncio.to_thread(self._report, reason, snapshot, shards))
            await writer.drain()

    def _report(self, reason: str | None, snapshot: Sequence[Snapshot], shards: Sequence[ShardState]) -> bytes:
        pid = os.getpid()
        return encode_report(
            pid, reason, snapshot, shards=shards, started_ms=self._started_ms, memory_bytes=rss_bytes(pid)
        )


async def _question(reader: asyncio.StreamReader) -> bytes:
    """Return what a connection asks for: all that it sends, unless it leaves its question open."""
    try:
        async with asyncio.timeout(_ASK_SECONDS):
            return await reader.read(-1)
    except TimeoutError:
        return b""
