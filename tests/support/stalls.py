"""A disk whose syncs take long."""

import subprocess

import pytest


class Stalls:
    """Lets each sync of a process take long, as long as it is entered; needs the right to trace it.

    Args:
        process: the process.
        log: file for the trace.
        seconds: so long a sync takes.
    """

    def __init__(self, process, log, seconds):
        self._process = process
        self._log = log
        self._seconds = seconds
        self._tracer = None

    def __enter__(self):
        delay = f"inject=fdatasync,fsync:delay_enter={int(self._seconds * 1e6)}"
        tracer = ["strace", "-f", "-e", "trace=fdatasync,fsync", "-e", delay]
        tracer += ["-o", str(self._log), "-p", str(self._process.pid)]
        self._tracer = subprocess.Popen(tracer, stderr=subprocess.PIPE, text=True)
        said = self._tracer.stderr.readline()
        if "attached" not in said:
            self._tracer.wait(10)
            pytest.skip(f"strace cannot trace here: {said}")
        return self

    def __exit__(self, *_):
        self._tracer.terminate()
        self._tracer.communicate(timeout=60)
