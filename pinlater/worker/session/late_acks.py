"""Acks that a store did not take for a whole lease because it is away; they are sent until it is back.

No claim on a shard expires while the shard is away, nor for some seconds after. So a job can still be acked, although
its place in the claim table was freed for another one. Such acks are lost if their process ends.
"""

from __future__ import annotations

import logging
import math
import time
from dataclasses import dataclass
from functools import partial
from typing import Any

from pinlater.client.servers import STORE_OUT_OF_REACH
from pinlater.errors import CallError, CallUnsendable
from pinlater.protocol.operations import Call
from pinlater.worker.claim_table.counters import UNACKED, CountEvent
from pinlater.worker.session.pipeline import Pipeline

RETRY_SECONDS = 3.0
"""Interval between two tries. Servers expire no claims for ten seconds after a shard is back."""

MOST_JOBS = 10_000
"""Most jobs with late acks in one process; if there are more, the oldest are given up."""

log = logging.getLogger(__name__)


@dataclass(eq=False, slots=True)
class _LateCall:
    """A call that acks or releases jobs of a queue."""

    queue: str
    jobs: int
    call: Call[None]
    is_in_flight: bool = False


class LateAcks:
    """Keeps late acks, and sends them.

    Args:
        pipeline: sends the calls.
        count: called for ended jobs that no server acknowledged.
    """

    def __init__(self, pipeline: Pipeline, count: CountEvent) -> None:
        self._pipeline = pipeline
        self._count = count
        self._late: dict[_LateCall, None] = {}  # the oldest first
        self._send_at = 0.0

    @property
    def wait_seconds(self) -> float:
        """How long a dequeue may be parked, so that late acks are sent in time; infinite if there are none."""
        return RETRY_SECONDS if self._late else math.inf

    def add(self, queue: str, jobs: int, call: Call[None]) -> None:
        """Add a call that acks or releases ``jobs`` jobs of a queue."""
        self._late[_LateCall(queue, jobs, call)] = None
        while sum(late.jobs for late in self._late) > MOST_JOBS:
            self._give_up(next(iter(self._late)), f"more than {MOST_JOBS} wait for a store that is away")

    def send(self) -> None:
        """Send the late acks, if they are due."""
        now = time.monotonic()
        if not self._late or now < self._send_at or not self._pipeline.is_open:
            return
        self._send_at = now + RETRY_SECONDS
        for late in [late for late in self._late if not late.is_in_flight]:
            late.is_in_flight = True
            self._pipeline.send(late.call, partial(self._on_reply, late))

    def _on_reply(self, late: _LateCall, reply: Any) -> None:
        late.is_in_flight = False
        if late not in self._late:  # given up meanwhile
            return
        is_away = isinstance(reply, (CallError, *STORE_OUT_OF_REACH))
        if is_away and not isinstance(reply, CallUnsendable):
            return
        if isinstance(reply, Exception):
            self._give_up(late, str(reply))
        else:
            del self._late[late]
            log.info("the store has taken the end of %d jobs of queue %s", late.jobs, late.queue)

    def _give_up(self, late: _LateCall, why: str) -> None:
        del self._late[late]
        log.error("the end of %d jobs of queue %s is lost: %s", late.jobs, late.queue, why)
        self._count(late.queue, UNACKED, late.jobs)

    def close(self) -> None:
        """Give up what no store has taken."""
        for late in list(self._late):
            self._give_up(late, "the process ends before the store is back")
