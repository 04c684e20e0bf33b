"""Notifications of a store: other servers have made jobs claimable."""

from __future__ import annotations

from collections.abc import Callable


class JobNotifications:
    """Passes notifications of a store on to its listeners; without listeners, they are dropped.

    Attributes:
        on_job: called with a queue, and when its new job falls due, in epoch milliseconds; None: now.
        on_gap: called when notifications may have been lost.
    """

    def __init__(self) -> None:
        self.on_job: Callable[[str, int | None], None] = lambda _queue, _due_ms: None
        self.on_gap: Callable[[], None] = lambda: None
