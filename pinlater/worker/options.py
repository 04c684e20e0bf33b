"""Settings of a worker."""

from __future__ import annotations

from dataclasses import dataclass

from pinlater.client.servers import ServerSet
from pinlater.worker.pools import JobPool

LIMIT_NAMES = {
    "max_age_seconds": "--max-age",
    "max_rss_bytes": "--max-memory",
    "rss_ceiling_bytes": "--memory-ceiling",
}
"""Field of the options -> the option that sets it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """Holds the checked settings of one worker.

    Attributes:
        modules: names or paths of modules with job classes.
        servers: servers to get jobs from.
        pools: pools of job processes.
        burst: exit when there is nothing left to do.
        lease_seconds: lifetime of a claim that is not renewed.
        drain_seconds: time for running jobs when the worker is told to stop.
        max_jobs: a process is replaced after this many jobs; None: never.
        max_age_seconds: a process of this age is replaced when its job is done; None: never.
        max_rss_bytes: likewise, a process with this much resident memory; None: never.
        rss_ceiling_bytes: a process with this much resident memory is killed and its job fails; None: never.
        health: HOST:PORT of the health checks; "": off.
        reload: reload the modules after each edit.
        threads: jobs that each process runs at once, in threads; None: not in threads.
        concurrency: jobs that each process runs at once, as tasks of one event loop; None: not as tasks.
        debug: run one process that reads from the terminal, without time limits.
        on_start: ``MODULE:NAME`` of functions that each job process calls before its first job, in order.
        on_stop: likewise, after its last job.
        middleware: ``MODULE:NAME`` of the middleware, outermost first.
        unknown_seconds: how long jobs that do not fit the code are released before they fail.
    """

    modules: tuple[str, ...]
    servers: ServerSet
    pools: tuple[JobPool, ...] = (JobPool(),)
    burst: bool = False
    lease_seconds: float = 30.0
    drain_seconds: float = 30.0
    max_jobs: int | None = None
    max_age_seconds: float | None = None
    max_rss_bytes: int | None = None
    rss_ceiling_bytes: int | None = None
    health: str = ""
    reload: bool = False
    threads: int | None = None
    concurrency: int | None = None
    debug: bool = False
    on_start: tuple[str, ...] = ()
    on_stop: tuple[str, ...] = ()
    middleware: tuple[str, ...] = ()
    unknown_seconds: float = 3 * 86400.0

    @property
    def queues(self) -> tuple[str, ...]:
        """The queues given by ``--queue``; none: those of the job classes."""
        return tuple(queue for pool in self.pools for queue in pool.weights)

    @property
    def capacity(self) -> int:
        """Number of jobs that a process can run at once."""
        return self.threads or self.concurrency or 1

    @property
    def is_team(self) -> bool:
        """Whether processes run jobs outside their main thread."""
        return self.threads is not None or self.concurrency is not None
