"""Measurement of one contestant for one round."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import NamedTuple

import psutil

from benchmarks.activity import activity_of
from benchmarks.figures import percentile
from benchmarks.peers.contestants import Contestant
from benchmarks.peers.drivers.note import START
from benchmarks.peers.producer import Produced, Producer
from benchmarks.peers.services import Service
from benchmarks.programs import ProgramFailed

DRIVERS = Path(__file__).with_name("drivers")
ROOT = Path(__file__).parents[2]

CALLS, PAUSED_CALLS, DRAINED = 3000, 150, 20_000
PAUSE_SECONDS = 0.02
PRODUCERS = 8
FILL, OUTSTANDING = "fill", "outstanding"
"""Alternatives to a pause between two calls: all jobs in as few calls as possible, or many calls in flight."""

LEAST_SHARE = 0.1
"""Minimum share of the calls, however slow the workers are that run the jobs."""

PATIENCE_SECONDS = 180.0
_POLL_SECONDS = 0.01
_STOP_SECONDS = 10.0


class Round(NamedTuple):
    """Results of one round; None for what the contestant cannot do."""

    calls_a_second: float
    call_server_us: float
    call_producer_us: float
    many_calls_a_second: float
    outstanding_calls_a_second: float | None
    paused_call_ms: float
    paused_call_beside_worker_ms: float
    start_p50_ms: float
    start_p99_ms: float
    jobs_a_second: float
    job_server_us: float
    job_worker_us: float


class Amounts(NamedTuple):
    """How much is measured in a round."""

    calls: int
    paused: int
    drained: int

    @classmethod
    def scaled(cls, scale: float, share: float) -> Amounts:
        """Return the scaled amounts; the jobs that a slow contestant has to run are also reduced by its share."""
        shares = max(share, LEAST_SHARE), 1.0, share
        full = zip((CALLS, PAUSED_CALLS, DRAINED), shares, strict=True)
        return cls(*(max(round(amount * scale * part), 10) for amount, part in full))


def measure(contestant: Contestant, python: Path, folder: Path, amounts: Amounts) -> Round:
    """Start a contestant in an empty folder, measure it, and end all of its processes.

    Raises:
        ProgramFailed: one of its programs did not do what it should.
        NotInstalled: its server is not on this machine.
    """
    with ExitStack() as stack:
        service = stack.enter_context(contestant.serve(folder))
        match = _Match(contestant, python, service, folder, most=3 * sum(amounts) + 10 * PRODUCERS)
        match.produce(1, 0.0)  # creates what is missing, such as tables
        with match.workers() as workers:
            match.wait_until_done(workers)
            started = match.produce(amounts.paused, PAUSE_SECONDS)
            match.wait_until_done(workers)
        starts = [start / 1e6 for start in match.starts_after(started)]
        first = match.next
        hot = match.produce(amounts.calls + 1, 0.0)
        many = match.produce_at_once(PRODUCERS, amounts.calls // PRODUCERS + 1)
        outstanding = [match.produce(amounts.calls + 1, OUTSTANDING)] if contestant.keeps_outstanding else []
        paused = match.produce(amounts.paused, PAUSE_SECONDS)
        match.produce(amounts.drained, FILL)
        with match.workers() as workers:
            drain = match.drain(workers, first)
        return Round(
            amounts.calls / (sum(took for _, took in hot.calls) / 1e9),
            hot.server_us / amounts.calls,
            hot.producer_us / amounts.calls,
            _rate(many),
            _rate(outstanding) if outstanding else None,
            percentile([took / 1e6 for _, took in paused.calls], 50),
            percentile([took / 1e6 for _, took in started.calls], 50),
            percentile(starts, 50),
            percentile(starts, 99),
            *drain,
        )


class _Match:
    """A running contestant: its producers, its workers, and the starts of its jobs by their numbers.

    Attributes:
        next: number of the next job.
    """

    def __init__(self, contestant: Contestant, python: Path, service: Service, folder: Path, most: int) -> None:
        self._contestant, self._python, self._service, self._folder = contestant, python, service, folder
        self._starts = folder / "starts"
        self._starts.write_bytes(bytes(most * START.size))
        self.next = 0
        self._log_numbers = count()

    def produce(self, jobs: int, pause: float | str) -> Produced:
        """Enqueue jobs in a separate process; ``pause`` is seconds, ``FILL`` or ``OUTSTANDING``."""
        return self.produce_at_once(1, jobs, pause)[0]

    def produce_at_once(self, producers: int, jobs: int, pause: float | str = 0.0) -> list[Produced]:
        """Let several processes enqueue ``jobs`` jobs each."""
        own = sys.executable if self._contestant.is_ours else str(self._python)
        firsts = range(self.next, self.next + producers * jobs, jobs)
        self.next += producers * jobs
        with ExitStack() as stack:
            running = []
            for first in firsts:
                command = [own, str(DRIVERS / "produce.py"), self._contestant.driver, str(first), str(jobs), str(pause)]
                running.append(stack.enter_context(Producer(command, self._environ(), self._log("producer"))))
            for producer in running:
                producer.wait_until_ready()
            before = cpu_us_of(self._service.pids)
            for producer in running:
                producer.begin()
            found = [producer.found() for producer in running]
            server_us = cpu_us_of(self._service.pids) - before
        return [
            Produced(first + 1, one["calls"], one["cpu_us"], server_us)
            for first, one in zip(firsts, found, strict=True)
        ]

    @contextmanager
    def workers(self) -> Iterator[list[subprocess.Popen[bytes]]]:
        """Start the workers; end them with all of their processes."""
        command = self._contestant.command(self._python, self._service.url)
        with ExitStack() as stack:
            workers: list[subprocess.Popen[bytes]] = []
            stack.callback(_end, workers)
            for _ in range(self._contestant.workers):
                log = stack.enter_context(self._log("worker").open("wb"))
                workers.append(
                    subprocess.Popen(
                        command,
                        stdin=subprocess.DEVNULL,
                        stdout=log,
                        stderr=log,
                        cwd=DRIVERS,
                        env=self._environ(),
                        start_new_session=True,
                    )
                )
            yield workers

    def wait_until_done(self, workers: Sequence[subprocess.Popen[bytes]]) -> None:
        """Wait until all jobs so far have started."""
        self._wait(workers, 0)

    def starts_after(self, produced: Produced) -> list[int]:
        """Return the nanoseconds from the beginning of each call to the start of its job."""
        starts = self._read()
        return [starts[produced.first + at] - began for at, (began, _) in enumerate(produced.calls)]

    def drain(self, workers: Sequence[subprocess.Popen[bytes]], first: int) -> tuple[float, float, float]:
        """Wait until the jobs from a number on are done; return their rate, and both sides' processor time per job.

        Counting begins with the first jobs, so that the start of the workers is left out.
        """
        begun = self._wait(workers, first, 1)
        before = self._spent(workers)
        left = max(self.next - first - begun, 1)
        self._wait(workers, first)
        server_us, worker_us = (now - then for now, then in zip(self._spent(workers), before, strict=True))
        starts = self._read()[first : self.next]
        rate = (len(starts) - 1) / max((max(starts) - min(starts)) / 1e9, 1e-9)
        return rate, server_us / left, worker_us / left

    def _spent(self, workers: Sequence[subprocess.Popen[bytes]]) -> tuple[float, float]:
        return cpu_us_of(self._service.pids), cpu_us_of([worker.pid for worker in workers])

    def _wait(self, workers: Sequence[subprocess.Popen[bytes]], first: int, least: int | None = None) -> int:
        """Wait until ``least`` jobs (None for all) from a number on have started; return how many have."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            begun = 0
            if least is not None or self._has_last_started():  # counting takes time from the workers
                begun = sum(map(bool, self._read()[first : self.next]))
            if begun >= (self.next - first if least is None else least):
                return begun
            ended = any(worker.poll() is not None for worker in workers)
            self._expect(not ended and time.monotonic() < deadline, "worker")
            time.sleep(_POLL_SECONDS)

    def _has_last_started(self) -> bool:
        with self._starts.open("rb") as file:
            file.seek((self.next - 1) * START.size)
            return any(file.read(START.size))

    def _read(self) -> Sequence[int]:
        return memoryview(self._starts.read_bytes()).cast("q").tolist()

    def _log(self, name: str) -> Path:
        return self._folder / f"{name}-{next(self._log_numbers)}.log"

    def _expect(self, is_well: bool, who: str) -> None:
        if not is_well:
            logs = sorted(self._folder.glob("worker-*.log"))
            words = "\n".join(file.read_text(errors="replace")[-2000:] for file in logs)
            raise ProgramFailed(f"{self._contestant.title}: its {who} failed; its last words:\n{words}")

    def _environ(self) -> dict[str, str]:
        path = [str(DRIVERS), *([str(ROOT), str(ROOT / "supervisor")] if self._contestant.is_ours else [])]
        ours = {key: value for key, value in os.environ.items() if not key.startswith("PINLATER_")}
        more = {"PEERS_URL": self._service.url, "PEERS_STARTS": str(self._starts), "PYTHONPATH": os.pathsep.join(path)}
        return ours | more | dict(self._contestant.environ)


def _rate(producers: Sequence[Produced]) -> float:
    """Return calls per second of producers that ran at the same time."""
    calls = [call for producer in producers for call in producer.calls]
    begin, end = min(began for began, _ in calls), max(began + took for began, took in calls)
    return len(calls) / ((end - begin) / 1e9)


def cpu_us_of(pids: Sequence[int]) -> float:
    """Return the processor time of processes and all of their children, including those that have ended."""
    spent = 0.0
    for pid in pids:
        with suppress(psutil.NoSuchProcess):
            process = psutil.Process(pid)
            for one in [process, *process.children(recursive=True)]:
                with suppress(OSError, psutil.NoSuchProcess):  # it has just ended
                    ended = one.cpu_times()
                    spent += activity_of(one.pid).cpu_us + (ended.children_user + ended.children_system) * 1e6
    return spent


def _end(workers: Sequence[subprocess.Popen[bytes]]) -> None:
    """Ask workers to stop, then kill those of their processes that are left."""
    families = [worker.pid for worker in workers]
    with suppress(psutil.NoSuchProcess):
        families += [child.pid for worker in workers for child in psutil.Process(worker.pid).children(recursive=True)]
    processes = [psutil.Process(pid) for pid in families if psutil.pid_exists(pid)]
    for worker in workers:
        worker.terminate()
    for worker in workers:
        with suppress(subprocess.TimeoutExpired):
            worker.wait(_STOP_SECONDS)
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    for worker in workers:
        worker.wait()
