"""Have glibc's allocator return the memory of large blocks to the system. With other C libraries it does nothing.

By default, once a block of up to 32 MiB was freed, glibc keeps later blocks up to that size when they are freed, in a
heap for each thread. After large calls, a server would keep tens of megabytes more than it holds.
"""

from __future__ import annotations

import ctypes

_LARGE_BLOCK_BYTES = 4 * 1024 * 1024
"""Blocks of at least this size get pages of their own, which are returned when they are freed."""

_SPARE_BYTES = 16 * 1024 * 1024
"""Free memory that stays at the end of the heap."""

_M_TRIM_THRESHOLD = -1  # the numbers are those of malloc.h
_M_MMAP_THRESHOLD = -3


def return_large_blocks() -> None:
    """Set up the allocator of this process."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return
    mallopt(_M_MMAP_THRESHOLD, _LARGE_BLOCK_BYTES)
    mallopt(_M_TRIM_THRESHOLD, _SPARE_BYTES)
