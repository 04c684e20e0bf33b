"""A daemon that a program with a connection has forked, and that lives on after the program was killed."""

import os
import signal
import socket
import subprocess
import sys

FORK = """
import os, signal, sys, time

def fork_and_die():
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            print(os.getpid(), flush=True)
            time.sleep(600)
        os._exit(0)
    os.wait()
    os.kill(os.getpid(), signal.SIGKILL)
"""
"""What the program runs when it is connected."""


def check_connection_ends(program, *arguments):
    """Check that the connection of a program, which gets an address, ends with it; ``program`` follows ``FORK``."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(60)
        host, port = listener.getsockname()
        command = [sys.executable, "-c", FORK + program, f"{host}:{port}", *arguments]
        process = subprocess.Popen(command, stdout=subprocess.PIPE)
        server_side, _ = listener.accept()
        daemon = int(process.stdout.readline())
        try:
            server_side.settimeout(60)
            assert server_side.recv(1) == b"", "the client has ended"
        finally:
            os.kill(daemon, signal.SIGKILL)
            process.stdout.close()
            process.wait()
            server_side.close()
