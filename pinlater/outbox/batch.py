"""Rows of an outbox that one call delivers."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field

from pinlater.errors import BodyInvalid
from pinlater.protocol.messages import PinLaterJob
from pinlater.protocol.stored_jobs import stored_job

_TIME_BYTES = 6


@dataclass(slots=True)
class OutboxBatch:
    """Jobs of one queue that one call delivers; the key of the call is stored with them before it is made.

    Attributes:
        key: idempotency key of the call.
        queue: name of the queue.
        is_repeat: whether the call may have been made before, by this relay or another one.
        rows: how many rows of the table have its key; 0 until the key is stored.
        ids: ids of the rows, in their order.
        stored: id -> body and options, of the rows that have been read.
        was_refused: whether its rows were set aside before, after an error.
    """

    key: bytes
    queue: str
    is_repeat: bool
    rows: int = 0
    ids: list[int] = field(default_factory=list)
    stored: dict[int, tuple[bytes, str]] = field(default_factory=dict)
    was_refused: bool = False

    def add(self, row_id: int, body: bytes | None, options: str) -> None:
        """Add the next row; if its body is None, it is still to be read."""
        self.ids.append(row_id)
        if body is not None:
            self.stored[row_id] = body, options

    def jobs(self) -> list[PinLaterJob]:
        """Return the jobs to send.

        Raises:
            BodyInvalid: a newer version has stored a row, or somebody has changed it by hand.
        """
        try:
            return [stored_job(body, json.loads(options)) for body, options in map(self.stored.__getitem__, self.ids)]
        except (ValueError, AttributeError, RecursionError) as error:
            raise BodyInvalid(f"the options of a row are no JSON object: {error}") from error

    @property
    def age_seconds(self) -> float:
        """How long ago its key was stored; keys begin with the time."""
        return time.time() - int.from_bytes(self.key[:_TIME_BYTES], "big") / 1000
