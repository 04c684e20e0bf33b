"""Results of finished steps that are stored beside the body, as messages from the job to its later attempts.

Each finished step sends the whole body. So once the results in it are large, all of them move out, in the transaction
that saves the body without them. From then on, saving a step costs only as much as its own result.

A job with results outside has another class name in its body, see ``pinlater.model.kept_mark``. A worker of an older
version would run finished steps again; since it does not know a class of that name, it gives the job back instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

import msgspec

from pinlater.errors import CallUnsupported, StepMismatch
from pinlater.model.body_metadata import BodyMetadata
from pinlater.model.messages import Message, ReceivedMessage

MOST_IN_BODY = 16 * 1024
"""Bytes of results that a body holds before they move out; most jobs never have that many."""
MOST_AFTER_MOVE = 2 * 1024
"""The same for a job that already has results outside."""

_PAGE = 1000
_MOST_MOVES = 8
"""Unconfirmed moves that are remembered; each move also contains the results of the unconfirmed ones before it."""

Read = Callable[[str, int, int], Sequence[ReceivedMessage]]
"""Returns messages of the job: see ``MessageLink.read``."""


class StepResults(msgspec.Struct, omit_defaults=True):
    """The results of steps in one message.

    Attributes:
        steps: name of a finished step -> its result, as JSON values.
        prints: name of a step -> the fingerprint of its call.
        functions: name of a step, without the number of a use -> name of the function of its first use.
        untyped: see ``BodyMetadata``.
        times: likewise.
    """

    steps: dict[str, Any] = {}
    prints: dict[str, str] = {}
    functions: dict[str, str] = {}
    untyped: set[str] = msgspec.field(default_factory=set)
    times: dict[str, tuple[int, int, int]] = {}

    def add(self, other: StepResults) -> None:
        """Add other results."""
        self.steps |= other.steps
        self.prints |= other.prints
        self.functions = other.functions | self.functions
        self.untyped |= other.untyped
        self.times |= other.times


class StepsMove(NamedTuple):
    """Results that are about to move out of a body.

    Attributes:
        metadata: metadata of the body without them.
        message: the message that holds them.
    """

    metadata: BodyMetadata
    message: Message


_decode = msgspec.json.Decoder(StepResults).decode


def read_results(message: ReceivedMessage) -> StepResults:
    """Return the results in a message."""
    return _decode(message.payload)


def steps_name(run: int) -> str:
    """Return the name of the messages with the results of a run."""
    return f"steps/{run}"


class OutsideSteps:
    """The results of a run that are stored beside the body.

    Args:
        metadata: metadata of the body.
        read: reads messages of the job.

    Raises:
        StepMismatch: some of the results that the body counts are missing, or the server is of an older version and
            cannot read them.

    Attributes:
        results: the results outside the body.
    """

    def __init__(self, metadata: BodyMetadata, read: Read) -> None:
        self.results = StepResults()
        self._metadata = metadata
        self._moves: dict[str, StepResults] = {}
        if metadata.kept:
            try:
                self._load(read)
            except CallUnsupported as error:  # not the job's fault: it waits until another server hands it out
                raise StepMismatch(
                    f"the results of {metadata.kept} finished steps are kept beside the body, where this server cannot "
                    f"read them: {error}"
                ) from error

    def _load(self, read: Read) -> None:
        name, after = steps_name(self._metadata.run), 0
        while page := read(name, after, _PAGE):
            after = page[-1].number
            for message in page:
                self.results.add(read_results(message))
        there, expected = len(self.results.steps), self._metadata.kept
        if there < expected:
            raise StepMismatch(
                f"the results of {expected} finished steps are kept beside the body, but only {there} are there. So "
                "this is a copy of another job, made by an older version: enqueue the job anew"
            )
        self._metadata.kept = there

    def move(self, descriptor: str, inside: StepResults) -> StepsMove:
        """Return the move of all results in the body out of it.

        Args:
            descriptor: address of the job.
            inside: the results in the body.
        """
        payload = msgspec.json.encode(inside)
        message_id = blake2b(payload, digest_size=16, key=descriptor.encode()[-64:]).hexdigest()
        while len(self._moves) >= _MOST_MOVES:
            del self._moves[next(iter(self._moves))]
        self._moves[message_id] = inside
        metadata = msgspec.structs.replace(
            self._metadata,
            steps={},
            fingerprints={},
            prints={},
            untyped=[],
            times={},
            kept=len(self.results.steps.keys() | inside.steps.keys()),
        )
        return StepsMove(metadata, Message(steps_name(metadata.run), message_id, payload))

    def settle(self, is_stored: Callable[[str], bool]) -> StepResults | None:
        """Find out whether a move was stored; return the moved results, to be removed from the body, or None.

        Args:
            is_stored: tells whether the message with a given id is stored.
        """
        if not self._moves:
            return None
        done = [moved for message_id, moved in self._moves.items() if is_stored(message_id)]
        if not done:
            return None
        self._moves.clear()
        for moved in done:
            self.results.add(moved)
        self._metadata.kept = len(self.results.steps)
        return done[-1]
