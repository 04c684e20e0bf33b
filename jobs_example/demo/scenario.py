"""Run the demo: start the programs, enqueue jobs, kill a process, wait for the end, print the checks."""

import sys
import time
from contextlib import ExitStack
from pathlib import Path

from jobs_example.demo.checks import Check, Outcome, check_all
from jobs_example.demo.crash import Crash, kill_when_half_done, running_pid
from jobs_example.demo.programs import DemoError, Program, Server, Worker
from jobs_example.demo.receiver import Receiver
from jobs_example.demo.screen import Screen, bar
from jobs_example.demo.work import QUEUES, Counts, IndexStatus, Work, counts, enqueue_all, index_status
from jobs_example.source_index import source_files
from pinlater import Client

PROCESSES = 3
POLL_SECONDS = 0.1
LONGEST_SECONDS = 180.0
INTRODUCTION = """\
A server, a worker with three processes, and real jobs: thumbnails, deliveries to an endpoint that sometimes fails, a
full-text index of Python's standard library, and a report. Half way through the index, its process is killed.
"""


class Scenario:
    """One run of the demo.

    Args:
        screen: where to print.
        folder: folder for data, results and logs.
    """

    def __init__(self, screen: Screen, folder: Path) -> None:
        self._screen = screen
        self._folder = folder
        self._files = len(source_files())
        self._crash: Crash | None = None
        self._recovered = False

    def run(self) -> bool:
        """Run everything; return whether all checks pass.

        Raises:
            DemoError: a program failed, or the jobs take too long.
        """
        self._screen.text(INTRODUCTION)
        with ExitStack() as stack:
            receiver = stack.enter_context(Receiver())
            server = stack.enter_context(Server(self._folder))
            server.wait_until_ready()
            self._screen.say(f"server ready on {server.address}; dashboard: {server.admin_url}/")
            client = stack.enter_context(Client(server.address))
            work = enqueue_all(client, self._folder, receiver.url)
            self._screen.say(_enqueued(work, self._files))
            worker = stack.enter_context(Worker(self._folder, server, PROCESSES))
            self._screen.say(f"worker started: {PROCESSES} job processes (master: process {worker.pid})")
            self._follow(client, work, [server, worker], worker.pid)
            infos = client.lookup(handle.descriptor for handle in work.handles)
            self._screen.say("all jobs have ended; stopping worker and server")
            stopped = _stopped(worker, server)
        return self._show([*check_all(Outcome(work, infos, receiver, self._crash)), stopped])

    def _follow(self, client: Client, work: Work, programs: list[Program], worker_pid: int) -> None:
        deadline = time.monotonic() + LONGEST_SECONDS
        while time.monotonic() < deadline:
            for program in programs:
                program.check()
            by_queue = {queue: counts(client, queue) for queue in QUEUES}
            status = index_status(work)
            self._screen.status(*self._status(by_queue, status))
            if sum(count.done + count.failed for count in by_queue.values()) >= len(work.handles):
                return
            self._watch_index(work, status, worker_pid)
            time.sleep(POLL_SECONDS)
        raise DemoError(f"not finished after {LONGEST_SECONDS:g} s; see the logs in {self._folder}")

    def _watch_index(self, work: Work, status: IndexStatus, worker_pid: int) -> None:
        if self._crash is None:
            self._crash = kill_when_half_done(work, self._files, worker_pid)
            if self._crash:
                self._screen.say(
                    f"KILLED process {self._crash.pid} (SIGKILL) in the middle of the index; "
                    f"its last checkpoint is file {self._crash.cursor}"
                )
        elif not self._recovered:
            pid = running_pid(status)
            if pid and pid != self._crash.pid:
                self._recovered = True
                attempt = status.info.attempts_allowed - status.info.attempts_remaining + 1
                text = f"process {pid} continues the index from file {self._crash.cursor}, attempt {attempt}"
                self._screen.say(f"{text}; status of the job: {_first_line(status.info.status)}")

    def _status(self, by_queue: dict[str, Counts], status: IndexStatus) -> tuple[list[str], str]:
        rows = [f"{queue:>14}  {_in_words(count)}" for queue, count in by_queue.items()]
        index = f"{'index':>14}  {bar(status.cursor, self._files)} {status.cursor} of {self._files} files"
        total = Counts(*map(sum, zip(*by_queue.values(), strict=True)))
        return ["", *rows, index], f"{_in_words(total)}; index at file {status.cursor} of {self._files}"

    def _show(self, results: list[Check]) -> bool:
        self._screen.text()
        for check in results:
            self._screen.text(f"  {'ok    ' if check.holds else 'FAILED'} {check.text}")
        holds = all(check.holds for check in results)
        verdict = "Nothing was lost" if holds else "Some checks failed, see above; logs: " + str(self._folder)
        self._screen.text(f"\n{verdict}. It took {self._screen.seconds:.1f} s.")
        return holds


def _enqueued(work: Work, files: int) -> str:
    return (
        f"enqueued {len(work.handles)} jobs: {len(work.thumbnails)} photographs, {len(work.events)} deliveries and a "
        f"delayed one, an index of {files} source files, and a report in three steps"
    )


def _in_words(count: Counts) -> str:
    return f"{count.waiting:3} waiting {count.running:3} running {count.done:3} done {count.failed:3} given up"


def _first_line(text: str) -> str:
    return text.strip().split("\n", 1)[0] or "none"


def _stopped(worker: Program, server: Program) -> Check:
    statuses = [worker.stop(), server.stop()]
    return Check("worker and server stopped cleanly (exit status 0)", statuses == [0, 0])


def next_steps(folder: Path) -> str:
    """Return what the user can do next."""
    programs = _short(Path(sys.executable).parent)
    return f"""
To keep it running, in two terminals:

    {programs}/pinlater-server
    {programs}/pinlater-worker jobs_example

The dashboard is then on http://127.0.0.1:9999/ ; {programs}/pinlater --help lists the commands.
The results of the jobs and the logs of this run are in {_short(folder)}/."""


def _short(path: Path) -> Path:
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
