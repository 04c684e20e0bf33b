"""Computes the stages of each call from the marks of a client and a server."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from benchmarks.marked_server import SEND, STAGES
from benchmarks.marks import Mark, Target

START = "client: job, call"
ENCODE = "client: encode"
PREPARE = "client: connection"
TO_SERVER = "socket, wake the server"
RECEIVED = "client: split"
DECODE = "client: decode"
END = "client: handle"
ENDED = "between two calls"

CLIENT_STAGES = (START, ENCODE, PREPARE, TO_SERVER, RECEIVED, DECODE, END, ENDED)

CLIENT_TARGETS = (
    Target("pinlater.protocol.codec:Codec.encode_call", ENCODE, PREPARE),
    Target("pinlater.client.connection:Connection._write", TO_SERVER),
    Target("pinlater.client.connection:Connection._read", "", RECEIVED),
    Target("pinlater.protocol.codec:Codec.decode_reply", DECODE, END),
)

WAY = (START, ENCODE, PREPARE, TO_SERVER, *STAGES, RECEIVED, DECODE, END)
"""All stages, in order."""


@dataclass(slots=True)
class Call:
    """One call.

    Attributes:
        wall_us: microseconds of each stage; their sum is the time of the call.
        cpu_us: processor time of each stage in microseconds, in the process that it belongs to.
        hand_overs: how often another thread of the server continued the call.
    """

    wall_us: Counter[str] = field(default_factory=Counter)
    cpu_us: Counter[str] = field(default_factory=Counter)
    hand_overs: int = 0
    _begun: Counter[str] = field(default_factory=Counter)

    def count(self, stage: str) -> int:
        """Return how often a stage began."""
        return self._begun[stage]

    def add_wall(self, marks: Sequence[Mark]) -> None:
        """Add the stages that begin at the marks; each ends at the next mark, and the last mark only ends a stage."""
        for mark, following in pairwise(marks):
            self.wall_us[mark.stage] += (following.wall_ns - mark.wall_ns) / 1000

    def add_cpu(self, marks: Sequence[Mark]) -> None:
        """Add the processor time of stages, likewise; the marks must be of one process."""
        for mark, following in pairwise(marks):
            self.cpu_us[mark.stage] += (following.cpu_ns - mark.cpu_ns) / 1000

    def add_server(self, marks: Sequence[Mark]) -> None:
        """Count the stages and the hand-overs in the server's marks."""
        self._begun.update(mark.stage for mark in marks)
        self.hand_overs += sum(mark.thread != following.thread for mark, following in pairwise(marks))


def split_calls(client: Sequence[Mark], server: Sequence[Mark]) -> list[Call]:
    """Return the calls of one client, one after the other.

    Args:
        client: marks of the client; each call is between ``START`` and ``ENDED``.
        server: marks of the server, perhaps with others before and after the calls.
    """
    starts, ends = ([at for at, mark in enumerate(client) if mark.stage == stage] for stage in (START, ENDED))
    moments = [mark.wall_ns for mark in server]
    calls = []
    for begin, end in zip(starts, ends, strict=True):
        ours = client[begin : end + 1]
        # A server may continue after its answer; that belongs to the last stage.
        theirs = server[bisect_left(moments, ours[0].wall_ns) : bisect_left(moments, ours[-1].wall_ns)]
        after = server[bisect_left(moments, ours[-1].wall_ns) :][:1]
        call = _call(ours, theirs, after)
        if call is not None:
            calls.append(call)
    return calls


def _call(client: Sequence[Mark], server: Sequence[Mark], after: Sequence[Mark]) -> Call | None:
    sent = [at for at, mark in enumerate(client) if mark.stage == TO_SERVER]
    received = [at for at, mark in enumerate(client) if mark.stage == RECEIVED]
    if not (sent and received and server) or server[-1].stage != SEND:
        return None  # something else came between, such as a heartbeat in the server
    call = Call()
    call.add_wall([*client[: sent[0] + 1], *server, *client[received[-1] :]])
    call.add_cpu(client)
    call.add_cpu([*server, *after])
    call.add_server(server)
    return call
