"""Keep the last usable content of files, for server processes that start while a file cannot be used."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable
from pathlib import Path

_CHECKSUM_BYTES = 4


class KeptContents:
    """Shares, among the processes of a server, the content of each file that one of them used last.

    The master creates it before it forks. It is in memory, since files of shards hold passwords.

    Args:
        paths: the files; contents of others are not kept.
    """

    def __init__(self, paths: Iterable[Path] = ()) -> None:
        self._memory = {path: os.memfd_create("pinlater-file") for path in paths}

    def keep(self, path: Path, content: bytes) -> None:
        """Keep the content of a file, which this process uses from now on."""
        memory = self._memory.get(path)
        if memory is not None:
            os.ftruncate(memory, os.pwrite(memory, _checksum(content) + content, 0))

    def last(self, path: Path) -> bytes | None:
        """Return the content that was kept last; None if there is none, or its process died while it wrote it."""
        memory = self._memory.get(path)
        if memory is None:
            return None
        kept = os.pread(memory, os.fstat(memory).st_size, 0)
        checksum, content = kept[:_CHECKSUM_BYTES], kept[_CHECKSUM_BYTES:]
        return content if checksum == _checksum(content) else None


NOTHING_KEPT = KeptContents()


def _checksum(content: bytes) -> bytes:
    return zlib.crc32(content).to_bytes(_CHECKSUM_BYTES, "big")
