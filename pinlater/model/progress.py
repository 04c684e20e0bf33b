"""Progress of a job: finite amounts of work that can be stored in a body and read again."""

from __future__ import annotations

import math

import msgspec
from msgspec.structs import force_setattr


class Progress(msgspec.Struct, frozen=True):
    """Progress of a job, as it reports it; see ``JobContext.progress``.

    Attributes:
        done: finished work, in units of the job's choice.
        total: all of the work, in the same units; None if unknown.
        note: a message from the job.
    """

    done: float
    total: float | None = None
    note: str = ""

    def __post_init__(self) -> None:
        for number in (self.done, 0 if self.total is None else self.total):
            try:
                is_amount = math.isfinite(number) and number >= 0
            except TypeError:
                raise TypeError(
                    f"progress({self.done!r:.80}, {self.total!r:.80}): amounts of work are numbers; a text is note=…"
                ) from None
            if not is_amount:
                raise ValueError(
                    f"progress({self.done}, {self.total}): amounts of work must be finite and not negative"
                )
        # Stored in a form that JSON can carry: otherwise no later attempt could read its body.
        force_setattr(self, "done", _plain_number(self.done))
        force_setattr(self, "total", None if self.total is None else _plain_number(self.total))
        note = "" if self.note is None else str(self.note)
        force_setattr(self, "note", note.encode("utf-8", "backslashreplace").decode())

    @property
    def fraction(self) -> float | None:
        """The finished share, from 0 to 1; None if the total is unknown."""
        if self.total is None:
            return None
        return min(self.done / self.total, 1.0) if self.total else 1.0


def _plain_number(number: float) -> float:
    """Return a number as JSON can carry it: a Decimal or a Fraction cannot be encoded, a bool is read as no number."""
    return number if type(number) in {int, float} else float(number)
