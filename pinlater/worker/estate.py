"""What becomes of the jobs that a dead process held."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Callable

from pinlater_supervisor import DUMP_SECONDS

from pinlater.worker.crashes import STATUS_ROOM, crash_mark, crashes_in, is_poison
from pinlater.worker.holding import DISCARDED, FAILED, HELD, RUNNING, SUCCEEDED, HeldBatch, HeldJob
from pinlater.worker.messenger import Claimed, Lost, Messenger
from pinlater.worker.notices import Notice

_UNHEARD = "failed; its process ended before it could say why\n"

log = logging.getLogger(__name__)


def settle_estate(notice: Notice, messenger: Messenger, expect_retries: Callable[[int], object]) -> None:
    """Report what had ended, fail what ran, and give back what was not started. May be done twice.

    Args:
        notice: the death.
        messenger: to say it through.
        expect_retries: told until when (monotonic milliseconds) retries become due.

    Raises:
        CallError, ServiceError: the server has not done all of it.
    """
    holding, facts = notice.holding, notice.facts
    lost = _lost(notice) + _crashed(notice, messenger)
    succeeded = _in_state(notice, SUCCEEDED)
    returned = _in_state(notice, HELD) + (_in_state(notice, RUNNING) if _is_excused(notice) else [])
    messenger.failed(lost)
    messenger.succeeded(succeeded)
    messenger.give_back(returned)
    for source in map(holding.identity.source_of, holding.unread):
        messenger.release(holding.identity.queues, source)
    delays = [job.delay_ms for job in lost if not job.is_final]
    if delays:
        expect_retries(time.monotonic_ns() // 1_000_000 + max(delays) + 5)
    log.info(
        "process %d has ended: of its jobs %d failed, %d had succeeded, %d go back unharmed",
        *(facts.pid, len(lost), len(succeeded), len(returned)),
    )


def _is_excused(notice: Notice) -> bool:
    """Tell whether the job that ran is not to blame for the death.

    Nor is one that began when the master had already sentenced the process for the one before: between the sentence
    and the kill, the stacks are dumped.
    """
    return notice.facts.was_interrupted or (notice.facts.is_timeout and _ran_seconds(notice) < DUMP_SECONDS)


def _in_state(notice: Notice, state: int) -> list[Claimed]:
    return [
        (job.descriptor, batch.claim) for batch in notice.holding.batches for job in batch.jobs if job.state == state
    ]


def _lost(notice: Notice) -> list[Lost]:
    return [
        Lost(job.descriptor, batch.claim, _UNHEARD, job.delay_ms, job.state == DISCARDED)
        for batch in notice.holding.batches
        for job in batch.jobs
        if job.state in {FAILED, DISCARDED}
    ]


def _crashed(notice: Notice, messenger: Messenger) -> list[Lost]:
    """Return the job that ran, if it is to blame."""
    if _is_excused(notice):
        return []
    return [
        _overdue_job(notice, batch, job) if notice.facts.is_timeout else _crashed_job(notice, batch, job, messenger)
        for batch in notice.holding.batches
        for job in batch.jobs
        if job.state == RUNNING
    ]


def _overdue_job(notice: Notice, batch: HeldBatch, job: HeldJob) -> Lost:
    """Return a job that was killed for its class's limit: a failure like that of the soft one, and no crash."""
    status = f"[{_where(notice)}] time-out: {_evidence(notice)}\n"
    log.error("%s: %s", job.descriptor, status.strip())
    return Lost(job.descriptor, batch.claim, status, job.delay_ms, is_final=False)


def _crashed_job(notice: Notice, batch: HeldBatch, job: HeldJob, messenger: Messenger) -> Lost:
    """Return a job that ended its process; it is given up once it has done so too often."""
    before = messenger.statuses([job.descriptor]).get(job.descriptor, "")
    crashes = crashes_in(before) + 1
    status = crash_mark(_where(notice), crashes, _evidence(notice))
    if len(before) + len(status) > STATUS_ROOM:
        messenger.note((job.descriptor, batch.claim), status)
    log.error("%s: %s", job.descriptor, status.strip())
    return Lost(job.descriptor, batch.claim, status, job.delay_ms, is_poison(crashes))


def _where(notice: Notice) -> str:
    return f"{socket.gethostname()} {notice.facts.pid}"


def _evidence(notice: Notice) -> str:
    kind, seconds = notice.holding.running_kind, _ran_seconds(notice)
    return f"the process died while it ran {kind} for {seconds:.2f} s: {notice.facts.in_words}"


def _ran_seconds(notice: Notice) -> float:
    return max(notice.facts.died_ns - notice.holding.running_since_ns, 0) / 1e9
