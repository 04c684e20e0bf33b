"""What a store tells without being asked: that other servers made jobs claimable."""

from __future__ import annotations

from collections.abc import Callable


class JobNotifications:
    """Stands between a store, which hears of jobs, and whoever wants to know; before that, nobody is told.

    Attributes:
        on_job: takes a queue, and when its new job falls due, in epoch milliseconds; None: now.
        on_gap: is called when something may have gone unheard.
    """

    def __init__(self) -> None:
        self.on_job: Callable[[str, int | None], None] = lambda _queue, _due_ms: None
        self.on_gap: Callable[[], None] = lambda: None
