"""A proxy in front of a server that loses answers: what was asked has been done, and nobody hears of it."""

import contextlib
import socket
import threading


def _nothing():
    """Do nothing."""


class LossyProxy:
    """Passes connections on to a port of this machine.

    Attributes:
        port: connect to it.
        lost: how many answers were lost.

    Args:
        target: the port of the server.
    """

    def __init__(self, target):
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.lost = 0
        self._marker = b""
        self._to_lose = 0
        self._before_cut = _nothing
        self._is_done = True
        self._lock = threading.Lock()
        self._socks = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def lose(self, marker, count=1, before_cut=_nothing, *, is_done=True):
        """Cut the next so many connections that ask for something with ``marker`` in it, instead of the answer.

        What is asked for is done by then, and ``before_cut`` is called between; unless it is not to be done at all.
        """
        with self._lock:
            self._marker, self._to_lose, self._before_cut, self._is_done = marker, count, before_cut, is_done

    def cut(self):
        """Cut all connections, whatever is on its way there or back."""
        for sock in list(self._socks):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def close(self):
        """End it; no connection is left open, as one would be whose socket is closed while a thread reads from it."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                client.close()
                continue
            for sock in (client, server):
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._socks.add(sock)
            loses = threading.Event()
            threading.Thread(target=self._ask, args=(client, server, loses), daemon=True).start()
            threading.Thread(target=self._answer, args=(server, client, loses), daemon=True).start()

    def _ask(self, client, server, loses):
        def pass_on(data):
            with self._lock:
                if self._to_lose and self._marker in data:
                    self._to_lose -= 1
                    loses.set()
                    if not self._is_done:
                        self.lost += 1
                        return False
            server.sendall(data)
            return True

        self._pump(client, server, pass_on)

    def _answer(self, server, client, loses):
        def pass_on(data):
            if loses.is_set():
                self._before_cut()
                self.lost += 1
                return False
            client.sendall(data)
            return True

        self._pump(server, client, pass_on)

    def _pump(self, source, sink, pass_on):
        with contextlib.suppress(OSError):
            while (data := source.recv(1 << 16)) and pass_on(data):
                pass
        for sock in (source, sink):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()
            self._socks.discard(sock)
