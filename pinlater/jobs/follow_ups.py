"""Follow-up jobs: each is enqueued once per run of the job that enqueues it."""

from __future__ import annotations

import hashlib

from pinlater.jobs.enqueue_options import FollowUpOptions

KEPT_MS = 86_400_000
"""How long a server is asked to remember a follow-up, since attempts may be hours apart."""

_MOST_CHARACTERS = 200
_MOST_TIME = 2**48 - 1


def follow_up_key(descriptor: str, run: int, use: str) -> str:
    """Return the unique key of a follow-up: a second one is not stored while the first waits or runs.

    Args:
        descriptor: address of the job that enqueues it.
        run: number of earlier runs of that job; each run has separate follow-ups.
        use: name under which the follow-up is recorded, such as ``mail#2``.

    Raises:
        ValueError: the name is too long.
    """
    key = f"{descriptor}/{run}/{use}"
    if len(key) > _MOST_CHARACTERS:
        raise ValueError(f"the name of a follow-up job is too long, {len(use)} characters: {use[:60]!r}...")
    return key


def set_unique_key(options: FollowUpOptions, key: str) -> None:
    """Give a follow-up its unique key, unless it was enqueued with one.

    Raises:
        ValueError: it has an option about a unique key, but no unique key.
    """
    if options.get("unique") is not None:
        return
    for name in ("unique_until", "unique_for", "on_duplicate", "max_delay"):
        if options.get(name) is not None:
            raise ValueError(f"{name} is about the key of unique=…, which is not given")
    options["unique"] = key


def idempotency_key(key: str, created_at_ms: int | None) -> bytes:
    """Return the idempotency key of a follow-up, which identifies it even after it has ended.

    Args:
        key: the key that ``follow_up_key`` returned.
        created_at_ms: when the job that enqueues it was enqueued: a new store assigns the same descriptors again.
    """
    moment = min(max(created_at_ms or 0, 0), _MOST_TIME)
    return moment.to_bytes(6, "big") + hashlib.blake2b(key.encode(), digest_size=10).digest()
