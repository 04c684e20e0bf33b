"""Shared memory in which job processes list their job classes for the keeper, which loads no user code."""

from __future__ import annotations

import mmap
from collections.abc import Sequence

import msgspec

from pinlater.model.workers import JobClass

CLASSES_BYTES = 16_000
"""Most bytes of job classes in a report, which may have 256 KiB in all."""

_PAGE_BYTES = 2 * CLASSES_BYTES
_decoder = msgspec.json.Decoder(list[JobClass])


class ClassPage:
    """Job classes of a worker, as last written by one of its processes.

    Processes may write at the same time; except during a reload, they write the same. A torn page reads as empty.
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
