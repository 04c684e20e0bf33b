"""Recognize the beginning of a connection's enqueues, which differ in few bytes: it need not be decoded again.

A producer sends the same source and the same queue with each call. Its calls differ up to the first job in the sequence
id, the idempotency key and the number of jobs. All other bytes are compared with those of an earlier call that was
decoded in full; a call that differs in any of them is decoded in full, too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from thriftpy2.thrift import TType

from pinlater.protocol.messages import PinLaterEnqueueRequest, RequestContext

METHOD = "enqueueJobs"

_MAX_BYTES = 1024
"""Longest beginning that is remembered."""

_MAX_TRIES = 8
"""Beginnings that are remembered in vain: a client that changes each of its calls would only cost time."""

_NUMBER_BYTES = 4
_KEY_BYTES = 16
_CONTEXT_FIELD = bytes((TType.STRUCT, 0, 1))
_REQUEST_FIELD = bytes((TType.STRUCT, 0, 2))
_KEY_FIELD = bytes((TType.STRING, 0, 100, 0, 0, 0, _KEY_BYTES))


class RecognizedEnqueue(NamedTuple):
    """What stands before the jobs of an enqueue.

    Attributes:
        sequence_id: of the call.
        context: of the call.
        queue: name of the queue.
        jobs: how many there are; not checked.
        position: of the first job in the frame.
    """

    sequence_id: int
    context: RequestContext
    queue: str
    jobs: int
    position: int


class EnqueueHead:
    """The beginning of the enqueues of one connection, once two in a row had the same source and queue."""

    __slots__ = ("_after_key", "_before_key", "_fields", "_has_key", "_last", "_queue", "_start", "_tries")

    def __init__(self) -> None:
        self._start = self._before_key = self._after_key = b""
        self._fields: tuple[Any, ...] = ()
        self._has_key = False
        self._queue = ""
        self._last: tuple[str, str] | None = None
        self._tries = 0

    def recognize(self, frame: bytes) -> RecognizedEnqueue | None:
        """Return what stands before the jobs, if the frame begins like the enqueue that is remembered."""
        start = len(self._start)
        if not start or not frame.startswith(self._start):
            return None
        key_at = count_at = start + _NUMBER_BYTES + len(self._before_key)
        source, request_id, is_repeat, keep_ms, hears_stopping = self._fields
        key = None
        if self._has_key:
            count_at += _KEY_BYTES
            key = frame[key_at:count_at]
        position = count_at + len(self._after_key) + _NUMBER_BYTES
        if (
            len(frame) <= position
            or not frame.startswith(self._before_key, start + _NUMBER_BYTES)
            or not frame.startswith(self._after_key, count_at)
        ):
            return None
        self._tries = 0
        return RecognizedEnqueue(
            int.from_bytes(frame[start : start + _NUMBER_BYTES], "big", signed=True),
            RequestContext(source, request_id, key, is_repeat, keep_ms, hears_stopping),
            self._queue,
            int.from_bytes(frame[position - _NUMBER_BYTES : position], "big", signed=True),
            position,
        )

    def learn(self, frame: bytes, arguments: Any, encode: Callable[[Any], bytes]) -> None:
        """Remember how an enqueue begins that was decoded in full.

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
        """Build the beginning as we would encode it, and keep it if the client has encoded it in the same way."""
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
            self._start, self._before_key, self._after_key = start, before_key, after_key
            self._fields = (context.source, context.requestId, *rest)
            self._has_key, self._queue = key is not None, queue
