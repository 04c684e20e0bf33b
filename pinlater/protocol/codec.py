"""Encode and decode calls and replies, with thriftpy2's Cython binary protocol.

Bytes from the network never go through ``TCyMemoryBuffer``, which reads foreign memory beyond the end of its input.
They are read through a buffered transport over a source that ends with the frame. Whatever decoding raises, the caller
gets ``MalformedMessage`` and closes the connection.

A server trusts no client: see ``reader`` and ``guard``. A client trusts its server not to exhaust its time and memory.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

from thriftpy2.protocol.cybin import TCyBinaryProtocol
from thriftpy2.thrift import TApplicationException, TMessageType
from thriftpy2.transport.buffered import TCyBufferedTransport
from thriftpy2.transport.memory import TCyMemoryBuffer

from pinlater.errors import (
    CallUnsendable,
    CallUnsupported,
    CountIncomplete,
    ProtocolError,
    ServiceError,
    StaleClaims,
    service_error,
)
from pinlater.model.jobs import PartialCount
from pinlater.protocol.enqueue_head import METHOD as ENQUEUE
from pinlater.protocol.enqueue_head import EnqueueHead
from pinlater.protocol.enqueue_reply import decode_descriptor, encode_descriptor
from pinlater.protocol.framing import HEADER_BYTES, MAX_FRAME_BYTES, with_header
from pinlater.protocol.guard import MAX_ELEMENTS, MalformedMessage, TooManyElements, WrongElements, check_message
from pinlater.protocol.messages import (
    METHODS,
    PinLaterEnqueueRequest,
    PinLaterEnqueueResponse,
    PinLaterException,
    PinLaterJob,
    arguments_of,
    result_of,
)
from pinlater.protocol.reader import RequestReader
from pinlater.protocol.texts import NotText, repair_texts

UNKNOWN_METHOD = TApplicationException.UNKNOWN_METHOD
INTERNAL_ERROR = TApplicationException.INTERNAL_ERROR
PROTOCOL_ERROR = TApplicationException.PROTOCOL_ERROR

_MAX_KEPT_BUFFER = 1 << 20

MANY_ELEMENTS = 1000
"""Number of elements of a call; fewer are decoded within a millisecond, into less than a megabyte."""

_QUICK_CHECK_BYTES = 16 * 1024
"""Size of a message that ``guard`` checks in about the same time."""

_T = TypeVar("_T")

_enqueue_arguments = arguments_of(ENQUEUE)


class SlowToDecode(Exception):
    """Decoding the call would block the event loop for too long; it may still be valid."""


class UnusableCall(MalformedMessage):
    """The call has too many elements, elements of a wrong type, or a name that is no text; the message says which.

    Attributes:
        method: name as sent.
        sequence_id: for the reply, since the connection is still in sync.
    """

    def __init__(self, method: str, sequence_id: int, message: str) -> None:
        super().__init__(message)
        self.method = method
        self.sequence_id = sequence_id


class DecodedCall(NamedTuple):
    """A decoded request.

    Attributes:
        method: name as sent.
        sequence_id: for the reply.
        arguments: the argument struct of the method; None if the method is unknown.
    """

    method: str
    sequence_id: int
    arguments: Any


class _Source:
    """Source of the buffered transport: one frame, then nothing."""

    __slots__ = ("_frame", "_position")

    def __init__(self) -> None:
        self._frame = b""
        self._position = 0

    def load(self, frame: bytes, position: int = 0) -> None:
        self._frame = frame
        self._position = position

    def read(self, size: int) -> bytes:
        start = self._position
        self._position = end = start + size
        return self._frame[start:end]


class Codec:
    """Encodes and decodes messages; reuses its buffers, so only one thread may use it at a time."""

    def __init__(self) -> None:
        self._new_reader()
        self._new_writer()

    def _new_reader(self) -> None:
        self._source = _Source()
        self._input = TCyBufferedTransport(self._source)
        self._reader = TCyBinaryProtocol(self._input, strict_read=False, strict_decode=True)
        self._lenient_reader = TCyBinaryProtocol(self._input, strict_read=False, strict_decode=False)
        self._requests = RequestReader(self._input)

    def _new_writer(self) -> None:
        self._output = TCyMemoryBuffer()
        self._writer = TCyBinaryProtocol(self._output)

    # Encoding

    def encode_call(self, method: str, sequence_id: int, arguments: Any) -> bytes:
        """Encode a call as a frame, including its length.

        Raises:
            CallUnsendable: a field has a value that its type cannot represent, or the call is too large.
        """
        frame = self._encode(method, TMessageType.CALL, sequence_id, arguments)
        if len(frame) > MAX_FRAME_BYTES + HEADER_BYTES:
            raise CallUnsendable(f"{method}: {len(frame)} bytes are more than a server takes; send less at once")
        return frame

    def encode_reply(self, method: str, sequence_id: int, success: Any) -> bytes:
        """Encode the result of a method (None for void) as a frame."""
        if method == ENQUEUE and type(success) is PinLaterEnqueueResponse:
            descriptors = success.jobDescriptors
            if descriptors is not None and len(descriptors) == 1:
                return encode_descriptor(sequence_id, descriptors[0])
        result = result_of(method)()
        if success is not None:
            result.success = success
        return self._encode(method, TMessageType.REPLY, sequence_id, result)

    def encode_service_error(self, method: str, sequence_id: int, error: ServiceError) -> bytes:
        """Encode the declared exception of a method as a frame."""
        result = result_of(method)()
        result.e = PinLaterException(errorCode=error.code, message=str(error))
        if isinstance(error, StaleClaims):
            result.e.jobDescriptors = list(error.job_descriptors)
            result.e.cancelledDescriptors = list(error.cancelled) or None
        elif isinstance(error, CountIncomplete):
            result.e.missingShards, result.e.countElsewhere = list(error.missing_shards), error.count
        return self._encode(method, TMessageType.REPLY, sequence_id, result)

    def encode_application_error(self, method: str, sequence_id: int, kind: int, message: str) -> bytes:
        """Encode a Thrift-level exception, such as ``UNKNOWN_METHOD``, as a frame."""
        return self._encode(method, TMessageType.EXCEPTION, sequence_id, TApplicationException(kind, message))

    def _encode(self, method: str, kind: int, sequence_id: int, struct: Any) -> bytes:
        output = self._output
        output.clean()
        try:
            self._writer.write_message_begin(method, kind, sequence_id)
            self._writer.write_struct(struct)
        except Exception as error:
            raise CallUnsendable(f"{method}: cannot be sent: {error}") from error
        payload = output.getvalue()
        if len(payload) > _MAX_KEPT_BUFFER:
            self._new_writer()
        return with_header(payload)

    def encode_struct(self, struct: Any) -> bytes:
        """Encode a single struct for storage."""
        output = self._output
        output.clean()
        self._writer.write_struct(struct)
        return bytes(output.getvalue())

    # Decoding

    def decode_struct(self, kind: type[_T], data: bytes) -> _T:
        """Decode a struct that ``encode_struct`` of this or a newer version wrote; it is trusted like the store.

        Raises:
            MalformedMessage: it is not such a struct.
        """
        self._input.clean()
        self._source.load(data)
        struct = kind()
        self._read(self._reader.read_struct, struct)
        self._forget_large(data)
        return struct

    def decode_call(self, frame: bytes, *, quick_only: bool = False, head: EnqueueHead | None = None) -> DecodedCall:
        """Decode the request of a call.

        An unknown method is skipped completely, so that the connection stays in sync (contract §1.1).

        Args:
            frame: payload of the call.
            quick_only: refuse calls that take more than milliseconds to decode.
            head: recognizes and remembers the beginning of the connection's enqueues.

        Raises:
            UnusableCall: it cannot be carried out; the connection can go on.
            MalformedMessage: the connection must be closed.
            SlowToDecode: it cannot be decoded quickly; only with ``quick_only``.
        """
        if head is not None and (call := self._recognized(frame, head)) is not None:
            return call
        method, kind, sequence_id = self._begin(frame)
        if kind != TMessageType.CALL:
            raise MalformedMessage(f"expected a call, not a message of type {kind}")
        try:
            if method not in METHODS:
                _check(frame, None, quick_only=quick_only)
                return DecodedCall(method, sequence_id, None)
            arguments = self._arguments(frame, method, quick_only=quick_only)
        except (TooManyElements, WrongElements, NotText) as error:
            raise UnusableCall(method, sequence_id, str(error)) from None
        self._forget_large(frame)
        if head is not None and method == ENQUEUE:
            head.learn(frame, arguments, self.encode_struct)
        return DecodedCall(method, sequence_id, arguments)

    def _recognized(self, frame: bytes, head: EnqueueHead) -> DecodedCall | None:
        """Decode an enqueue with the remembered beginning; return None for other calls, and if the rest is unusual."""
        found = head.recognize(frame)
        if found is None or not 0 <= found.jobs <= MANY_ELEMENTS:
            return None
        self._input.clean()
        self._source.load(frame, found.position)
        try:
            jobs = self._requests.read_leaves(PinLaterJob, found.jobs)
            if self._input.read(2) != b"\0\0":  # more fields of the request, or of the call
                return None
        except Exception:  # noqa: BLE001 - the full decoding finds out what is wrong
            return None
        return DecodedCall(
            ENQUEUE, found.sequence_id, _enqueue_arguments(found.context, PinLaterEnqueueRequest(found.queue, jobs))
        )

    def _arguments(self, frame: bytes, method: str, *, quick_only: bool) -> Any:
        try:
            return self._requests.read(arguments_of(method), MANY_ELEMENTS if quick_only else MAX_ELEMENTS)
        except Exception:  # noqa: BLE001 - the full decoding below finds out what is wrong, if anything
            _check(frame, arguments_of(method), quick_only=quick_only)
        self._begin(frame)
        arguments = arguments_of(method)()
        self._read(self._lenient_reader.read_struct, arguments)
        repair_texts(arguments)
        return arguments

    def decode_reply(self, frame: bytes, method: str, sequence_id: int) -> Any:
        """Decode the reply to a call: return its result, None for void.

        Raises:
            ServiceError: the declared exception, as the class of its code.
            CallUnsupported: the server does not know the call.
            ProtocolError: the server answered with another Thrift-level exception.
            MalformedMessage: the reply is damaged or belongs to another call; the connection must be closed.
        """
        if method == ENQUEUE and (descriptor := decode_descriptor(frame, sequence_id)) is not None:
            return PinLaterEnqueueResponse([descriptor])
        name, kind, number = self._begin(frame)
        if kind == TMessageType.EXCEPTION:
            refusal = TApplicationException()
            self._read(self._reader.read_struct, refusal)
            if refusal.type == UNKNOWN_METHOD:
                raise CallUnsupported(
                    f"the server is of an older version, which does not know {method}: upgrade it ({refusal.message})"
                )
            raise ProtocolError(f"{method}: the server answered: {refusal.message}")
        if kind != TMessageType.REPLY or name != method or number != sequence_id:
            raise MalformedMessage(f"expected the reply to {method} #{sequence_id}, not {name} #{number}")
        result = result_of(method)()
        self._read(self._reader.read_struct, result)
        self._forget_large(frame)
        if result.e is not None:
            told = result.e
            if told.countElsewhere is not None:
                return PartialCount(told.countElsewhere, told.missingShards or ())
            raise service_error(
                told.errorCode, told.message, told.jobDescriptors or (), told.cancelledDescriptors or ()
            )
        return getattr(result, "success", None)

    def _begin(self, frame: bytes) -> tuple[str, int, int]:
        self._input.clean()
        self._source.load(frame)
        try:
            name, kind, sequence_id = self._reader.read_message_begin()
        except Exception as error:
            raise self._malformed(error) from error
        if not isinstance(name, str):
            raise MalformedMessage("the method name is not UTF-8")
        return name, kind, sequence_id

    def _read(self, reader: Any, target: Any) -> None:
        try:
            reader(target)
        except Exception as error:
            raise self._malformed(error) from error

    def _forget_large(self, frame: bytes) -> None:
        if len(frame) > _MAX_KEPT_BUFFER:
            self._new_reader()

    def _malformed(self, error: Exception) -> MalformedMessage:
        self._new_reader()
        return MalformedMessage(f"not a Thrift message: {error or type(error).__name__}")


def _check(frame: bytes, kind: Any, *, quick_only: bool) -> None:
    if not quick_only:
        check_message(frame, kind=kind)
        return
    if len(frame) > _QUICK_CHECK_BYTES:
        raise SlowToDecode
    try:
        check_message(frame, MANY_ELEMENTS, kind)
    except TooManyElements:
        raise SlowToDecode from None
