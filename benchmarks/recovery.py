"""How soon a worker runs jobs after its start and after the death of a process, and what an idle process costs."""

from __future__ import annotations

import os
import signal
import socket
import time

from benchmarks.figures import Figure
from benchmarks.jobs import Stay, Tell
from benchmarks.listener import listening, next_start
from benchmarks.programs import ProgramFailed, Worker
from benchmarks.setting import Setting
from pinlater import Client

PROCESSES = 2


def measure(setting: Setting) -> list[Figure]:
    """Measure a worker from its start to the death of a process, several times."""
    starts_ms, memories_mb, recoveries_ms = [], [], []
    with setting.server() as server, server.client() as client, listening(setting.folder / "started") as listener:
        for queue in ("tell", "stay"):
            server.create_queue(queue)
        for number in range(setting.rounds):
            client.enqueue(Tell(number=number, listener=listener.getsockname()))
            began = time.monotonic()
            with setting.worker(server, processes=PROCESSES) as worker:
                _, started = next_start(listener, worker)
                starts_ms.append((started - began) * 1000)
                memories_mb.append(max(process.memory_full_info().pss / 1e6 for process in worker.job_processes()))
                recoveries_ms.append(_recovery(client, worker, listener) * 1000)
    return [
        Figure("worker_start", "start of a worker to that of its first job", "ms", starts_ms),
        Figure("idle_process", "memory of a job process that waits, its own part", "MB", memories_mb),
        Figure("kill_recovery", "kill -9 of a job process to the next attempt of its job", "ms", recoveries_ms),
    ]


def _recovery(client: Client, worker: Worker, listener: socket.socket) -> float:
    """Return the seconds from the kill of a job's process to the start of the job in another process."""
    client.enqueue(Stay(listener=listener.getsockname()))
    pid, _ = next_start(listener, worker)
    killed = time.monotonic()
    os.kill(pid, signal.SIGKILL)
    other_pid, started = next_start(listener, worker)
    if other_pid == pid:
        raise ProgramFailed(f"process {pid} was killed, but goes on")
    return started - killed
