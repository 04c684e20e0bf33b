"""What became of the batches of one turn of the relay."""

from __future__ import annotations

from dataclasses import dataclass, field

from pinlater.outbox.batch import OutboxBatch


@dataclass(slots=True)
class Settlement:
    """What is to be written into the table before the next turn.

    Attributes:
        delivered: batches that the server has stored, to be deleted.
        divided: batches that were refused, to be tried in halves.
        refused: batches that cannot be delivered for now, each with the reason.
        pause_seconds: how long to wait before the next turn.
    """

    delivered: list[OutboxBatch] = field(default_factory=list)
    divided: list[OutboxBatch] = field(default_factory=list)
    refused: list[tuple[OutboxBatch, str]] = field(default_factory=list)
    pause_seconds: float = 0.0

    def __bool__(self) -> bool:
        """Whether there is anything to write."""
        return bool(self.delivered or self.divided or self.refused)
