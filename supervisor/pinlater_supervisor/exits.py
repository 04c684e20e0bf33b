"""How a child ended, as a record and as text."""

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
"""Exit code of a child that lacks something it needs; stops the supervisor if the first start is not over."""
TIME_OUT = "time-out"
"""Kill reason of a child that exceeded its `Child.kill_at`."""
MEMORY_CEILING = "memory ceiling"
"""Kill reason of a child that exceeded `Pool.rss_ceiling_bytes`."""
EX_SOFTWARE = 70
"""Exit code when the supervisor itself failed."""
EX_CONFIG = 78
"""Exit code of a child that cannot boot, and for which a retry would not help."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildExit:
    """How one child ended.

    Attributes:
        pool: name of its pool.
        slot: its number in the pool; free again only after `on_exit` returned.
        pid: its former process id.
        generation: how many reloads the supervisor had seen when it started.
        code: exit code, None if a signal ended it.
        signal: the signal that ended it, None if it exited.
        peak_rss_bytes: the most resident memory it had.
        run_seconds: from fork to reaping.
        was_ready: whether it had called `Child.ready()`.
        stopping: whether the master had asked it to stop.
        has_returned: whether its `run` returned; an exit before that, as by `os._exit`, is a crash, whatever the code.
        killed_by_master: why the master killed it, None if it did not.
        kill_detail: what the master had measured then, as text.
        oom_suspected: whether a SIGKILL ended it that the master did not send, and the kernel's count of out-of-memory
            kills in our cgroup has grown.
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
        """Return one line for logs and job histories, e.g. `killed by SIGKILL (perhaps out of memory), peak 212 MB, ran 3.2 s`."""  # noqa: E501 - an example is one line
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
            return "while it was working"
        return "" if self.was_ready or self.stopping else "before it was ready"


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def split_status(status: int) -> tuple[int | None, int | None]:
    """Split a wait status into (exit code, signal), one of which is None."""
    code = os.waitstatus_to_exitcode(status)
    return (code, None) if code >= 0 else (None, -code)


def peak_rss_bytes(usage: struct_rusage) -> int:
    # Linux counts kilobytes, macOS bytes.
    return usage.ru_maxrss if sys.platform == "darwin" else usage.ru_maxrss * 1024
