"""What producers, consumers and jobs see, in files that survive the death of their writers."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any


class Journal:
    """A file with a line for each event; each is written immediately, by one system call.

    Args:
        folder: folder of all journals.
        writer: name of the writer; each writer has a separate journal.
    """

    def __init__(self, folder: Path, writer: str) -> None:
        self._writer = writer
        self._file = os.open(folder / f"{writer}.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def write(self, event: str, *, at: float | None = None, **fields: Any) -> float:
        """Add an event; return its time, in monotonic seconds, which all processes of a machine share."""
        moment = time.monotonic() if at is None else at
        line = json.dumps({"event": event, "at": moment, "writer": self._writer, **fields})
        os.write(self._file, f"{line}\n".encode())
        return moment


def read_journals(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield all events; those of one writer are in order."""
    for file in sorted(folder.glob("*.jsonl")):
        for line in file.read_text().splitlines():
            yield json.loads(line)
