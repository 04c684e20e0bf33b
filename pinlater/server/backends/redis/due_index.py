"""The due index: tells the monitor which queues to check, so that it need not check all of them.

The script that claims jobs also indexes the claim, so the monitor misses none, whichever server made it.
"""

from __future__ import annotations

import random

from pinlater.server.backends.redis.script_calls import ScriptRunner

_KEY = "earliest"
"""What the names of the shard's index keys begin with."""

_MAX_QUEUES = 1000
"""Most queues of each kind that one lookup returns."""


async def due_queues(scripts: ScriptRunner, *kinds_and_ages: str | int) -> list[list[str]]:
    """Return the queues of each kind that are due for a check, in random order, so that none is always last.

    Args:
        scripts: runs scripts on the shard.
        kinds_and_ages: by turns, a kind and an age in ms: ``claims`` that may have expired for so long, ``S`` and
            ``F``, succeeded and failed jobs that may be older, or ``failures``, failure groups that may be empty.
    """
    found = await scripts.run_for_shard("due_queues", _KEY, _MAX_QUEUES, *kinds_and_ages)
    queues = [[name.decode() for name in names] for names in found]
    for names in queues:
        random.shuffle(names)
    return queues


async def forget_queue(scripts: ScriptRunner, queue: str) -> None:
    """Remove a queue that was not found, unless it exists by now."""
    await scripts.run_for_shard("forget_due_queue", _KEY, queue)
