"""Claims whose answers were lost: nobody works on their jobs, so they are given back before their leases end."""

from __future__ import annotations

import contextlib
import logging

from pinlater.errors import QueueNotFound
from pinlater.server.backends.redis.asking import Asker
from pinlater.server.backends.redis.working import release

log = logging.getLogger(__name__)

_LOOKS = 3
"""A claim may be carried out after its caller has given up, when a stopped server goes on: so once is not enough."""


class Strays:
    """The claims of one shard that may have been made for nobody."""

    def __init__(self) -> None:
        self._looks: dict[tuple[str, str], int] = {}

    def add(self, queue: str, claim: str) -> None:
        """Take note of a claim that has no answer."""
        self._looks[queue, claim] = _LOOKS

    async def give_back(self, asker: Asker) -> None:
        """Return what the strays hold to their queues, no attempt spent; to be called again and again.

        Raises:
            ServiceError: of the shard; what was not given back is tried again at the next call.
        """
        for (queue, claim), left in list(self._looks.items()):
            released = 0
            with contextlib.suppress(QueueNotFound):
                released = await release(asker, queue, by="claim", which=claim)
            if released:
                log.warning("queue %s: %d jobs were claimed for an answer that got lost; given back", queue, released)
            if left > 1:
                self._looks[queue, claim] = left - 1
            else:
                self._looks.pop((queue, claim), None)
