"""Job descriptors: ``queue:s<shard>:p<priority>:<local id>`` (wire contract §7)."""

from __future__ import annotations

import re
from typing import NamedTuple

from pinlater.errors import UnknownError

_FORM = re.compile(r"([A-Za-z0-9_]+):s([^:]+):p(\d{1,9}):(\d{1,19})", re.ASCII)


class JobDescriptor(NamedTuple):
    """The address of one job; opaque to clients.

    Attributes:
        queue: queue name.
        shard: name of the shard that keeps the job, as configured there.
        priority: priority level, 1 is served first.
        local_id: number of the job within its shard (MySQL: within shard and priority).
    """

    queue: str
    shard: str
    priority: int
    local_id: int

    def __str__(self) -> str:
        return f"{self.queue}:s{self.shard}:p{self.priority}:{self.local_id}"

    @classmethod
    def parse(cls, text: str) -> JobDescriptor:
        """Read the canonical form.

        The original also took sloppy variants such as ``q:X1:Z1:+7``; we do not, since nothing
        produces them and each would be a second name of the same job.

        Raises:
            UnknownError: ``text`` is no descriptor (the original answers UNKNOWN, too).
        """
        match = _FORM.fullmatch(text)
        if match is None:
            raise UnknownError(f"malformed job descriptor {text[:200]!r}: expected queue:s<shard>:p<priority>:<id>")
        queue, shard, priority, local_id = match.groups()
        return cls(queue, shard, int(priority), int(local_id))
