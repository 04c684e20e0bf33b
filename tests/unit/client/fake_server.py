"""A small framed server for tests: real sockets, real bytes, replies by a function."""

import asyncio
import atexit
import contextlib
import socket
import threading

from pinlater import Client, Job
from pinlater.client import ServerSet
from pinlater.client.address import Address
from pinlater.errors import ServiceError
from pinlater.protocol.codec import UNKNOWN_METHOD, Codec
from pinlater.protocol.framing import FrameSplitter
from pinlater.protocol.messages import PinLaterEnqueueResponse
from pinlater.protocol.stopping import STOPPING_FRAME


class FakeServer:
    """Answers every call with ``answer(call)``: a reply, a ServiceError to send, or one of the strings below.

    ``"silence"`` answers nothing, ``"hang up"`` closes the connection, ``"unknown"`` says UNKNOWN_METHOD,
    ``"stopping"`` says that the server stops, and closes; bytes go out as they are.
    """

    def __init__(self, answer, address=("127.0.0.1", 0)):
        self.answer = answer
        self.calls = []
        self.connections = []
        self._listener = socket.create_server(address[:2])
        self.address = Address(*self._listener.getsockname()[:2])
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    @property
    def methods(self):
        return [call.method for call in self.calls]

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                sock, _ = self._listener.accept()
                self.connections.append(sock)
                threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock):
        codec, splitter = Codec(), FrameSplitter()
        with contextlib.suppress(OSError), sock:
            while data := sock.recv(1 << 16):
                for frame in splitter.feed(data):
                    call = codec.decode_call(frame)
                    self.calls.append(call)
                    answer = self.answer(call)
                    if answer == "hang up":
                        return
                    if answer == "stopping":
                        sock.sendall(STOPPING_FRAME)
                        return
                    if answer != "silence":
                        sock.sendall(_encode(codec, call, answer))

    def hang_up(self):
        """Close every connection, as a server does that restarts."""
        for sock in self.connections:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        self.connections.clear()

    def stop_listening(self):
        """Take no new connections."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def close(self):
        self.stop_listening()
        self.hang_up()
        self._thread.join(5)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def _encode(codec, call, answer):
    if isinstance(answer, bytes):
        return answer
    if isinstance(answer, ServiceError):
        return codec.encode_service_error(call.method, call.sequence_id, answer)
    if answer == "unknown":
        return codec.encode_application_error(call.method, call.sequence_id, UNKNOWN_METHOD, "unknown method")
    return codec.encode_reply(call.method, call.sequence_id, answer)


class Ping(Job, queue="pings"):
    number: int = 0


def stored(call):
    """Answer an enqueue: all jobs are stored."""
    request = call.arguments.request
    return PinLaterEnqueueResponse([f"{request.queueName}:s1:p1:{number}" for number in range(len(request.jobs))])


def after(failures, answer):
    """Answer with each failure in turn, then with ``answer``."""
    left = list(failures)
    return lambda call: left.pop(0) if left else answer(call)


def free_address():
    """Return an address where nobody listens, unless by its number: other tests take any free one."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind(("127.0.0.1", 0))
    atexit.register(sock.close)  # it is kept until then
    return Address(*sock.getsockname()[:2])


def client_of(*servers, kind=Client, **options):
    """Return a client of a server set, or of servers or addresses."""
    if not isinstance(servers[0], ServerSet):
        servers = ([str(getattr(server, "address", server)) for server in servers],)
    return kind(*servers, **options)


class Blocking:
    """An asyncio client whose verbs are called like those of a blocking client."""

    def __init__(self, client):
        self._client = client
        self._runner = asyncio.Runner()

    def __getattr__(self, name):
        verb = getattr(self._client, name)
        return lambda *args, **kwargs: self._runner.run(_awaited(verb, *args, **kwargs))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with self._runner:
            self.close()


async def _awaited(verb, *args, **kwargs):
    return await verb(*args, **kwargs)
