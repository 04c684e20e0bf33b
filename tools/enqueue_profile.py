"""Prints how many of our functions a server calls for one enqueue of one job, from its frame to its reply.

    python tools/enqueue_profile.py           how many
    python tools/enqueue_profile.py --names   which, in order, indented under their callers

The server has an SQLite store, and runs in this process. Of several enqueues, the one with the fewest calls counts,
because timers add calls to others. A coroutine that resumes after a wait counts as called again.
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
    """Records calls, in this thread and in those started later.

    Attributes:
        calls: calls of our functions, as nesting depth and name.
    """

    def __init__(self) -> None:
        self.calls: list[tuple[int, str]] = []
        threading.setprofile(self._note)
        sys.setprofile(self._note)

    def _note(self, frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and _is_ours(frame):
            self.calls.append((_depth(frame), _name(frame)))


def _is_ours(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith(_OURS)


def _depth(frame: FrameType) -> int:
    """Return how many of our functions are among the callers of a frame; 0 for what the event loop calls."""
    depth, above = 0, frame.f_back
    while above is not None:
        depth += _is_ours(above)
        above = above.f_back
    return depth


def _name(frame: FrameType) -> str:
    module = Path(frame.f_code.co_filename).relative_to(_OURS)
    return f"{frame.f_code.co_name}  {module}:{frame.f_code.co_firstlineno}"


async def _fewest_calls(folder: Path) -> list[tuple[int, str]]:
    profile = _Profile()
    settings = Settings(data_dir=folder, thrift_host="127.0.0.1", thrift_port=0)
    parts = await ServerParts.start(settings, lambda: int(time.time() * 1000))
    host, _, port = parts.address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    codec, calls = Codec(), Calls("profile")

    async def made(call: Call[Any]) -> list[tuple[int, str]]:
        frame = codec.encode_call(call.method, 1, call.arguments)
        profile.calls.clear()
        writer.write(frame)
        await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
        return profile.calls.copy()

    await made(calls.create_queue("mail"))
    made_calls = [await made(calls.enqueue_jobs("mail", [NewJob(b"{}")])) for _ in range(_ENQUEUES)]
    writer.close()
    await parts.stop()
    return min(made_calls, key=len)


def main() -> None:
    """Print the number, or the names."""
    with tempfile.TemporaryDirectory() as folder:
        calls = asyncio.run(_fewest_calls(Path(folder)))
    if "--names" in sys.argv:
        for depth, name in calls:
            print("  " * depth + name)
    else:
        print(len(calls))


if __name__ == "__main__":
    main()
