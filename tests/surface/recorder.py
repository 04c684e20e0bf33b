"""A server that writes down what comes, and answers with replies in which every field is set."""

import contextlib
import socket
import tempfile
import threading
from pathlib import Path

from thriftpy2.protocol.binary import TBinaryProtocol
from thriftpy2.thrift import TType
from thriftpy2.transport.memory import TMemoryBuffer

from tests.surface.places import encode_reply, idl, plain_idl, server_codec

NOW_MS = 1_700_000_000_000
DESCRIPTOR = "mail:s1:p1:42"
BODY = b'{"job":"Mail","user":42}'
VALUES = {
    "jobDescriptor": DESCRIPTOR,
    "jobDescriptors": [DESCRIPTOR],
    "body": BODY,
    "queueName": "mail",
    "queueNames": ["mail"],
    "continuation": "-1",
    "customStatus": "started\n",
    "className": "Mail",
    "getQueueNames": ["mail"],
    "getQueueSettings": "mail",  # the key of the map
    "getOldestDueTimestamps": "mail",
    "lookupJobs": DESCRIPTOR,
    "jobs": DESCRIPTOR,
    "jobMetadata": DESCRIPTOR,
    "waitBuckets": 7,
    "runBuckets": 20,
}
"""What a reply has for a field, or for the result of a method, where a value made from the type would not do."""


def success_of(method, *, is_full=True):
    """Return what a method answers: with all fields set, or only those that must be; None for void."""
    spec = getattr(idl().PinLater, f"{method}_result").thrift_spec
    return _value(method, *_type_of(spec[0]), is_full=is_full) if 0 in spec else None


def _type_of(entry):
    return entry[0], entry[2] if len(entry) == 4 else None


def _value(name, kind, inner, *, is_full):
    if kind == TType.STRUCT:
        return _struct(inner, is_full=is_full)
    if kind == TType.MAP:
        inside = _pair(inner[1])
        about = "body" if inside[0] in {TType.STRING, TType.BINARY} else ""
        return {VALUES[name]: _value(about, *inside, is_full=is_full)} if is_full else {}
    if name in VALUES:
        return VALUES[name]
    if kind in {TType.LIST, TType.SET}:
        return [_value(name, *_pair(inner), is_full=is_full)] if is_full else []
    if kind in {TType.STRING, TType.BINARY}:
        return f"some {name}"
    if kind == TType.BOOL:
        return True
    if kind == TType.DOUBLE:
        return 2.5
    return NOW_MS if kind == TType.I64 else 3 if name == "jobState" else 1


def _pair(inner):
    return inner if isinstance(inner, tuple) else (inner, None)


def _struct(kind, *, is_full):
    made = kind()
    for entry in kind.thrift_spec.values():
        name, is_required = entry[1], entry[-1]
        if is_full or is_required:
            setattr(made, name, _value(name, *_type_of(entry), is_full=is_full))
    return made


def text_of(value):
    """Return a struct as text, with the fields that are set, by their names."""
    if hasattr(value, "thrift_spec"):
        fields = [(entry[1], getattr(value, entry[1])) for entry in value.thrift_spec.values()]
        said = ", ".join(f"{name}={text_of(each)}" for name, each in fields if each is not None)
        return f"{type(value).__name__}({said})"
    if isinstance(value, list | set):
        return f"[{', '.join(map(text_of, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r}: {text_of(each)}" for key, each in value.items()) + "}"
    return repr(value)


def decoded(payload):
    """Return method, sequence id and arguments (or the result) of a frame's payload; what was not sent is None."""
    protocol = TBinaryProtocol(TMemoryBuffer(payload), strict_read=False)
    method, kind, number = protocol.read_message_begin()
    service = plain_idl().PinLater
    struct = getattr(service, f"{method}_{'args' if kind == 1 else 'result'}")()
    struct.read(protocol)
    return method, number, struct


class Recorder:
    """Serves until the end of its context.

    Attributes:
        address: for a client.
        calls: payloads as they came.
        is_full: whether replies have all their fields.
        answers: by method, what makes the frame of its reply from the sequence id and the arguments, instead.
    """

    def __init__(self):
        self.calls = []
        self.is_full = True
        self.answers = {}
        self._stack = contextlib.ExitStack()

    def __enter__(self):
        idl(), plain_idl(), server_codec()  # now: on a busy machine, that takes longer than the first call may
        folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory()))
        self._listener = self._stack.enter_context(socket.socket(socket.AF_UNIX))
        self._listener.bind(str(folder / "server"))
        self._listener.listen()
        self.address = f"unix:{folder / 'server'}"
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._stack.close()

    def take(self):
        """Return the calls since the last time."""
        taken, self.calls = self.calls, []
        return taken

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=self._serve, args=(self._listener.accept()[0],), daemon=True).start()

    def _serve(self, peer):
        with peer, peer.makefile("rb") as stream:
            while header := stream.read(4):
                payload = stream.read(int.from_bytes(header, "big"))
                self.calls.append(payload)
                method, number, arguments = decoded(payload)
                with contextlib.suppress(ConnectionError):
                    peer.sendall(self._reply(method, number, arguments))

    def _reply(self, method, number, arguments):
        if method in self.answers:
            return self.answers[method](number, arguments)
        return encode_reply(method, number, success_of(method, is_full=self.is_full))
