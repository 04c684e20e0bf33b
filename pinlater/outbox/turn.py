"""What became of the batches of one turn of the relay."""

from __future__ import annotations

from dataclasses import dataclass, field

from pinlater.outbox.batch import Batch


@dataclass(slots=True)
class Settlement:
    """What is to be written into the table before the next turn.

    Attributes:
        delivered: are stored by the server, and are to be deleted.
        divided: were refused, and are to be tried in halves.
        refused: cannot be delivered for now, and why.
        pause_seconds: how long to wait before the next turn.
    """

    delivered: list[Batch] = field(default_factory=list)
    divided: list[Batch] = field(default_factory=list)
    refused: list[tuple[Batch, str]] = field(default_factory=list)
    pause_seconds: float = 0.0

    def __bool__(self) -> bool:
        """Whether there is anything to write."""
        return bool(self.delivered or self.divided or self.refused)
