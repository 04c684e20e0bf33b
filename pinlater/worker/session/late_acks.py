"""Acks that a store did not take for a whole lease because it is away; they are sent until it is back.

Their jobs keep their places in the claim table until other jobs need them. As long as a job has its place, the keeper
renews its claim as soon as the shard is back, acks it if this process is busy, and recovers it if the process ends. No
claim on a shard expires while the shard is away, nor for some seconds after. So a job without a place can still be
acked, but only by its process; one that runs one job at a time does that between two of them.
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
from pinlater.model.plural import plural
from pinlater.protocol.operations import Call
from pinlater.worker.claim_table.counters import UNACKED, CountEvent
from pinlater.worker.session.pipeline import Pipeline
from pinlater.worker.session.queue_acks import QueueAcks

RETRY_SECONDS = 3.0
"""Longest interval between two tries. Servers expire no claims for ten seconds, or a lease if that is shorter, after a
shard is back."""
_TRIES_PER_LEASE = 3

MOST_JOBS = 10_000
"""Most jobs with late acks in one process; if there are more, the oldest are given up."""

log = logging.getLogger(__name__)


@dataclass(eq=False, slots=True)
class _LateCall:
    """A call that acks or releases jobs of a queue.

    Attributes:
        queue: the queue.
        jobs: number of the jobs.
        call: the call.
        places: the jobs, as long as they have their places in the claim table.
        is_in_flight: whether the call was sent and has no reply yet.
    """

    queue: str
    jobs: int
    call: Call[None]
    places: QueueAcks | None
    is_in_flight: bool = False

    def free_places(self) -> bool:
        """Free the places of the jobs; return False if that was done before."""
        places, self.places = self.places, None
        if places is not None:
            places.finish()
        return places is not None


class LateAcks:
    """Keeps late acks, and sends them.

    Args:
        pipeline: sends the calls.
        count: called for ended jobs that no server acknowledged.
    """

    def __init__(self, pipeline: Pipeline, count: CountEvent) -> None:
        self._pipeline = pipeline
        self._count = count
        self._retry_seconds = min(RETRY_SECONDS, pipeline.lease_seconds / _TRIES_PER_LEASE)
        self._late: dict[_LateCall, None] = {}  # the oldest first
        self._send_at = 0.0

    @property
    def wait_seconds(self) -> float:
        """How long a dequeue may be parked, so that late acks are sent in time; infinite if there are none."""
        return self._retry_seconds if self._late else math.inf

    def add(self, queue_acks: QueueAcks, call: Call[None]) -> None:
        """Add acks or releases, and the call that sends them."""
        self._late[_LateCall(queue_acks.queue, len(queue_acks), call, queue_acks)] = None
        while sum(late.jobs for late in self._late) > MOST_JOBS:
            self._give_up(next(iter(self._late)), f"more than {MOST_JOBS} wait for a store that is away")

    def free_places(self) -> bool:
        """Free the places of the oldest late acks that have any; return False if there are none."""
        return any(late.free_places() for late in self._late)

    def drop_acked(self) -> None:
        """Drop acks of jobs that the keeper has acked."""
        for late in [late for late in self._late if late.places is not None and late.places.are_lost]:
            self._drop(late)

    def send(self) -> None:
        """Send the late acks, if they are due."""
        now = time.monotonic()
        if not self._late or now < self._send_at or not self._pipeline.is_open:
            return
        self._send_at = now + self._retry_seconds
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
            self._drop(late)
            log.info("the store has taken the end of %s of queue %s", plural(late.jobs), late.queue)

    def _give_up(self, late: _LateCall, why: str) -> None:
        self._drop(late)
        log.error("the end of %s of queue %s is lost: %s", plural(late.jobs), late.queue, why)
        self._count(late.queue, UNACKED, late.jobs)

    def _drop(self, late: _LateCall) -> None:
        del self._late[late]
        late.free_places()

    def close(self) -> None:
        """Give up what no store has taken, except jobs that have a place: the keeper recovers them."""
        for late in [late for late in self._late if late.places is None]:
            self._give_up(late, "the process ends before the store is back")
