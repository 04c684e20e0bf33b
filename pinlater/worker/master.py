"""Puts the worker's processes together; runs in the master, which runs no job and has no connection."""

from __future__ import annotations

import logging
import signal
import time
from contextlib import nullcontext
from math import inf

from pinlater_supervisor import MEMORY_CEILING, TIME_OUT, Child, ChildExit, Pool, Supervisor

from pinlater.worker.boot import run_job_process
from pinlater.worker.claim_table.counters import UNKNOWN
from pinlater.worker.claim_table.exit_queue import Facts
from pinlater.worker.claim_table.snapshot import ALONE, read_holding, team_layout
from pinlater.worker.endpoint import listen
from pinlater.worker.figures import Figures
from pinlater.worker.keeper.lease_renewer import Keeper
from pinlater.worker.keeper.leftovers import end_leftovers
from pinlater.worker.keeper.reporter import Reporter
from pinlater.worker.options import LIMIT_NAMES, Options
from pinlater.worker.pools import JobPool
from pinlater.worker.reloader import watch_modules
from pinlater.worker.shared import Shared
from pinlater.worker.terminal import terminal_given_back

_SHORTEST_HANG_SECONDS, _LONGEST_HANG_SECONDS = 10.0, 60.0

log = logging.getLogger(__name__)


def run_worker(options: Options) -> int:
    """Run a worker until it is told to stop, or its burst is over; return the exit status.

    Raises:
        ConfigError: its health page cannot be served where it was told to.
    """
    listener = listen(options.health) if options.health else None
    shared = Shared.for_pools(options.pools, team_layout(options.places) if options.is_team else ALONE)
    figures = Figures(shared)
    if listener is not None:
        listener.route("/metrics", figures.page)

    def note(ended: ChildExit) -> None:
        if ended.pool in shared.places:
            note_exit(ended, shared)
            figures.note_exit(ended)

    pools = [*(_job_pool(pool, options, shared) for pool in options.pools), _keeper_pool(options, shared)]
    if options.reload:
        pools.append(_reload_pool(options))
    supervisor = Supervisor(
        pools,
        name="pinlater-worker",
        drain_seconds=options.drain_seconds,
        on_exit=note,
        on_reload=shared.renew,
        on_stop=shared.stopping.set,
        listener=listener,
        unready=shared.board.why_out_of_contact,
    )
    with terminal_given_back() if options.debug else nullcontext():
        status = supervisor.run()
    if options.burst:
        _say_unknown(shared)
    return status


def _say_unknown(shared: Shared) -> None:
    """Say which jobs a burst has left in their queues, though they were due."""
    for (queue, name), counts in sorted(shared.tally.counts(()).items()):
        if name and counts.endings[UNKNOWN]:
            log.warning(
                "jobs of class %s were left in queue %s: no worker here knows them; their status says why", name, queue
            )


def _job_pool(pool: JobPool, options: Options, shared: Shared) -> Pool:
    def run(child: Child) -> int:
        return run_job_process(child, options, pool, shared)

    return Pool(
        name=pool.name,
        run=run,
        size=pool.processes,
        title=f"pinlater-worker: {pool.name}",
        restart=not options.burst,
        max_age_seconds=options.max_age_seconds,
        max_rss_bytes=options.max_rss_bytes,
        rss_ceiling_bytes=options.rss_ceiling_bytes,
        awaits_reload=options.reload,
        recycle_seconds=inf,  # a job that takes long is not to blame for the age of its process
        limit_names=LIMIT_NAMES,
    )


def _keeper_pool(options: Options, shared: Shared) -> Pool:
    def end_leftovers_of_jobs() -> None:
        end_leftovers(shared.origin.id, [slot.identity.pid for pool in shared.places for slot in shared.slots(pool)])

    def run(child: Child) -> int:
        child.on_master_death(end_leftovers_of_jobs)
        child.ready()
        sheet = shared.tally.keeper
        sheet.reopen()
        with Reporter(options.servers, shared):
            Keeper(child, options, shared.board, shared.notices, sheet).work()
        return 0

    return Pool(
        name="keeper",
        run=run,
        title="pinlater-worker: keeper",
        stop_order=1,  # it settles what the job processes leave behind
        hang_seconds=keeper_hang_seconds(options.lease_seconds),
    )


def keeper_hang_seconds(lease_seconds: float) -> float:
    """Return how long a keeper may be silent: another one has to renew its claims, a third of them old, in time.

    Short leases are no reason to take a slow server's answer for a keeper that hangs.
    """
    return min(max(lease_seconds / 2, _SHORTEST_HANG_SECONDS), _LONGEST_HANG_SECONDS)


def _reload_pool(options: Options) -> Pool:
    def run(child: Child) -> None:
        watch_modules(child, options.modules)

    return Pool(name="reload", run=run, title="pinlater-worker: reload")


def note_exit(ended: ChildExit, shared: Shared) -> None:
    """Tell the keeper what a job process held when it ended, and clear its slot for the next."""
    slot = shared.slot(ended.pool, ended.slot)
    area = slot.copy()
    if not read_holding(area, shared.board.layout).is_empty:
        _post(ended, area, shared)
    shared.tally.fold(shared.places[ended.pool][ended.slot])
    slot.clear()  # last, so that what it held can be seen in one place or the other


def _post(ended: ChildExit, area: bytes, shared: Shared) -> None:
    facts = Facts(
        ended.pid, ended.in_words(), was_interrupted(ended), time.monotonic_ns(), ended.killed_by_master == TIME_OUT
    )
    if not shared.notices.post(facts, area):
        log.error("too many deaths that nobody could report; the jobs of %d return when their claims end", ended.pid)


def was_interrupted(ended: ChildExit) -> bool:
    """Tell whether a process ended because we wanted it to, so that its job is not to blame."""
    if ended.killed_by_master in {TIME_OUT, MEMORY_CEILING}:
        return False
    was_ended_by_us = ended.killed_by_master is not None or ended.is_clean
    return ended.stopping and (was_ended_by_us or ended.signal in {signal.SIGTERM, signal.SIGQUIT})
