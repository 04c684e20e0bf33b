"""Format numbers with their nouns."""

from __future__ import annotations


def plural(count: int, noun: str = "job") -> str:
    """Format a number with its noun: ``1 job``, ``2,000 jobs``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
