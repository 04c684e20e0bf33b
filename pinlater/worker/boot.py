"""Starts a job process: loads the job classes, which no other process does, and reports what is wrong with them."""

from __future__ import annotations

import difflib
import logging
import sys
import time

from pinlater_supervisor import Child, rss_bytes

from pinlater import __version__
from pinlater.errors import EXIT_CONFIG, EXIT_UNAVAILABLE, ConfigError
from pinlater.jobs.body_codec import JobCodec
from pinlater.jobs.loader import load_job_classes, load_middleware, make_codec, refuse_blocking, unnamed_queues
from pinlater.logs import report_startup_error
from pinlater.worker.endpoint import parse_address
from pinlater.worker.hooks import Hooks
from pinlater.worker.keeper.leftovers import mark_environment
from pinlater.worker.options import LIMIT_NAMES, WorkerOptions
from pinlater.worker.output import make_output_lossy
from pinlater.worker.pools import JobPool
from pinlater.worker.processes.process import JobProcess
from pinlater.worker.processes.solo import SoloProcess
from pinlater.worker.shared import Shared
from pinlater.worker.terminal import use_terminal

BURST_CONNECT_SECONDS = 5.0
_USABLE_SHARE = 0.9
"""Share of a memory limit that a process may use before its first job; the supervisor also varies limits down to it."""
EXIT_SECONDS = 5.0
"""How long a process that has acked everything may take to exit: stop hooks and exit handlers of libraries run,
and ``multiprocessing`` waits for processes that jobs left behind."""

EX_FAILED_HOOK = 1
EX_SPENT = 3
"""Exit status of a process that can open no more files; not 0, so that one of a burst is replaced, too."""

log = logging.getLogger(__name__)


def run_job_process(child: Child, options: WorkerOptions, pool: JobPool, shared: Shared) -> int:
    """Run a job process of a pool; return the exit status."""
    if options.reload:
        sys.dont_write_bytecode = True  # .pyc files are compared by seconds and size: two quick edits may look the same
    make_output_lossy()
    if options.debug:
        use_terminal()
    mark_environment(shared.origin.id)
    try:
        codec = _load_jobs(options, pool)
        hooks = Hooks(options)
        process = _new_process(child, options, pool, codec, shared)
        refuse_tight_memory(options, rss_bytes(child.pid))
    except ConfigError as error:
        if not child.draining:  # a process that is to stop anyway need not report this
            _report_error(shared, str(error))
        return EXIT_CONFIG
    if not hooks.start():
        return EX_FAILED_HOOK
    if options.burst and not process.reach_server(BURST_CONNECT_SECONDS):
        if child.draining:
            return 0
        addresses = ", ".join(map(str, options.servers.addresses()))
        _report_error(
            shared,
            f"cannot reach {addresses}; is pinlater-server running? choose another with --server or PINLATER_SERVERS",
        )
        return EXIT_UNAVAILABLE
    child.ready()
    shared.error_token.restore()  # what a later process cannot load is another error
    if shared.banner_token.acquire():
        _log_banner(options, codec)
    process.work()
    child.kill_at(time.monotonic() + EXIT_SECONDS)
    hooks.stop()
    return EX_SPENT if process.is_spent and not child.draining else 0


def check_jobs(options: WorkerOptions) -> str:
    """Load all that a job process loads, and return a line that says what there is; no server is asked.

    Raises:
        ConfigError: something cannot be loaded, or does not fit.
    """
    codecs = [_load_jobs(options, pool) for pool in options.pools]
    Hooks(options)
    load_middleware(options.middleware)
    if options.health:
        parse_address(options.health)
    _warn_of_unnamed_queues(options, codecs[0])
    pools = "; ".join(pool.describe(codecs[0].queues) for pool in options.pools)
    return f"the jobs are valid: {', '.join(codecs[0].names)}; {pools}"


def _load_jobs(options: WorkerOptions, pool: JobPool) -> JobCodec:
    kinds = load_job_classes(options.modules)
    codec = make_codec(kinds, options.queues)
    if options.concurrency is not None:
        refuse_blocking(kinds, pool.weights or codec.queues)
    return codec


def refuse_tight_memory(options: WorkerOptions, size_bytes: int) -> None:
    """Reject memory limits that a process exceeds before its first job: it would be replaced over and over.

    Args:
        options: settings of the worker.
        size_bytes: resident memory of a process before its first job.

    Raises:
        ConfigError: a limit is too low; says what a process uses.
    """
    for field in ("max_rss_bytes", "rss_ceiling_bytes"):
        limit = getattr(options, field)
        if limit is not None and size_bytes > limit * _USABLE_SHARE:
            raise ConfigError(
                f"{LIMIT_NAMES[field]} of {limit / 1e6:.0f} MB leaves no room for jobs: a process uses "
                f"{size_bytes / 1e6:.0f} MB before the first one; raise the limit"
            )


def _new_process(child: Child, options: WorkerOptions, pool: JobPool, codec: JobCodec, shared: Shared) -> JobProcess:
    if not options.is_team:
        return SoloProcess(child, options, pool, codec, shared)
    from pinlater.worker.processes.team_process import TeamProcess  # other processes need not load its modules

    return TeamProcess(child, options, pool, codec, shared)


def _report_error(shared: Shared, text: str) -> None:
    if shared.error_token.acquire():
        report_startup_error("pinlater-worker", text)


def _log_banner(options: WorkerOptions, codec: JobCodec) -> None:
    log.info(
        "pinlater-worker %s: %s at %s",
        __version__,
        "; ".join(pool.describe(codec.queues) for pool in options.pools),
        ", ".join(map(str, options.servers.addresses())),
    )
    _warn_of_unnamed_queues(options, codec)


def _warn_of_unnamed_queues(options: WorkerOptions, codec: JobCodec) -> None:
    for queue in unnamed_queues(codec, options.queues):
        near = difflib.get_close_matches(queue, codec.queues, n=1)
        log.warning(
            "no job class has the queue %r%s; only jobs enqueued with queue=… or moved there will run",
            queue,
            f" (did you mean {near[0]!r}?)" if near else "",
        )
