"""Settings of a pool of child processes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pinlater_supervisor.child import Child

Run = Callable[["Child"], "int | None"]

KillAt = Callable[[int], float]
"""Returns when the child in a slot is to be killed, on `time.monotonic()`; inf: never."""


@dataclass(slots=True, kw_only=True, eq=False)
class Pool:
    """A pool: children that run the same function, kept at `size`.

    Attributes:
        name: the pool's name in logs and in `ChildExit.pool`.
        run: called in the forked process; its result is the exit code, None means 0.
        size: how many children there should be.
        most: largest size that SIGTTIN may set; None: no limit.
        title: start of the children's process title; the supervisor's name and `name` if empty.
        stop_order: pools stop in rising order; each order is asked to stop once all lower ones are gone.
        hang_seconds: longest silence between two `Child.beat()` of a ready child before it is killed.
        ready_seconds: longest time from the fork to `Child.ready()` before the child is killed.
        max_age_seconds: a child older than this is drained and replaced.
        max_rss_bytes: a child with more resident memory than this is drained and replaced.
        rss_ceiling_bytes: a ready child with more resident memory than this is killed at once.
        recycle_seconds: time for a child that is replaced for age or memory to finish its work; inf: as long as it
            takes. Its replacement starts when it is gone. None: it has the `drain_seconds` of the supervisor, as in all
            other cases, beside its replacement.
        kill_at: called for each child at every check; returns a time-out that others than the child set, in addition to
            the child's own `Child.kill_at`. Whoever moves it to an earlier time has to wake the master.
        limit_names: name of a limit above -> its name in the log, such as the option that set it.
        recycle_jitter: limits of age and memory are spread by up to this fraction, so that children
            started together are not replaced together.
        restart: whether a child that ends with 0 is replaced; a crashed one is replaced in any case.
        awaits_reload: whether a child that cannot boot (exit code 78) stops nothing; the pool then starts no more
            children until the next reload. For development.
        overlap: whether a replacement may run beside the child it replaces. False for children that own something
            exclusively, such as a file or a port: the old one is gone before the new one starts.
    """

    name: str
    run: Run
    size: int = 1
    most: int | None = None
    title: str = ""
    stop_order: int = 0
    hang_seconds: float | None = None
    ready_seconds: float | None = None
    max_age_seconds: float | None = None
    max_rss_bytes: int | None = None
    rss_ceiling_bytes: int | None = None
    recycle_seconds: float | None = None
    kill_at: KillAt | None = None
    limit_names: Mapping[str, str] = field(default_factory=dict)
    recycle_jitter: float = 0.1
    restart: bool = True
    awaits_reload: bool = False
    overlap: bool = True

    def __post_init__(self) -> None:
        if self.size < 0:
            raise ValueError(f"pool {self.name!r}: size is {self.size}, it must be 0 or more")
        if not 0 <= self.recycle_jitter < 1:
            raise ValueError(f"pool {self.name!r}: recycle_jitter is {self.recycle_jitter}, not in [0, 1)")
        if self.recycle_seconds is not None and not self.recycle_seconds >= 0:
            raise ValueError(f"pool {self.name!r}: recycle_seconds is {self.recycle_seconds}, it starts at 0")
        for limit in ("hang_seconds", "ready_seconds", "max_age_seconds", "max_rss_bytes", "rss_ceiling_bytes"):
            value = getattr(self, limit)
            if value is not None and value <= 0:
                raise ValueError(f"pool {self.name!r}: {limit} is {value}, it must be above 0 (None: no limit)")

    def called(self, limit: str) -> str:
        """Return the name of a limit for the log."""
        return self.limit_names.get(limit, limit)
