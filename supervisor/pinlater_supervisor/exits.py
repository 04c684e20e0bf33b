"""How a child ended, as data and in words."""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from resource import struct_rusage

EX_OK = 0
EX_UNAVAILABLE = 69
"""A child that leaves with this before it is ready, in the first start, lacks something it needs."""
TIME_OUT = "time-out"
"""Why a child was killed that had asked for it with `Child.kill_at`."""
MEMORY_CEILING = "memory ceiling"
"""Why a child was killed that had more memory than `Pool.rss_ceiling_bytes`."""
EX_SOFTWARE = 70
"""The machinery itself failed."""
EX_CONFIG = 78
"""A child that leaves with this before it is ready cannot boot, and trying again will not help."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildExit:
    """The end of one child.

    Attributes:
        pool: name of its pool.
        slot: its number in the pool; free again only after `on_exit` returned.
        pid: its process id, no longer in use by it.
        generation: how many reloads the supervisor had seen when it started.
        code: exit code, None if a signal ended it.
        signal: the signal that ended it, None if it exited.
        peak_rss_bytes: the most resident memory it had.
        run_seconds: from fork to reaping.
        was_ready: whether it had called `Child.ready()`.
        stopping: whether the master had asked it to stop.
        has_returned: whether its `run` came to an end; `os._exit` in the midst of it is a crash, whatever the code.
        killed_by_master: why the master killed it, None if it did not.
        kill_detail: what the master had measured then, for people.
        oom_suspected: whether the kernel's count of out-of-memory kills in our cgroup grew.
    """

    pool: str
    slot: int
    pid: int
    generation: int
    code: int | None
    signal: int | None
    peak_rss_bytes: int
    run_seconds: float
    was_ready: bool
    stopping: bool
    has_returned: bool = True
    killed_by_master: str | None = None
    kill_detail: str = ""
    oom_suspected: bool = False

    @property
    def is_clean(self) -> bool:
        return self.code == EX_OK and self.has_returned

    @property
    def is_expected(self) -> bool:
        """Whether nothing went wrong: it ended with 0, or by the signal that asked it to stop."""
        if self.killed_by_master is not None:
            return False
        return self.is_clean or (self.stopping and self.signal in {signal.SIGTERM, signal.SIGQUIT})

    def in_words(self) -> str:
        """One line for logs and job histories, e.g. `killed by SIGKILL (perhaps out of memory), peak 212 MB, ran 3.2 s`."""  # noqa: E501 - an example is one line
        return f"{self._cause()}, peak {self.peak_rss_bytes / 1e6:.0f} MB, ran {self.run_seconds:.1f} s"

    def _cause(self) -> str:
        cause = f"exited with {self.code}" if self.signal is None else f"killed by {signal_name(self.signal)}"
        remark = self._remark()
        return f"{cause} ({remark})" if remark else cause

    def _remark(self) -> str:
        if self.killed_by_master is not None:
            return ": ".join(filter(None, (self.killed_by_master, self.kill_detail)))
        if self.signal == signal.SIGKILL:
            return "out of memory" if self.oom_suspected else "perhaps out of memory"
        if self.code == EX_CONFIG and not self.was_ready:
            return "cannot boot"
        if self.code is not None and self.was_ready and not self.has_returned:
            return "in the midst of its work"
        return "" if self.was_ready or self.stopping else "before it was ready"


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def split_status(status: int) -> tuple[int | None, int | None]:
    """A wait status as (exit code, signal), one of which is None."""
    code = os.waitstatus_to_exitcode(status)
    return (code, None) if code >= 0 else (None, -code)


def peak_rss_bytes(usage: struct_rusage) -> int:
    # Linux counts kilobytes, macOS bytes.
    return usage.ru_maxrss if sys.platform == "darwin" else usage.ru_maxrss * 1024
