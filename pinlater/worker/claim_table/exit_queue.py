"""Queue of exited job processes, from the master to the keeper.

Entries stay in shared memory until the keeper has recovered the jobs, so none is lost if the keeper dies or no server
is reachable. An event wakes the keeper.
"""

from __future__ import annotations

import mmap
import socket
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from pinlater.model.status import format_origin
from pinlater.worker.claim_table.snapshot import SOLO_LAYOUT, ClaimSnapshot, Layout, read_snapshot
from pinlater.worker.pipe_event import PipeEvent

_INFO_BYTES = 4096
_FREE, _POSTED = range(2)


class ExitInfo(msgspec.Struct, frozen=True):
    """Describes how a job process ended.

    Attributes:
        pid: process id.
        description: cause of the exit, memory, run time.
        was_interrupted: whether the worker ended it, so that its job is not to blame.
        died_ns: monotonic time when the master reaped it.
        died_at: the same in epoch seconds; fixed here, since a crash is recognized by it in the status of its job.
        is_timeout: whether it was killed for a time limit of its job.
    """

    pid: int
    description: str
    was_interrupted: bool
    died_ns: int
    died_at: float
    is_timeout: bool = False

    @property
    def origin(self) -> str:
        """The process and its end, for the status of its jobs."""
        return format_origin(socket.gethostname(), self.pid, self.died_at)


@dataclass(frozen=True, slots=True)
class ProcessExit:
    """An exited process with the claims that it held."""

    entry: int
    info: ExitInfo
    snapshot: ClaimSnapshot


class ExitQueue:
    """Holds the exits whose jobs are not recovered yet; the master creates it before it forks.

    Args:
        entries: most exits in the queue.
        layout: layout of the rows.

    Attributes:
        posted: set when an exit was posted.
    """

    def __init__(self, entries: int, layout: Layout = SOLO_LAYOUT) -> None:
        self._layout = layout
        self._entry_bytes = _INFO_BYTES + layout.row_bytes
        states_bytes = -(-entries // mmap.PAGESIZE) * mmap.PAGESIZE
        memory = memoryview(mmap.mmap(-1, states_bytes + entries * self._entry_bytes))
        self._states = memory[:entries]
        self._entries = memory[states_bytes:]
        self.posted = PipeEvent()

    @property
    def has_pending(self) -> bool:
        """Whether the queue has an entry."""
        return any(bytes(self._states))

    def post(self, info: ExitInfo, area: bytes) -> bool:
        """Post an exit with a copy of the process's row; return False if the queue is full."""
        entry = bytes(self._states).find(_FREE)
        if entry < 0:
            return False
        text = msgspec.json.encode(info)
        start = entry * self._entry_bytes
        self._entries[start : start + _INFO_BYTES] = text.ljust(_INFO_BYTES)[:_INFO_BYTES]
        self._entries[start + _INFO_BYTES : start + _INFO_BYTES + len(area)] = area
        self._states[entry] = _POSTED
        self.posted.set()
        return True

    def pending(self) -> Iterator[ProcessExit]:
        """Yield all entries; clear ``posted`` first."""
        self.posted.clear()
        for entry, state in enumerate(bytes(self._states)):
            if state == _POSTED:
                start = entry * self._entry_bytes
                data = bytes(self._entries[start : start + self._entry_bytes])
                info = msgspec.json.decode(data[:_INFO_BYTES], type=ExitInfo)
                yield ProcessExit(entry, info, read_snapshot(data[_INFO_BYTES:], self._layout))

    def remove(self, ended: ProcessExit) -> None:
        """Remove an entry."""
        self._states[ended.entry] = _FREE
