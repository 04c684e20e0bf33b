"""How many jobs an enqueue call may have at most, as callers choose it."""

from __future__ import annotations


def check_batch_size(batch_size: int) -> None:
    """Refuse a maximum number of jobs in a call that lets no job through.

    Raises:
        ValueError: it is less than 1.
    """
    if batch_size < 1:
        raise ValueError(f"batch_size={batch_size} must be at least 1")
