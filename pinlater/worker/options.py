"""What a worker was told to do."""

from __future__ import annotations

from dataclasses import dataclass

from pinlater.client.servers import ServerSet


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The settings of one worker, checked.

    Attributes:
        modules: names or paths of modules with job classes.
        servers: where to get jobs.
        processes: job processes.
        queues: queues to serve; none means those of the job classes.
        burst: end when there is nothing left to do.
        lease_seconds: life of a claim that is not renewed.
        drain_seconds: time for running jobs when the worker is told to stop.
        max_jobs: a process is replaced after this many jobs; None: never.
    """

    modules: tuple[str, ...]
    servers: ServerSet
    processes: int = 1
    queues: tuple[str, ...] = ()
    burst: bool = False
    lease_seconds: float = 30.0
    drain_seconds: float = 30.0
    max_jobs: int | None = None
