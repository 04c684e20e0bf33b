"""How one attempt of a job ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec

from pinlater.model.messages import MessageWait
from pinlater.protocol.conversion.acks import AckFields
from pinlater.worker.claim_table.counters import CANCELLED, UNKNOWN

_CUT = "…\n"
_SHORTEST_CUT_BYTES = 100
"""Shortest part of a status that says anything: about as long as its header."""


@dataclass(frozen=True, slots=True)
class Failure:
    """An outcome that spends the attempt.

    Attributes:
        status: text for the job's custom status.
        delay_ms: milliseconds until the next attempt; None: there is none, whatever attempts remain.
        ending: how it is counted; see ``counters.ENDINGS``.
        job: name of the job's class; empty if it is not known.
    """

    status: str
    delay_ms: int | None = 0
    ending: str = "failed"
    job: str = ""

    def ack(self, descriptor: str, claim: str | None) -> AckFields:
        """Return the ack that reports the failure to the server."""
        told = descriptor, self.status, self.delay_ms or 0, claim, self.delay_ms is None or None
        return (*told, None, self.ending == CANCELLED or None, self.job or None)

    def encoded(self, most_bytes: int) -> bytes:
        """Encode the failure for the claim table; cut its status to fit, return nothing if even that does not help."""
        text = msgspec.msgpack.encode(self)
        if len(text) <= most_bytes:
            return text
        left = len(self.status.encode()) - (len(text) - most_bytes) - len(_CUT.encode())
        if left < _SHORTEST_CUT_BYTES:
            return b""
        status = self.status.encode()[:left].decode(errors="ignore")
        return msgspec.msgpack.encode(replace(self, status=f"{status}{_CUT}"))

    @staticmethod
    def decode(text: bytes) -> Failure:
        """Decode what ``encoded`` has returned."""
        return msgspec.msgpack.decode(text, type=Failure)


@dataclass(frozen=True, slots=True)
class Interruption:
    """An outcome that releases the job to continue elsewhere, no attempt spent.

    Attributes:
        body: body to continue from; None: the stored one.
        run_after_ms: earliest time to continue, epoch milliseconds; None: the job keeps its place in the queue.
        attempts: new number of attempts, such as those of the job's next run; None: those that remain.
        status: text to put in front of the job's custom status.
        failure: how it is counted if the job goes on after a failure: a periodic job whose tick has failed, one that
            undoes its sagas, or one that waits for other code or a queue; otherwise empty.
        waits_for: messages that let the job continue earlier.
        drops: names of messages that the job no longer needs.
    """

    body: bytes | None
    run_after_ms: int | None = None
    attempts: int | None = None
    status: str = ""
    failure: str = ""
    waits_for: Sequence[MessageWait] = ()
    drops: Sequence[str] = ()

    @property
    def ending(self) -> str:
        """How it is counted; see ``counters.ENDINGS``."""
        if self.failure:
            return self.failure
        if self.attempts is not None:
            return "rescheduled"
        return "interrupted" if self.run_after_ms is None else "slept"


@dataclass(frozen=True, slots=True)
class ReleasedUnknown(Interruption):
    """An outcome that releases a job that could not be read, for a worker that knows it; no attempt spent.

    Attributes:
        name: class name under which it is counted.
    """

    name: str = ""

    @property
    def ending(self) -> str:
        """How it is counted; see ``counters.ENDINGS``."""
        return UNKNOWN


@dataclass(frozen=True, slots=True)
class Result:
    """A success of a job whose result is stored.

    Attributes:
        result: the encoded result.
    """

    result: bytes


@dataclass(frozen=True, slots=True)
class LostClaim:
    """The end of an attempt whose claim was lost, so nothing about it is sent to the server.

    Attributes:
        ending: how it is counted; see ``counters.ENDINGS``.
    """

    ending: str = "lost"


Outcome = Failure | Interruption | LostClaim | Result
"""How an attempt ended; a success without a result has no details, and is None."""
