"""What a worker was told to do."""

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
class Options:
    """The settings of one worker, checked.

    Attributes:
        modules: names or paths of modules with job classes.
        servers: where to get jobs.
        pools: the job processes, and what they serve.
        burst: end when there is nothing left to do.
        lease_seconds: life of a claim that is not renewed.
        drain_seconds: time for running jobs when the worker is told to stop.
        max_jobs: a process is replaced after this many jobs; None: never.
        max_age_seconds: a process is replaced, when its job is done, once it is that old; None: never.
        max_rss_bytes: likewise, once it has that much resident memory; None: never.
        rss_ceiling_bytes: a process that has so much is killed, and its job has failed; None: never.
        health: HOST:PORT of the health page; "": there is none.
        reload: load the modules anew after each edit.
        threads: jobs that each process runs at once, in threads; None: not in threads.
        concurrency: jobs that each process runs at once, as tasks of one event loop; None: not as tasks.
        debug: one process, which reads from the terminal, and no time limits.
        on_start: ``MODULE:NAME`` of functions that each job process calls before its first job, in order.
        on_stop: likewise, when it has run its last one.
        middleware: ``MODULE:NAME`` of what surrounds each run, outermost first.
        unknown_seconds: for how long jobs that no class here reads are given back, before they fail.
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
        """The queues that were named; none if those of the job classes are to be served."""
        return tuple(queue for pool in self.pools for queue in pool.weights)

    @property
    def places(self) -> int:
        """How many jobs a process can run at once."""
        return self.threads or self.concurrency or 1

    @property
    def is_team(self) -> bool:
        """Whether processes run jobs beside their main thread, be it one at a time."""
        return self.threads is not None or self.concurrency is not None
