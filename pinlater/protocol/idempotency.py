"""Idempotency keys: by them a server recognizes a call that is sent again because its answer was lost."""

from __future__ import annotations

import hashlib
import os
import time
from typing import Any

_TIME_BYTES, _RANDOM_BYTES = 6, 10


def new_key() -> bytes:
    """Return a unique key; the time comes first, so that keys made at about the same time are close in a store."""
    return int(time.time() * 1000).to_bytes(_TIME_BYTES, "big") + os.urandom(_RANDOM_BYTES)


def derived_key(key: bytes, content: bytes) -> bytes:
    """Return the key of a call with a certain content, which begins with the time of ``key``."""
    return key[:_TIME_BYTES] + hashlib.blake2b(key + content, digest_size=_RANDOM_BYTES).digest()


def may_have_been_carried_out(arguments: Any) -> None:
    """Mark a call with a key as a repeat before it is sent again; ``arguments`` is its argument struct."""
    if arguments.context.idempotencyKey is not None:
        arguments.context.isRepeat = True
