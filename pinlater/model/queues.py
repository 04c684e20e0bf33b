"""Queues: what holds their jobs back."""

from __future__ import annotations

from typing import NamedTuple, TypeVar


class QueueSettings(NamedTuple):
    """What holds a queue's jobs back.

    Attributes:
        is_paused: nothing is handed out.
        jobs_per_second: most jobs handed out a second, by all servers together; None: no limit.
        max_running: most jobs claimed at once; None: no limit.
        is_from_file: the server's file of rate limits names the queue; what it says of the first two wins.
    """

    is_paused: bool = False
    jobs_per_second: float | None = None
    max_running: int | None = None
    is_from_file: bool = False


class QueueChange(NamedTuple):
    """A change of queue settings: None leaves a thing as it is, a limit of 0 takes it away."""

    is_paused: bool | None = None
    jobs_per_second: float | None = None
    max_running: int | None = None

    def applied_to(self, settings: QueueSettings) -> QueueSettings:
        """Return the settings after the change."""
        return settings._replace(
            is_paused=settings.is_paused if self.is_paused is None else self.is_paused,
            jobs_per_second=_limit(settings.jobs_per_second, self.jobs_per_second),
            max_running=_limit(settings.max_running, self.max_running),
        )


_Number = TypeVar("_Number", float, int)


def _limit(present: _Number | None, wanted: _Number | None) -> _Number | None:
    return present if wanted is None else wanted or None
