"""A server whose port speaks TLS, and how it is reached."""

import contextlib
import os
import socket
import subprocess
import sys
from pathlib import Path

from pinlater import Client
from pinlater.errors import CallError
from tests.support.server import ServerProcess, environment, wait_for

ROOT = Path(__file__).parents[3]

DEADLINE_SECONDS = 1.5


class TlsServer(ServerProcess):
    """A server whose port speaks TLS, and which is asked by a client that does."""

    def __init__(self, folder, tls, **settings):
        self.tls = tls
        super().__init__(folder, **settings)

    @property
    def address(self):
        return f"tls://127.0.0.1:{self.port}"

    def _await_answer(self):
        def answers():
            assert self.process.poll() is None, self.log
            with contextlib.suppress(CallError), Client(self.address, tls=self.tls, retries=0) as client:
                client.queue_names()
                return True

        wait_for(answers, 30)


def in_environment(files):
    names = {"PINLATER_TLS_CA": files.ca, "PINLATER_TLS_CERT": files.cert, "PINLATER_TLS_KEY": files.key}
    return environment() | {name: os.fspath(path) for name, path in names.items() if path}


def tool(server, files, *arguments):
    return subprocess.run(
        [sys.executable, "-m", "pinlater.cli", *arguments, "--server", server.address],
        env=in_environment(files),
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )


def raw_connection(server):
    return socket.create_connection(("127.0.0.1", server.port), timeout=20)
