"""The kind of file system that a folder is on."""

from __future__ import annotations

import os
import re
from pathlib import Path

MOUNTS = Path("/proc/self/mounts")
"""One mount per line: device, mount point, kind and more; see proc(5) and fstab(5)."""

_ESCAPED = re.compile(r"\\([0-7]{3})")
"""An escaped space, tab, newline or backslash in a mount point."""


def file_system_of(folder: Path) -> str | None:
    """Return the kind of file system that a folder is on, such as ``ext4``; None if the mounts cannot be read.

    Args:
        folder: absolute path without symbolic links.
    """
    try:
        lines = os.fsdecode(MOUNTS.read_bytes()).splitlines()
    except OSError:
        return None
    nearest, kind = -1, None
    for line in lines:
        place, its_kind = line.split(" ")[1:3]
        place = _ESCAPED.sub(lambda code: chr(int(code[1], 8)), place)
        if folder.is_relative_to(place) and len(place) >= nearest:  # the later of two mounts hides the earlier one
            nearest, kind = len(place), its_kind
    return kind
