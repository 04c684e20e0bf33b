"""Shared memory in which a job process tells the keeper, which loads no user code, which job classes there are."""

from __future__ import annotations

import mmap
from collections.abc import Sequence

import msgspec

from pinlater.model.workers import JobClass

CLASSES_BYTES = 16_000
"""Size of the classes in a report, of at most 256 KiB."""

_PAGE_BYTES = 2 * CLASSES_BYTES
_decoder = msgspec.json.Decoder(list[JobClass])


class ClassPage:
    """Job classes of a worker, as the process that started last has written them.

    Processes may write at the same time: they have the same classes, but during a reload. What is torn is not read.
    """

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, _PAGE_BYTES)

    def write(self, classes: Sequence[JobClass]) -> None:
        """Write the classes, if they fit."""
        text = msgspec.json.encode(classes)
        if len(text) < _PAGE_BYTES:
            self._memory[: len(text) + 1] = text + b"\0"

    def read(self) -> list[JobClass]:
        """Return the classes; none if nothing was written, or is being written."""
        text, _, _ = self._memory[:].partition(b"\0")
        try:
            return _decoder.decode(text) if text else []
        except (msgspec.DecodeError, UnicodeDecodeError):
            return []
