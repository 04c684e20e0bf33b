"""The start of a job process: loading the user's code, which happens in no other process, and saying what is wrong."""

from __future__ import annotations

import difflib
import logging
import sys
import time

from pinlater_supervisor import Child, rss_bytes

from pinlater import __version__
from pinlater.errors import EXIT_CONFIG, EXIT_UNAVAILABLE, ConfigError
from pinlater.jobs.body_codec import JobCodec
from pinlater.jobs.loader import load_job_classes, make_codec, refuse_plain, unnamed_queues
from pinlater.logs import report_startup_error
from pinlater.worker.hooks import Hooks
from pinlater.worker.keeper.leftovers import mark_environment
from pinlater.worker.options import LIMIT_NAMES, Options
from pinlater.worker.output import show_output
from pinlater.worker.pools import JobPool
from pinlater.worker.processes.process import JobProcess
from pinlater.worker.processes.solo import SoloProcess
from pinlater.worker.shared import Shared
from pinlater.worker.terminal import take_terminal

BURST_PATIENCE_SECONDS = 5.0
_ROOM = 0.9
"""Part of a limit of memory that a process may take before its first job. Limits are spread down to that, too."""
LEAVE_SECONDS = 5.0
"""How long a process that has settled everything may take to leave. Jobs' libraries register what is to be done then,
and ``multiprocessing`` waits for processes that jobs have left behind."""

EX_FAILED_HOOK = 1

log = logging.getLogger(__name__)


def run_job_process(child: Child, options: Options, pool: JobPool, shared: Shared) -> int:
    """Live as a job process of a pool; return the exit status."""
    if options.reload:
        sys.dont_write_bytecode = True  # it is told from stale by seconds and size: two quick edits can look the same
    show_output()
    if options.debug:
        take_terminal()
    mark_environment(shared.origin.id)
    try:
        kinds = load_job_classes(options.modules)
        codec = make_codec(kinds, options.queues)
        if options.concurrency is not None:
            refuse_plain(kinds, pool.weights or codec.queues)
        hooks = Hooks(options)
        process = _new_process(child, options, pool, codec, shared)
        refuse_tight_memory(options, rss_bytes(child.pid))
    except ConfigError as error:
        if not child.draining:  # else it is old news
            _complain(shared, str(error))
        return EXIT_CONFIG
    if not hooks.start():
        return EX_FAILED_HOOK
    if options.burst and not process.reach_server(BURST_PATIENCE_SECONDS):
        if child.draining:
            return 0
        addresses = ", ".join(map(str, options.servers.addresses()))
        _complain(
            shared,
            f"cannot reach {addresses}; is pinlater-server running? choose another with --server or PINLATER_SERVERS",
        )
        return EXIT_UNAVAILABLE
    child.ready()
    if shared.banner.take():
        _say_hello(options, codec)
    process.work()
    child.kill_at(time.monotonic() + LEAVE_SECONDS)
    hooks.stop()
    return 0


def refuse_tight_memory(options: Options, size_bytes: int) -> None:
    """Refuse limits that a process would pass by being there, and be replaced for over and over.

    Args:
        options: with the limits.
        size_bytes: resident memory of a process before its first job.

    Raises:
        ConfigError: and what a process takes.
    """
    for field in ("max_rss_bytes", "rss_ceiling_bytes"):
        limit = getattr(options, field)
        if limit is not None and size_bytes > limit * _ROOM:
            raise ConfigError(
                f"{LIMIT_NAMES[field]} of {limit / 1e6:.0f} MB leaves no room for jobs: a process takes "
                f"{size_bytes / 1e6:.0f} MB before the first one; allow more"
            )


def _new_process(child: Child, options: Options, pool: JobPool, codec: JobCodec, shared: Shared) -> JobProcess:
    if not options.is_team:
        return SoloProcess(child, options, pool, codec, shared)
    from pinlater.worker.processes.team_process import TeamProcess  # others need not have its modules in memory

    return TeamProcess(child, options, pool, codec, shared)


def _complain(shared: Shared, text: str) -> None:
    if shared.complaint.take():
        report_startup_error("pinlater-worker", text)


def _say_hello(options: Options, codec: JobCodec) -> None:
    log.info(
        "pinlater-worker %s: %s at %s",
        __version__,
        "; ".join(pool.in_words(codec.queues) for pool in options.pools),
        ", ".join(map(str, options.servers.addresses())),
    )
    for queue in unnamed_queues(codec, options.queues):
        near = difflib.get_close_matches(queue, codec.queues, n=1)
        log.warning(
            "no job class has the queue %r%s; this worker runs what was enqueued there with queue=… or moved there",
            queue,
            f" (did you mean {near[0]!r}?)" if near else "",
        )
