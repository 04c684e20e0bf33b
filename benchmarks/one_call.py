"""The path of one call: an enqueue of one small job by one producer, stage by stage, back to back and after pauses.

Times are medians. Those of the stages come from a server and a client with marks, each of which costs about a
microsecond; the whole call is also measured without marks. A stage's processor time is that of the whole process,
including all threads. Other load on the machine changes the times, but hardly the counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import fmean, median
from typing import NamedTuple

from benchmarks.activity import activity_of, can_count_calls, system_calls
from benchmarks.figures import Figure
from benchmarks.jobs import Nothing
from benchmarks.marked_server import STAGES, STATEMENTS
from benchmarks.marks import Marks
from benchmarks.one_call_stages import CLIENT_STAGES, CLIENT_TARGETS, ENDED, START, WAY, split_calls
from benchmarks.programs import Server
from benchmarks.setting import Setting
from pinlater import Client
from pinlater.jobs.body_codec import encode_body

CALLS = 3000
PACES = {"hot": 0.0, "20 ms": 0.02}
"""Seconds between two calls; after 20 ms, processors and processes are asleep."""

PAUSED_SHARE = 6
"""One in this many calls is made with pauses, because those take long."""

_FRAME_BYTES = 150
_QUEUE = "nothing"


class Measured(NamedTuple):
    """Results of one round by row and column: microseconds and counts."""

    us: dict[tuple[str, str], float]
    counts: dict[tuple[str, str], float]


def measure(setting: Setting) -> list[Figure]:
    """Measure the stages, the whole call beside an echo and a bare commit, and the counts."""
    with ExitStack() as stack:
        path = _Path(setting, stack)
        rounds = setting.in_turns(*(lambda name=name: path.measure(name) for name in PACES))
    return [
        figure
        for unit, kind in (("us of a call", "us"), ("a call", "counts"))
        for found in rounds
        for figure in _figures(unit, [getattr(one, kind) for one in found])
    ]


def _figures(unit: str, rounds: Sequence[dict[tuple[str, str], float]]) -> list[Figure]:
    return [
        Figure(_name(cell), ", ".join(cell), unit, [found.get(cell, 0.0) for found in rounds], cell=cell)
        for cell in rounds[0]
    ]


def _name(cell: tuple[str, str]) -> str:
    words = "".join(letter if letter.isalnum() else " " for letter in " ".join(cell)).split()
    return "_".join(["one_call", *words]).lower()


class _Path:
    """The programs, and the means to measure them."""

    def __init__(self, setting: Setting, stack: ExitStack) -> None:
        self._setting = setting
        self._calls = setting.amount(CALLS // setting.rounds)
        self._store = stack.enter_context(setting.bare())
        echo = stack.enter_context(setting.echo())
        self._echo_pid, self._echo = echo.pid, stack.enter_context(echo.connect())
        server, self._pids = self._start(stack, "server")
        marks_file = setting.folder / "marks"
        marked, _ = self._start(stack, "marked", marks=marks_file)
        self._client = stack.enter_context(server.client())
        self._marked_client = stack.enter_context(marked.client())
        self._server_marks = Marks(marks_file, STAGES, is_reader=True)
        self._client_marks = Marks(setting.folder / "client-marks", CLIENT_STAGES)
        self._counts_calls = can_count_calls()
        self._counts_statements = setting.stores.statements(setting.folder / "server") is not None

    def _start(self, stack: ExitStack, name: str, *, marks: Path | None = None) -> tuple[Server, dict[str, int]]:
        """Start a server on its own store; return it, and the process ids of both by name."""
        server = stack.enter_context(self._setting.server(name, marks=marks))
        server.create_queue(_QUEUE)
        databases = self._setting.stores.databases
        pids = {"server": server.process().pid} | ({"database": databases[-1].pid} if databases else {})
        return server, pids

    def measure(self, pace: str) -> Measured:
        """Measure one round at a pace."""
        pause = PACES[pace]
        calls = max(self._calls // (PAUSED_SHARE if pause else 1), 2)
        us, counts = self._whole(pace, pause, calls)
        stages, marked_counts = self._stages(pace, pause, calls)
        counts |= marked_counts
        if self._counts_calls and not pause:
            counts |= self._system_calls(pace, calls)
        return Measured(stages | us | self._floors(pace, pause, calls), counts)

    def _whole(
        self, pace: str, pause: float, calls: int
    ) -> tuple[dict[tuple[str, str], float], dict[tuple[str, str], float]]:
        """Measure calls without marks: wall and processor time, wake-ups, statements."""
        enqueue = _enqueue(self._client)
        statements, before = self._statements(), {name: activity_of(pid) for name, pid in self._pids.items()}
        own_cpu = time.process_time()
        walls = _repeat(calls, pause, enqueue)
        own_us = (time.process_time() - own_cpu) * 1e6
        done = {name: activity_of(pid).since(before[name]) for name, pid in self._pids.items()}
        us = {("whole call", f"{pace} wall"): median(walls)}
        cpu_us = {"client": own_us} | {name: activity.cpu_us for name, activity in done.items()}
        us |= {(f"whole call: {name}", f"{pace} CPU"): spent / calls for name, spent in cpu_us.items()}
        counts = {(f"wake-ups of the {name}", pace): one.wake_ups / calls for name, one in done.items()}
        if self._counts_statements:
            counts["statements", pace] = (self._statements() - statements) / calls
        return us, counts

    def _statements(self) -> int:
        return self._setting.stores.statements(self._setting.folder / "server") or 0

    def _stages(
        self, pace: str, pause: float, calls: int
    ) -> tuple[dict[tuple[str, str], float], dict[tuple[str, str], float]]:
        """Measure calls with marks: the time of each stage, and the counts that the marks give."""
        job = Nothing(number=1)
        self._server_marks.read_new()

        def enqueue() -> None:
            self._client_marks.mark(START)
            self._marked_client.enqueue(job)
            self._client_marks.mark(ENDED)

        with self._client_marks.on(CLIENT_TARGETS):
            _repeat(calls, pause, enqueue)
        found = split_calls(self._client_marks.read_new(), self._server_marks.read_new())
        us = {}
        for stage in WAY:
            if any(stage in call.wall_us for call in found):
                us[stage, f"{pace} wall"] = median(call.wall_us.get(stage, 0.0) for call in found)
                us[stage, f"{pace} CPU"] = median(call.cpu_us.get(stage, 0.0) for call in found)
        us["whole call, with marks", f"{pace} wall"] = median(sum(call.wall_us.values()) for call in found)
        counts = {("hand-overs between threads", pace): fmean(call.hand_overs for call in found)}
        if self._counts_statements:
            counts["round trips to the database", pace] = fmean(call.count("store: round trips") for call in found)
        else:
            counts["statements", pace] = fmean(sum(map(call.count, STATEMENTS)) for call in found)
        return us, counts

    def _system_calls(self, pace: str, calls: int) -> dict[tuple[str, str], float]:
        """Count the system calls of enqueues, minus those that the processes make in the same time anyway."""
        pids = list(self._pids.values())
        began = time.monotonic()
        with system_calls(pids) as busy:
            _repeat(calls, 0.0, _enqueue(self._client))
        seconds = time.monotonic() - began
        with system_calls(pids) as idle:
            time.sleep(seconds)
        return {
            (f"system calls of the {name}", pace): max(sum(with_calls.values()) - sum(without.values()), 0) / calls
            for name, with_calls, without in zip(self._pids, busy, idle, strict=True)
        }

    def _floors(self, pace: str, pause: float, calls: int) -> dict[tuple[str, str], float]:
        """Measure an echo, with the processor time of its server, and a bare commit, with that of this process."""
        frame, body = b"x" * _FRAME_BYTES, encode_body(Nothing(number=1))

        def echo() -> None:
            self._echo.sendall(frame)
            received = 0
            while received < len(frame):
                received += len(self._echo.recv(65536))

        before = activity_of(self._echo_pid)
        echoes = _repeat(calls, pause, echo)
        echo_us = activity_of(self._echo_pid).since(before).cpu_us / calls
        own_cpu = time.process_time()
        commits = _repeat(calls, pause, lambda: self._store.insert([body]))
        commit_us = (time.process_time() - own_cpu) * 1e6 / calls
        return {
            ("floor: echo", f"{pace} wall"): median(echoes),
            ("floor: echo", f"{pace} CPU"): echo_us,
            ("floor: bare commit", f"{pace} wall"): median(commits),
            ("floor: bare commit", f"{pace} CPU"): commit_us,
        }


def _enqueue(client: Client) -> Callable[[], object]:
    job = Nothing(number=1)
    return lambda: client.enqueue(job)


def _repeat(calls: int, pause: float, call: Callable[[], object]) -> list[float]:
    """Return the microseconds of each call."""
    found = []
    for _ in range(calls):
        if pause:
            time.sleep(pause)
        started = time.perf_counter()
        call()
        found.append((time.perf_counter() - started) * 1e6)
    return found
