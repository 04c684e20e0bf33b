"""The server process's side of the admin port: it tells what it has counted, over a socket in a private folder.

Pages are made by another process, so that rendering them never keeps a dequeue waiting, and so that several server
processes have one page. A process that is killed leaves its socket behind; nobody answers there any more.
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


class Reporter:
    """Answers every connection with a report, and closes it.

    Args:
        folder: shared with the admin process, and with nobody else.
        metrics: the process's.
        is_ready: returns None, or the reason why this process should get no calls now.
        shards: returns how the store's shards are.
    """

    def __init__(
        self,
        folder: Path,
        metrics: Metrics,
        is_ready: Callable[[], str | None],
        shards: Callable[[], Sequence[ShardState]] = tuple,
    ) -> None:
        self._path = folder / f"{os.getpid()}{SUFFIX}"
        self._metrics = metrics
        self._is_ready = is_ready
        self._shards = shards
        self._started_ms = int(time.time() * 1000)
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Begin to answer."""
        self._server = await asyncio.start_unix_server(self._answer, self._path)

    async def close(self) -> None:
        """Answer no more."""
        if self._server is not None:
            self._server.close()
        self._path.unlink(missing_ok=True)

    async def _answer(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Copied here and encoded in a thread: with many queues that takes a while, and there are jobs to hand out.
        snapshot, reason, shards = self._metrics.snapshot(), self._is_ready(), self._shards()
        with contextlib.closing(writer.transport):
            writer.write(await asyncio.to_thread(self._report, reason, snapshot, shards))
            with contextlib.suppress(OSError):
                await writer.drain()

    def _report(self, reason: str | None, snapshot: Sequence[Snapshot], shards: Sequence[ShardState]) -> bytes:
        pid = os.getpid()
        return encode_report(
            pid, reason, snapshot, shards=shards, started_ms=self._started_ms, memory_bytes=rss_bytes(pid)
        )
