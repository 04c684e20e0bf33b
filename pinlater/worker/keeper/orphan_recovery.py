"""What becomes of the jobs that a dead process held."""

from __future__ import annotations

import logging
import socket
import time
from collections import Counter
from collections.abc import Callable

from pinlater.model.status import MAX_STATUS_CHARACTERS, format_origin
from pinlater.worker.claim_table.counters import RETURNED, Sheet
from pinlater.worker.claim_table.exit_queue import Notice
from pinlater.worker.claim_table.snapshot import (
    DISCARDED,
    FAILED,
    HELD,
    RETURNING,
    RUNNING,
    SUCCEEDED,
    HeldBatch,
    HeldJob,
)
from pinlater.worker.keeper.crashes import crash_mark, crashes_in, is_poison
from pinlater.worker.keeper.service_client import Claimed, Lost, Messenger
from pinlater.worker.session.batch import queue_of

Place = tuple[HeldBatch, HeldJob]

_UNHEARD = "failed; its process ended before it could say why\n"

log = logging.getLogger(__name__)


def settle_estate(notice: Notice, messenger: Messenger, expect_retries: Callable[[int], object], sheet: Sheet) -> None:
    """Report what had ended, fail what ran, and give back what was not started. May be done twice.

    Args:
        notice: the death.
        messenger: to say it through.
        expect_retries: told until when (monotonic milliseconds) what came back to the queues becomes due.
        sheet: where what becomes of the jobs is counted.

    Raises:
        CallError, ServiceError: the server has not done all of it.
    """
    holding, facts = notice.holding, notice.facts
    blamed = _blamed(notice)
    reports = _reports(notice, blamed, messenger)
    lost = _lost(notice) + reports
    succeeded = _in_state(notice, SUCCEEDED)
    guilty = {job.descriptor for _, job in blamed}
    innocent = [(batch, job) for batch, job in holding.in_state(RUNNING) if job.descriptor not in guilty]
    unstarted = _in_state(notice, HELD)
    cut_off = _in_state(notice, RETURNING) + [(job.descriptor, batch.claim) for batch, job in innocent]
    messenger.failed(lost)
    messenger.succeeded(succeeded)
    messenger.give_back(unstarted + cut_off)
    returned = Counter(queue_of(descriptor) for descriptor, _ in unstarted)
    for source in map(holding.identity.source_of, holding.unread):
        returned += messenger.release(holding.identity.queues, source)
    delays = [job.delay_ms for job in lost if not job.is_final]
    expect_retries(time.monotonic_ns() // 1_000_000 + max(delays, default=0) + 5)
    runs = [(job, report.ending) for (_, job), report in zip(blamed, reports, strict=True)]
    _count(sheet, facts.died_ns, [*runs, *((job, "interrupted") for _, job in innocent)], returned)
    log.info(
        "process %d has ended: of its jobs %d failed, %d had succeeded, %d go back unharmed",
        *(facts.pid, len(lost), len(succeeded), len(unstarted) + len(cut_off)),
    )


def _count(sheet: Sheet, died_ns: int, runs: list[tuple[HeldJob, str]], returned: Counter[str]) -> None:
    for job, ending in runs:
        run_ns = max(died_ns - job.since_ns, 0) if job.since_ns else 0
        sheet.note_named(queue_of(job.descriptor), job.kind, ending, run_ns)
    for queue, jobs in returned.items():
        sheet.note_event(queue, RETURNED, jobs)


def _blamed(notice: Notice) -> list[Place]:
    """Return the running jobs that are to blame for the death, or among which the one is that is.

    Where a limit was passed, that is known. All others have to go on elsewhere, no attempt spent; also one that began
    when the master had already sentenced the process: between the sentence and the kill, the stacks are dumped.
    """
    if notice.facts.was_interrupted:
        return []
    running = list(notice.holding.in_state(RUNNING))
    if notice.facts.is_timeout:
        return [(batch, job) for batch, job in running if 0 < job.kill_ns <= notice.facts.died_ns]
    return running


def _in_state(notice: Notice, state: int) -> list[Claimed]:
    return [(job.descriptor, batch.claim) for batch, job in notice.holding.in_state(state)]


def _lost(notice: Notice) -> list[Lost]:
    return [
        Lost(job.descriptor, batch.claim, f"[{_where(notice)}] {_UNHEARD}", job.delay_ms, state == DISCARDED)
        for state in (FAILED, DISCARDED)
        for batch, job in notice.holding.in_state(state)
    ]


def _reports(notice: Notice, blamed: list[Place], messenger: Messenger) -> list[Lost]:
    if notice.facts.is_timeout:
        return [_overdue_job(notice, batch, job) for batch, job in blamed]
    if len(blamed) == 1:
        return [_crashed_job(notice, *blamed[0], messenger)]
    return [_suspect(notice, batch, job, len(blamed)) for batch, job in blamed]


def _overdue_job(notice: Notice, batch: HeldBatch, job: HeldJob) -> Lost:
    """Return a job that was killed for its class's limit: a failure like that of the soft one, and no crash."""
    status = f"[{_where(notice)}] time-out: {_evidence(notice, job)}\n"
    log.error("%s: %s", job.descriptor, status.strip())
    return Lost(job.descriptor, batch.claim, status, job.delay_ms, _is_too_late(notice, job), "timed_out")


def _crashed_job(notice: Notice, batch: HeldBatch, job: HeldJob, messenger: Messenger) -> Lost:
    """Return a job that ended its process; it is given up once it has done so too often."""
    before, body = messenger.look(job.descriptor)
    crashes = crashes_in(before) + 1
    is_given_up = is_poison(crashes, body)
    status = crash_mark(_where(notice), crashes, _evidence(notice, job), is_given_up=is_given_up)
    if len(before) + len(status) > MAX_STATUS_CHARACTERS:
        messenger.note((job.descriptor, batch.claim), status)
    log.error("%s: %s", job.descriptor, status.strip())
    is_final = is_given_up or _is_too_late(notice, job)
    return Lost(job.descriptor, batch.claim, status, job.delay_ms, is_final, "poison" if is_given_up else "crashed")


def _suspect(notice: Notice, batch: HeldBatch, job: HeldJob, suspects: int) -> Lost:
    """Return a job that ran beside others when the process died: nobody knows which of them it was.

    So it is no step towards poison: jobs in the company of one that kills would be given up with it.
    """
    status = f"[{_where(notice)}] crash of one of {suspects} jobs that ran: {_evidence(notice, job)}\n"
    log.error("%s: %s", job.descriptor, status.strip())
    return Lost(job.descriptor, batch.claim, status, job.delay_ms, _is_too_late(notice, job))


def _is_too_late(notice: Notice, job: HeldJob) -> bool:
    """Tell whether the next attempt would come when the job's ``give_up_after`` is over."""
    return 0 < job.until_ns <= notice.facts.died_ns + job.delay_ms * 1_000_000


def _where(notice: Notice) -> str:
    since_seconds = (time.monotonic_ns() - notice.facts.died_ns) / 1e9
    return format_origin(socket.gethostname(), notice.facts.pid, time.time() - since_seconds)


def _evidence(notice: Notice, job: HeldJob) -> str:
    seconds = max(notice.facts.died_ns - job.since_ns, 0) / 1e9 if job.since_ns else 0.0
    verdict = " (too late to try again: its give_up_after)" if _is_too_late(notice, job) else ""
    return f"the process died while it ran {job.kind} for {seconds:.2f} s: {notice.facts.in_words}{verdict}"
