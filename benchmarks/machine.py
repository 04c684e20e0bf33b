"""The machine that figures are measured on."""

from __future__ import annotations

import contextlib
import os
import platform
import resource
import sqlite3


def describe_machine() -> str:
    """Return one line about the machine, so that figures can be compared."""
    return f"{os.cpu_count()} cores, CPython {platform.python_version()}, SQLite {sqlite3.sqlite_version}"


def raise_open_files() -> None:
    """Let this process and those it starts have as many connections as the machine allows; 1,024 is usual."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):  # some systems report a higher limit than they allow
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
