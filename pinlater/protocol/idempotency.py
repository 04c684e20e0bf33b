"""Keys by which a server knows a call again that is sent twice, because its answer did not come."""

from __future__ import annotations

import os
import time
from typing import Any

_TIME_BYTES, _RANDOM_BYTES = 6, 10


def new_key() -> bytes:
    """Return a key that no other call has; the time comes first, so that neighbours in time are those in a store."""
    return int(time.time() * 1000).to_bytes(_TIME_BYTES, "big") + os.urandom(_RANDOM_BYTES)


def may_have_been_carried_out(arguments: Any) -> None:
    """Let a call that has a key say so when it is sent again; ``arguments`` is its argument struct."""
    if arguments.context.idempotencyKey is not None:
        arguments.context.isRepeat = True
