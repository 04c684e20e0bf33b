"""Rendezvous hashing: the order of shards for a key; when a shard comes or goes, the others stay in their order."""

from __future__ import annotations

import hashlib


def rank(shard: str, key: str) -> bytes:
    """Return the rank of a shard for a key."""
    return hashlib.blake2b(f"{shard}\0{key}".encode(), digest_size=8).digest()
