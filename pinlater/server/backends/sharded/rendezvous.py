"""Rendezvous hashing: an order of shards for each key, in which adding or removing one does not reorder the others."""

from __future__ import annotations

import hashlib


def rank(shard: str, key: str) -> bytes:
    """Return the rank of a shard for a key."""
    return hashlib.blake2b(f"{shard}\0{key}".encode(), digest_size=8).digest()
