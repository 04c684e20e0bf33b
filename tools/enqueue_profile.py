"""Prints how many functions of ours a server calls for one enqueue of one job, from its frame to its reply.

    python tools/enqueue_profile.py

The server is one on a SQLite store, without processes around it. Of several enqueues, the one with the fewest calls
counts, since timers come in between.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import threading
import time
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "supervisor")]

from pinlater.model.jobs import NewJob  # noqa: E402 - this file is a script, run from anywhere
from pinlater.protocol.codec import Codec  # noqa: E402
from pinlater.protocol.operations import Call, Calls  # noqa: E402
from pinlater.server.config.settings import Settings  # noqa: E402
from pinlater.testing.server_parts import ServerParts  # noqa: E402

_OURS = str(ROOT / "pinlater")
_ENQUEUES = 20


class _Profile:
    """Counts calls, in all threads that begin after it."""

    def __init__(self) -> None:
        self.count = 0
        threading.setprofile(self._note)
        sys.setprofile(self._note)

    def _note(self, frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(_OURS):
            self.count += 1


async def _fewest_calls(folder: Path) -> int:
    profile = _Profile()
    settings = Settings(data_dir=folder, thrift_host="127.0.0.1", thrift_port=0)
    parts = await ServerParts.start(settings, lambda: int(time.time() * 1000))
    host, _, port = parts.address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    codec, calls = Codec(), Calls("profile")

    async def made(call: Call[Any]) -> int:
        frame = codec.encode_call(call.method, 1, call.arguments)
        profile.count = 0
        writer.write(frame)
        await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
        return profile.count

    await made(calls.create_queue("mail"))
    counts = [await made(calls.enqueue_jobs("mail", [NewJob(b"{}")])) for _ in range(_ENQUEUES)]
    writer.close()
    await parts.stop()
    return min(counts)


def main() -> None:
    """Print the number."""
    with tempfile.TemporaryDirectory() as folder:
        print(asyncio.run(_fewest_calls(Path(folder))))


if __name__ == "__main__":
    main()
