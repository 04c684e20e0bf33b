"""Runs the worker's master, which supervises its processes, runs no jobs and has no connection."""

from __future__ import annotations

import logging
import signal
import time
from contextlib import nullcontext
from math import inf

from pinlater_supervisor import MEMORY_CEILING, TIME_OUT, Child, ChildExit, Pool, Supervisor

from pinlater.worker.boot import run_job_process
from pinlater.worker.claim_table.counters import UNKNOWN
from pinlater.worker.claim_table.exit_queue import ExitInfo
from pinlater.worker.claim_table.snapshot import SOLO_LAYOUT, read_snapshot, team_layout
from pinlater.worker.endpoint import listen
from pinlater.worker.keeper.cancel_watch import CancelWatch
from pinlater.worker.keeper.lease_renewer import Keeper
from pinlater.worker.keeper.leftovers import end_leftovers
from pinlater.worker.keeper.report import pids_of
from pinlater.worker.keeper.reporter import WorkerReporter
from pinlater.worker.metrics import WorkerMetrics
from pinlater.worker.options import LIMIT_NAMES, WorkerOptions
from pinlater.worker.pools import JobPool
from pinlater.worker.reloader import watch_modules
from pinlater.worker.shared import Shared
from pinlater.worker.terminal import restored_terminal

_SHORTEST_HANG_SECONDS, _LONGEST_HANG_SECONDS = 8.0, 60.0

log = logging.getLogger(__name__)


def run_worker(options: WorkerOptions) -> int:
    """Run a worker until it is told to stop or its burst is over; return the exit status.

    Raises:
        ConfigError: the health checks cannot be served at their address.
    """
    listener = listen(options.health) if options.health else None
    shared = Shared.for_pools(options.pools, team_layout(options.capacity) if options.is_team else SOLO_LAYOUT)
    metrics = WorkerMetrics(shared)
    if listener is not None:
        listener.route("/metrics", metrics.page)

    def note(ended: ChildExit) -> None:
        if ended.pool in shared.row_numbers:
            post_exit(ended, shared)
            metrics.count_exit(ended)

    pools = [*(_job_pool(pool, options, shared) for pool in options.pools), _keeper_pool(options, shared)]
    if options.reload:
        pools.append(_reload_pool(options))
    supervisor = Supervisor(
        pools,
        name="pinlater-worker",
        drain_seconds=options.drain_seconds,
        on_exit=note,
        on_reload=shared.restore_tokens,
        on_stop=shared.stopping.set,
        listener=listener,
        unready=shared.claim_table.contact_problem,
    )
    with restored_terminal() if options.debug else nullcontext():
        status = supervisor.run()
    if options.burst:
        _log_unknown_jobs(shared)
    return status


def _log_unknown_jobs(shared: Shared) -> None:
    """Log which jobs a burst has left in their queues because their class is unknown."""
    for (queue, name), counts in sorted(shared.counters.counts(()).items()):
        if name and counts.endings[UNKNOWN]:
            log.warning(
                "jobs of class %s were left in queue %s, since this worker does not know the class; see their status",
                name,
                queue,
            )


def _job_pool(pool: JobPool, options: WorkerOptions, shared: Shared) -> Pool:
    def run(child: Child) -> int:
        return run_job_process(child, options, pool, shared)

    return Pool(
        name=pool.name,
        run=run,
        size=pool.processes,
        most=len(shared.row_numbers[pool.name]) // 2,  # so that a second generation has rows, too
        title=f"pinlater-worker: {pool.name}",
        restart=not options.burst,
        max_age_seconds=options.max_age_seconds,
        max_rss_bytes=options.max_rss_bytes,
        rss_ceiling_bytes=options.rss_ceiling_bytes,
        awaits_reload=options.reload,
        recycle_seconds=inf,  # a long job must not suffer from the age of its process
        limit_names=LIMIT_NAMES,
        kill_at=lambda slot: shared.row(pool.name, slot).cancel_kill_at() if shared.has_row(pool.name, slot) else inf,
    )


def _keeper_pool(options: WorkerOptions, shared: Shared) -> Pool:
    def end_leftovers_of_jobs() -> None:
        end_leftovers(shared.origin.id, pids_of(shared))

    def run(child: Child) -> int:
        child.on_master_death(end_leftovers_of_jobs)
        child.ready()
        counters = shared.counters.keeper
        counters.load_rows()
        with (
            WorkerReporter(options.servers, shared, child.generation),
            CancelWatch(child, options.servers, shared.claim_table),
        ):
            Keeper(child, options, shared.claim_table, shared.exit_queue, counters).work()
        return 0

    return Pool(
        name="keeper",
        run=run,
        title="pinlater-worker: keeper",
        stop_order=1,  # it recovers the jobs of the job processes
        hang_seconds=keeper_hang_seconds(options.lease_seconds),
        overlap=False,  # two keepers would recover the same exits, and one could remove what the other has not handled
    )


def keeper_hang_seconds(lease_seconds: float) -> float:
    """Return how long the keeper may be silent before it is replaced: its replacement has to renew the claims in time.

    When it was about to renew them, half of their lease may be over. What is left suffices with leases of 20 seconds
    and more. With shorter ones, claims may expire and their jobs run again: a keeper that waits for a slow server must
    not count as hung.
    """
    return min(max(lease_seconds / 3, _SHORTEST_HANG_SECONDS), _LONGEST_HANG_SECONDS)


def _reload_pool(options: WorkerOptions) -> Pool:
    def run(child: Child) -> None:
        watch_modules(child, options.modules)

    return Pool(name="reload", run=run, title="pinlater-worker: reload")


def post_exit(ended: ChildExit, shared: Shared) -> None:
    """Post what a job process held when it ended to the keeper, and clear its row for the next one."""
    if not shared.has_row(ended.pool, ended.slot):
        return
    row = shared.row(ended.pool, ended.slot)
    area = row.copy()
    if not read_snapshot(area, shared.claim_table.layout).is_empty:
        _post(ended, area, shared)
    shared.counters.retire(shared.row_numbers[ended.pool][ended.slot])
    row.clear()  # last, so that its claims are always in the table or the queue


def _post(ended: ChildExit, area: bytes, shared: Shared) -> None:
    info = ExitInfo(
        ended.pid,
        ended.in_words(),
        was_interrupted(ended),
        time.monotonic_ns(),
        time.time(),
        is_timeout=ended.killed_by_master == TIME_OUT,
    )
    if not shared.exit_queue.post(info, area):
        log.error(
            "exit queue is full; the jobs of process %d return to their queues when their claims expire", ended.pid
        )


def was_interrupted(ended: ChildExit) -> bool:
    """Tell whether the worker ended the process itself, so that its job is not to blame."""
    if ended.killed_by_master in {TIME_OUT, MEMORY_CEILING}:
        return False
    was_ended_by_worker = ended.killed_by_master is not None or ended.is_clean
    return ended.stopping and (was_ended_by_worker or ended.signal in {signal.SIGTERM, signal.SIGQUIT})
