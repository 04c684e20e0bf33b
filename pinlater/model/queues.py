"""Queues: what holds their jobs back."""

from __future__ import annotations

from typing import NamedTuple


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
        defaults = QueueSettings._field_defaults
        changed = {name: value or defaults[name] for name, value in self._asdict().items() if value is not None}
        return settings._replace(**changed)
