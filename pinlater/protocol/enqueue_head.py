"""Recognize the beginning of a connection's enqueues, which differ in few bytes, instead of decoding it each time.

A producer sends the same source and the same queue with each call. Up to the first job, its calls differ only in the
sequence id, the idempotency key and the number of jobs. All other bytes are compared with those of an earlier call that
was decoded in full; a call that differs in any of them is decoded in full as well.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Any, NamedTuple

from thriftpy2.thrift import TType

from pinlater.protocol.messages import PinLaterEnqueueRequest, RequestContext

METHOD = "enqueueJobs"

_MAX_BYTES = 1024
"""Longest beginning to remember."""

_MAX_TRIES = 8
"""How many beginnings to remember without recognizing one: with a client that varies its calls, it only costs time."""

_NUMBER_BYTES = 4
_KEY_BYTES = 16
_CONTEXT_FIELD = bytes((TType.STRUCT, 0, 1))
_REQUEST_FIELD = bytes((TType.STRUCT, 0, 2))
_KEY_FIELD = bytes((TType.STRING, 0, 100, 0, 0, 0, _KEY_BYTES))


class RecognizedEnqueue(NamedTuple):
    """The part of an enqueue before its jobs.

    Attributes:
        sequence_id: sequence id of the call.
        context: context of the call.
        queue: name of the queue.
        jobs: number of jobs as sent; not checked.
        position: where the first job begins in the frame.
    """

    sequence_id: int
    context: RequestContext
    queue: str
    jobs: int
    position: int


class EnqueueHead:
    """The beginning of one connection's enqueues, known once two in a row had the same source and queue."""

    __slots__ = ("_fields", "_fixed", "_last", "_layout", "_queue", "_tries")

    def __init__(self) -> None:
        self._layout: Struct | None = None  # fixed bytes, sequence id, fixed bytes, key, fixed bytes, number of jobs
        self._fixed: tuple[bytes, bytes, bytes] = b"", b"", b""
        self._fields: tuple[Any, ...] = ()
        self._queue = ""
        self._last: tuple[str, str] | None = None
        self._tries = 0

    def recognize(self, frame: bytes) -> RecognizedEnqueue | None:
        """Return the part before the jobs if the frame begins like the remembered enqueue; otherwise None."""
        layout = self._layout
        if layout is None or len(frame) <= layout.size:
            return None
        start, sequence_id, before_key, key, after_key, jobs = layout.unpack_from(frame)
        if (start, before_key, after_key) != self._fixed:
            return None
        self._tries = 0
        source, request_id, *rest = self._fields
        context = RequestContext(source, request_id, key or None, *rest)
        return RecognizedEnqueue(sequence_id, context, self._queue, jobs, layout.size)

    def learn(self, frame: bytes, arguments: Any, encode: Callable[[Any], bytes]) -> None:
        """Remember the beginning of an enqueue that was decoded in full.

        Args:
            frame: the call.
            arguments: its argument struct.
            encode: encodes a struct.
        """
        context, request = arguments.context, arguments.request
        if self._tries >= _MAX_TRIES or context is None or request is None:
            return
        source, queue = context.source, request.queueName
        if source is None or queue is None or len(source) + len(queue) > _MAX_BYTES:
            return
        if (source, queue) != self._last:  # a client may send to another queue each time
            self._last = source, queue
            return
        self._tries += 1
        self._remember(frame, context, queue, encode)

    def _remember(self, frame: bytes, context: RequestContext, queue: str, encode: Callable[[Any], bytes]) -> None:
        """Encode the beginning ourselves, and remember it if the client has encoded it in the same way."""
        key, rest = context.idempotencyKey, (context.isRepeat, context.keepResultMillis, context.hearsStopping)
        if key is not None and len(key) != _KEY_BYTES:
            return
        start = b"\x80\x01\0\1" + len(METHOD).to_bytes(_NUMBER_BYTES, "big") + METHOD.encode()
        sequence_id = frame[len(start) : len(start) + _NUMBER_BYTES]
        source = encode(RequestContext(context.source, context.requestId))[:-1]
        keyless = encode(RequestContext(context.source, context.requestId, None, *rest))
        request = encode(PinLaterEnqueueRequest(queue, []))[: -_NUMBER_BYTES - 1]
        before_key = _CONTEXT_FIELD + source + (b"" if key is None else _KEY_FIELD)
        after_key = keyless[len(source) :] + _REQUEST_FIELD + request
        if len(before_key) + len(after_key) > _MAX_BYTES:
            return
        if frame.startswith(start + sequence_id + before_key + (key or b"") + after_key):
            self._layout = Struct(f">{len(start)}si{len(before_key)}s{len(key or b'')}s{len(after_key)}si")
            self._fixed = start, before_key, after_key
            self._fields = (context.source, context.requestId, *rest)
            self._queue = queue
