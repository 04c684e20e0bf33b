"""Resident memory of processes, and out-of-memory kills by the kernel."""

from __future__ import annotations

import mmap
from pathlib import Path


def rss_bytes(pid: int) -> int:
    """Return the resident memory of a process in bytes; 0 if it is gone."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_bytes().split()[1]) * mmap.PAGESIZE
    except (OSError, IndexError):
        return 0


class OomCounter:
    """Watches the kernel's count of out-of-memory kills in our cgroup. Best effort."""

    def __init__(self, files: list[Path] | None = None) -> None:
        self._files = _counter_files() if files is None else files
        self._seen = self._read()

    def has_grown(self) -> bool:
        """Whether the kernel has killed a process since the last call."""
        before, self._seen = self._seen, self._read()
        return self._seen > before

    def _read(self) -> int:
        return sum(_oom_kills(path) for path in self._files)


def _counter_files() -> list[Path]:
    try:
        lines = Path("/proc/self/cgroup").read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return []
    return [path for line in lines for path in _candidates(line) if path.is_file()]


def _candidates(line: str) -> list[Path]:
    """Return the counter files for one line of /proc/self/cgroup, e.g. `0::/system.slice/x.service`."""
    _, controllers, group = [*line.split(":", 2), "", ""][:3]
    group = group.lstrip("/")
    if not controllers:
        return [Path("/sys/fs/cgroup", group, "memory.events")]
    if "memory" in controllers.split(","):
        return [Path("/sys/fs/cgroup/memory", group, "memory.oom_control")]
    return []


def _oom_kills(path: Path) -> int:
    try:
        fields = dict(line.split(maxsplit=1) for line in path.read_text(encoding="ascii").splitlines())
        return int(fields.get("oom_kill", 0))
    except (OSError, ValueError):
        return 0
