"""The keeper: one process that runs no user code, and looks after the claims of those that do.

1. Renews the claims of jobs that take long, also while a job holds the interpreter.
2. Takes back jobs that wait, unstarted, behind others that take long.
3. Settles what a dead process held: the running job failed, the unstarted ones go back, no attempt spent.
"""

from __future__ import annotations

import logging
import select
import time
from collections.abc import Callable
from functools import partial

from pinlater_supervisor import Child

from pinlater.errors import CallError, CallUnsendable, ServerUnavailable, ServiceError
from pinlater.worker.claim_table.counters import Sheet
from pinlater.worker.claim_table.exit_queue import Notice, Notices
from pinlater.worker.claim_table.row import Slot
from pinlater.worker.claim_table.snapshot import HELD, RUNNING, SUCCEEDED, HeldBatch, Holding
from pinlater.worker.claim_table.table import Board
from pinlater.worker.keeper.orphan_recovery import settle_estate
from pinlater.worker.keeper.service_client import Messenger
from pinlater.worker.log_once import Complaint
from pinlater.worker.options import Options

_LOOK_SECONDS = 1.0
_STALLED_SECONDS = 1.0
_AGREE_SECONDS = 0.05
"""After this time a job process has seen that jobs were taken back, or has shown that it started them."""
_RELEASE_TIMES = 3
_LEAVE_SECONDS = 5.0
"""How long a keeper that is to stop looks for a server."""

log = logging.getLogger(__name__)


class Keeper:
    """See the module's text."""

    def __init__(self, child: Child, options: Options, board: Board, notices: Notices, sheet: Sheet) -> None:
        self._child = child
        self._board = board
        self._notices = notices
        self._sheet = sheet
        self._lease_seconds = options.lease_seconds
        self._messenger = Messenger(options.servers, f"keeper:{child.pid}", board.contact)
        self._stalled_ns = int(min(_STALLED_SECONDS, options.lease_seconds / 3) * 1e9)
        self._renew_at = time.monotonic()
        self._returned: dict[str, int] = {}
        self._last_done = time.monotonic()
        self._complaint = Complaint(log, "the server refused the keeper: %s")

    def work(self) -> None:
        """Work until told to stop, which happens when all job processes have ended.

        Also when the stop is urgent: settling what they left takes one call, and is the reason to be last.
        """
        while True:
            is_done = self._turn()
            if is_done or not self._child.draining:
                self._last_done = time.monotonic()
            if self._child.draining and not self._notices.are_pending:
                return
            if self._child.draining and time.monotonic() > self._last_done + _LEAVE_SECONDS:
                log.error("no server does it: what is not settled returns to its queues when the claims end")
                return
            self._rest(is_done)

    def _turn(self) -> bool:
        """Do what is due; return whether all of it could be done. What one duty meets with does not hold up another."""
        duties: list[Callable[[], object]] = [self._renew_when_due]
        duties += [partial(self._settle, notice) for notice in self._notices.pending()]
        duties.append(self._take_back)
        is_done = True
        for duty in duties:
            self._child.beat()
            try:
                duty()
            except ServerUnavailable as error:
                log.debug("%s", error)
                return False  # the others would not find one either
            except CallError as error:
                log.debug("%s", error)
                is_done = False
            except ServiceError as error:
                self._complaint.say(error)
                is_done = False
        if is_done:
            self._complaint.end()
        return is_done

    def _rest(self, is_done: bool) -> None:
        """Sleep until there is something to do; after trouble, for a fixed time, whoever rings."""
        poll = select.poll()
        if not self._child.draining:
            poll.register(self._child.wakeup_fd, select.POLLIN)
        seconds = min(_LOOK_SECONDS, self._lease_seconds / 3)
        if is_done:
            poll.register(self._notices.doorbell, select.POLLIN)
            seconds = min(seconds, max(self._renew_at - time.monotonic(), 0.0))
        poll.poll(seconds * 1000)

    # Deaths

    def _settle(self, notice: Notice) -> None:
        """Settle what a dead process held.

        Raises:
            CallError: no server has answered; it is to be tried again.
            ServiceError, CallUnsendable: likewise, unless the claims have ended by themselves.
        """
        try:
            settle_estate(notice, self._messenger, self._board.expect_retries, self._sheet)
        except (ServiceError, CallUnsendable) as error:
            if time.monotonic_ns() - notice.facts.died_ns < self._lease_seconds * 1e9:
                raise
            log.error("what process %d held could not be settled: %s", notice.facts.pid, error)  # noqa: TRY400
        self._notices.handled(notice)

    # Long jobs

    def _renew_when_due(self) -> None:
        if time.monotonic() >= self._renew_at:
            self._renew()
            self._renew_at = time.monotonic() + self._lease_seconds / 3

    def _renew(self) -> None:
        """Renew all claims that are older than a third of their life, and tell the processes which have ended."""
        oldest_ns = time.monotonic_ns() - int(self._lease_seconds / 3 * 1e9)
        held = [
            (slot, batch, job)
            for slot in self._board.slots()
            for batch in slot.read().batches
            if batch.fetched_ns <= oldest_ns
            for job in batch.jobs
            if job.state != HELD or not batch.is_revoked
        ]
        lost = self._messenger.renew([(job.descriptor, batch.claim) for _, batch, job in held])
        for slot, batch, job in held if lost else ():
            if (job.descriptor, batch.claim) in lost:
                slot.area(batch.number).note_lost(job.position, batch.fetched_ns)

    def _take_back(self) -> None:
        """Take back what waits behind long jobs, in agreement with the process that runs it.

        We forbid it to start more, and wait until it must have seen that. A job that is still unstarted then will
        not be started: before each start, it first shows the start on the board, then looks whether it may.
        """
        busy = [(slot, holding) for slot in self._board.slots() if self._is_stalled(holding := slot.read())]
        stalled = [slot for slot, holding in busy if self._forbid(slot, holding)]
        if stalled:
            time.sleep(_AGREE_SECONDS)
            for slot in stalled:
                self._return(slot.read())
        else:
            self._returned.clear()
        for slot, holding in busy:
            self._tell_ended(slot, holding)

    def _tell_ended(self, slot: Slot, holding: Holding) -> None:
        """Tell the successes that a process would tell with its long job: somebody may wait for them."""
        for batch in holding.batches:
            running = next((job.position for job in batch.jobs if job.state == RUNNING), 0)
            ended = [job for job in batch.jobs if job.state == SUCCEEDED and batch.sent_to <= job.position < running]
            if ended:
                self._messenger.succeeded([(job.descriptor, batch.claim) for job in ended])
                slot.area(batch.number).note_told(batch.fetched_ns, running)

    def _forbid(self, slot: Slot, holding: Holding) -> bool:
        """Forbid a process whose jobs take long to start more; return whether others wait behind it."""
        waiting = [batch for batch in holding.batches if any(job.state == HELD for job in batch.jobs)]
        for batch in waiting:
            slot.area(batch.number).revoke()
        if holding.unread:
            slot.revoke_dequeues()
        return bool(waiting or holding.unread)

    def _return(self, holding: Holding) -> None:
        revoked = [batch for batch in holding.batches if batch.is_revoked and self._is_due(_name_of(batch), times=1)]
        self._messenger.give_back(
            [(job.descriptor, batch.claim) for batch in revoked for job in batch.jobs if job.state == HELD]
        )
        for batch in revoked:
            self._note(_name_of(batch))
        for source in map(holding.identity.source_of, holding.unread):
            # More than once: the server may not have claimed anything for that dequeue yet.
            if self._is_due(source, times=_RELEASE_TIMES):
                self._messenger.release(holding.identity.queues, source)
                self._note(source)

    def _is_due(self, name: str, times: int) -> bool:
        return self._returned.get(name, 0) < times

    def _note(self, name: str) -> None:
        self._returned[name] = self._returned.get(name, 0) + 1

    def _is_stalled(self, holding: Holding) -> bool:
        """Tell whether all places of a process have been busy for long; where one is free, jobs can be started."""
        long_ago = time.monotonic_ns() - self._stalled_ns
        long_busy = sum(0 < job.since_ns < long_ago for _, job in holding.in_state(RUNNING))
        return long_busy >= holding.identity.places


def _name_of(batch: HeldBatch) -> str:
    return f"{batch.claim} {batch.number}"
