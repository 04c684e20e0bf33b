"""Calls and replies <-> payloads of frames, by thriftpy2's Cython binary protocol.

Bytes from the network never go through ``TCyMemoryBuffer``: it does not notice the end of its input and
hands out foreign memory. They are read through a buffered transport over a source that ends where the
frame ends. Whatever decoding raises, the caller sees ``MalformedMessage`` and closes the connection.

A server trusts nobody: see ``reader`` and ``guard``. A client trusts the server that it was told to use as
far as time and memory go.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

from thriftpy2.protocol.cybin import TCyBinaryProtocol
from thriftpy2.thrift import TApplicationException, TMessageType
from thriftpy2.transport.buffered import TCyBufferedTransport
from thriftpy2.transport.memory import TCyMemoryBuffer

from pinlater.errors import CallUnsendable, ProtocolError, ServiceError, StaleClaims, service_error
from pinlater.protocol.framing import with_header
from pinlater.protocol.guard import MAX_ELEMENTS, MalformedMessage, TooManyElements, check_message
from pinlater.protocol.messages import METHODS, PinLaterException, arguments_of, result_of
from pinlater.protocol.reader import RequestReader

UNKNOWN_METHOD = TApplicationException.UNKNOWN_METHOD
INTERNAL_ERROR = TApplicationException.INTERNAL_ERROR
PROTOCOL_ERROR = TApplicationException.PROTOCOL_ERROR

_MAX_KEPT_BUFFER = 1 << 20

MANY_ELEMENTS = 1000
"""Of a call. To decode fewer takes a millisecond, and a megabyte at most."""

_SOON_CHECKED_BYTES = 16 * 1024
"""To decode so much carefully takes about as long."""

_T = TypeVar("_T")


class SlowToDecode(Exception):
    """To decode a call would hold up whatever else its thread has to do; nothing is wrong with it yet."""


class CallTooLarge(MalformedMessage):
    """A call with more parts than are taken; the message says how many these are.

    Attributes:
        method: name as sent.
        sequence_id: to be echoed in the answer, since the connection is still in step.
    """

    def __init__(self, method: str, sequence_id: int, message: str) -> None:
        super().__init__(message)
        self.method = method
        self.sequence_id = sequence_id


class DecodedCall(NamedTuple):
    """A decoded request.

    Attributes:
        method: name as sent.
        sequence_id: to be echoed in the reply.
        arguments: the method's argument struct; None when the method is unknown.
    """

    method: str
    sequence_id: int
    arguments: Any


class _Source:
    """What the buffered transport reads from: one frame, then nothing."""

    __slots__ = ("_frame", "_position")

    def __init__(self) -> None:
        self._frame = b""
        self._position = 0

    def load(self, frame: bytes) -> None:
        self._frame = frame
        self._position = 0

    def read(self, size: int) -> bytes:
        start = self._position
        self._position = end = start + size
        return self._frame[start:end]


class Codec:
    """Encodes and decodes messages; keeps its buffers, so it must be used by one thread at a time."""

    def __init__(self) -> None:
        self._new_reader()
        self._new_writer()

    def _new_reader(self) -> None:
        self._source = _Source()
        self._input = TCyBufferedTransport(self._source)
        self._reader = TCyBinaryProtocol(self._input, strict_read=False, strict_decode=True)
        self._requests = RequestReader(self._input)

    def _new_writer(self) -> None:
        self._output = TCyMemoryBuffer()
        self._writer = TCyBinaryProtocol(self._output)

    # Encoding

    def encode_call(self, method: str, sequence_id: int, arguments: Any) -> bytes:
        """Return a call as a frame, length included.

        Raises:
            CallUnsendable: a field holds a value that its type cannot carry.
        """
        return self._encode(method, TMessageType.CALL, sequence_id, arguments)

    def encode_reply(self, method: str, sequence_id: int, success: Any) -> bytes:
        """Return a method's success (None for void) as a frame."""
        result = result_of(method)()
        if success is not None:
            result.success = success
        return self._encode(method, TMessageType.REPLY, sequence_id, result)

    def encode_service_error(self, method: str, sequence_id: int, error: ServiceError) -> bytes:
        """Return a method's declared exception as a frame."""
        result = result_of(method)()
        result.e = PinLaterException(errorCode=error.code, message=str(error))
        if isinstance(error, StaleClaims):
            result.e.jobDescriptors = list(error.job_descriptors)
        return self._encode(method, TMessageType.REPLY, sequence_id, result)

    def encode_application_error(self, method: str, sequence_id: int, kind: int, message: str) -> bytes:
        """Return a Thrift-level exception, such as ``UNKNOWN_METHOD``, as a frame."""
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
        """Return a struct alone, as a store keeps it."""
        output = self._output
        output.clean()
        self._writer.write_struct(struct)
        return bytes(output.getvalue())

    # Decoding

    def decode_struct(self, kind: type[_T], data: bytes) -> _T:
        """Read what ``encode_struct`` made, perhaps in a newer version: trusted as the store is.

        Raises:
            MalformedMessage: it is something else.
        """
        self._input.clean()
        self._source.load(data)
        struct = kind()
        self._read(self._reader.read_struct, struct)
        self._forget_large(data)
        return struct

    def decode_call(self, frame: bytes, *, quick_only: bool = False) -> DecodedCall:
        """Decode the request of a call.

        An unknown method is skipped in full, so that the connection stays in step (contract §1.1).

        Args:
            frame: its bytes.
            quick_only: refuse calls that take more than milliseconds to decode.

        Raises:
            CallTooLarge: it has too many elements; the connection can go on.
            MalformedMessage: the connection must be closed.
            TakesLong: it is not quickly decoded.
        """
        method, kind, sequence_id = self._begin(frame)
        if kind != TMessageType.CALL:
            raise MalformedMessage(f"a message of type {kind} instead of a call")
        try:
            if method not in METHODS:
                _check(frame, quick_only=quick_only)
                return DecodedCall(method, sequence_id, None)
            arguments = self._arguments(frame, method, quick_only=quick_only)
        except TooManyElements as error:
            raise CallTooLarge(method, sequence_id, str(error)) from None
        self._forget_large(frame)
        return DecodedCall(method, sequence_id, arguments)

    def _arguments(self, frame: bytes, method: str, *, quick_only: bool) -> Any:
        try:
            return self._requests.read(arguments_of(method), MANY_ELEMENTS if quick_only else MAX_ELEMENTS)
        except Exception:  # noqa: BLE001 - the careful way finds out whether anything is wrong, and what
            _check(frame, quick_only=quick_only)
        self._begin(frame)
        arguments = arguments_of(method)()
        self._read(self._reader.read_struct, arguments)
        return arguments

    def decode_reply(self, frame: bytes, method: str, sequence_id: int) -> Any:
        """Read the answer to a call: return its success, None for void.

        Raises:
            ServiceError: the declared exception, as the class of its code.
            ProtocolError: a Thrift-level exception, or the answer to something else.
            MalformedMessage: the connection is to be closed.
        """
        name, kind, number = self._begin(frame)
        if kind == TMessageType.EXCEPTION:
            refusal = TApplicationException()
            self._read(self._reader.read_struct, refusal)
            raise ProtocolError(f"{method}: the server answered: {refusal.message}")
        if kind != TMessageType.REPLY or name != method or number != sequence_id:
            raise MalformedMessage(f"expected the reply to {method} #{sequence_id}, not {name} #{number}")
        result = result_of(method)()
        self._read(self._reader.read_struct, result)
        self._forget_large(frame)
        if result.e is not None:
            raise service_error(result.e.errorCode, result.e.message, result.e.jobDescriptors or ())
        return getattr(result, "success", None)

    def _begin(self, frame: bytes) -> tuple[str, int, int]:
        self._input.clean()
        self._source.load(frame)
        try:
            name, kind, sequence_id = self._reader.read_message_begin()
        except Exception as error:
            raise self._malformed(error) from error
        if not isinstance(name, str):
            raise MalformedMessage("a method name that is no UTF-8 text")
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


def _check(frame: bytes, *, quick_only: bool) -> None:
    if not quick_only:
        check_message(frame)
        return
    if len(frame) > _SOON_CHECKED_BYTES:
        raise SlowToDecode
    try:
        check_message(frame, MANY_ELEMENTS)
    except TooManyElements:
        raise SlowToDecode from None
