"""Jobs that do their worst, one after the other in the same worker: it costs their own attempts, and nobody else's.

Beside each of them run ordinary jobs, which have to be done once each, at their first attempt.
"""

import os
import signal
from pathlib import Path

import psutil
import pytest

from pinlater import Client, JobState
from pinlater.client import NewJob
from tests.system.worker_program import Worker, add_jobs, await_state, info, put, ran, wait_for

ENDING = {
    "segfaults": "killed by SIGSEGV",
    "aborts": "killed by SIGABRT",
    "exits_at_once": "exited with 3",
    "runs_out_of_memory": "killed by SIGKILL (perhaps out of memory)",
    "kills_its_group": "killed by SIGKILL",
}

RAISING = {
    "fills_memory": "MemoryError",
    "recurses": "RecursionError: maximum recursion depth exceeded",
    "leaves": "SystemExit: no number",
    "interrupts": "KeyboardInterrupt",
    "ends_as_a_generator": "GeneratorExit",
    "cancels": "CancelledError",
    "raises_something_unspeakable": "Bare: (its text cannot be had: KeyboardInterrupt)",
    "raises_what_is_no_text": "ValueError: caf\\udce9",
    "raises_megabytes": "ValueError: xxx",
}

LEAVING = [
    "returns_what_nobody_can_carry",
    "logs_binary",
    "leaves_threads",
    "saves_in_threads",
    "saves_after_its_end",
    "moves_house",
]


class Crew:
    """A worker, and the ordinary jobs beside the hostile ones."""

    def __init__(self, folder, client, worker):
        self.folder = folder
        self.client = client
        self.worker = worker
        self._numbers = iter(range(10**6))

    @property
    def pids(self):
        return {child.pid for child in self.worker.children("jobs")}

    def harass(self, how, kind="Hostile"):
        """Run a hostile job among others; return what became of it, and the pids of its attempts."""
        body = b'{"job": "%s", "how": "%s"}' % (kind.encode(), how.encode())
        before = self._touches()
        [job] = self.client.enqueue_jobs("hostile", [NewJob(body, attempts=2)])
        others = before + self._touches()
        finished = {JobState.SUCCEEDED, JobState.FAILED}
        wait_for(lambda: info(self.client, job).state in finished, what=lambda: self.worker.log[-5000:])
        self.expect_unharmed(others)
        return info(self.client, job), self._attempts(how)

    def _touches(self):
        return [put(self.client, "Touch", "touch", number=next(self._numbers)) for _ in range(10)]

    def expect_unharmed(self, others):
        for job in others:
            found = await_state(self.client, job, JobState.SUCCEEDED)
            assert found.attempts_remaining == 3, found.status
        touched = [line for line in ran(self.folder) if line.startswith("touch")]
        assert len(touched) == len(set(touched))
        for queue in ("touch", "hostile"):
            wait_for(lambda queue=queue: self.client.count(queue, JobState.IN_PROGRESS) == 0)
        assert self.worker.process.poll() is None, self.worker.log

    def _attempts(self, how):
        lines = [line.split() for line in ran(self.folder) if line.startswith(f"{how} ")]
        assert [line[1] for line in lines[-2:]] in (["1", "2"], ["1"]), lines
        return [int(line[2]) for line in lines]

    def close(self):
        self.worker.end()
        for line in ran(self.folder):
            if line.startswith("left ") and psutil.pid_exists(int(line.split()[1])):
                os.kill(int(line.split()[1]), signal.SIGKILL)


@pytest.fixture(scope="module")
def start_crew(server, tmp_path_factory):
    crews = []
    with Client(server.address) as client:
        for queue in ("touch", "hostile"):
            client.create_queue(queue)

        def start_crew(*arguments):
            for former in crews:
                former.close()  # it serves the same queues
            folder = tmp_path_factory.mktemp("crew")
            add_jobs(folder, "hostile")
            worker = Worker(folder, "hostile", "--server", server.address, *arguments)
            crews.append(Crew(folder, client, worker))
            worker.await_log("for queue")
            return crews[-1]

        yield start_crew
        for crew in crews:
            crew.close()


@pytest.fixture(scope="module")
def crew(start_crew):
    return start_crew("--processes", 2, "--drain", 60)


@pytest.mark.parametrize(("how", "evidence"), ENDING.items())
def test_a_job_that_ends_its_process(crew, how, evidence):
    found, pids = crew.harass(how)
    assert (found.state, found.attempts_remaining) == (JobState.FAILED, 0)
    assert found.status.count(evidence) == 2, found.status
    assert len(set(pids)) == 2
    assert not crew.pids & set(pids)
    wait_for(lambda: len(crew.pids) == 2)


@pytest.mark.parametrize("kind", ["Hostile", "HostileLater"])
@pytest.mark.parametrize(("how", "words"), RAISING.items())
def test_a_job_that_raises(crew, how, words, kind):
    wait_for(lambda: len(crew.pids) == 2)
    before = crew.pids
    found, _ = crew.harass(how, kind)
    assert (found.state, found.attempts_remaining) == (JobState.FAILED, 0)
    assert found.status.count(f" s] {words}") == 2, found.status
    assert crew.pids == before


@pytest.mark.parametrize("how", LEAVING)
def test_a_job_that_leaves_something_behind(crew, how):
    wait_for(lambda: len(crew.pids) == 2)
    before = crew.pids
    found, pids = crew.harass(how)
    assert (found.state, found.attempts_remaining, len(pids)) == (JobState.SUCCEEDED, 2, 1)
    assert crew.pids == before


def hearing_of(pid):
    """Return which signals a process blocks, ignores and catches."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return [line for line in lines if line.startswith(("SigBlk", "SigIgn", "SigCgt"))]


@pytest.mark.parametrize("how", ["blocks_signals", "takes_signals"])
def test_a_process_takes_its_signals_back_from_its_jobs(crew, how):
    wait_for(lambda: len(crew.pids) == 2)
    before = {pid: hearing_of(pid) for pid in crew.pids}
    found, [pid] = crew.harass(how)
    assert found.state is JobState.SUCCEEDED
    wait_for(lambda: hearing_of(pid) == before[pid], what=lambda: f"{before[pid]} {hearing_of(pid)}")
    assert crew.pids == set(before)


@pytest.mark.parametrize("how", ["sets_an_alarm", "closes_the_loop"])
def test_a_later_job_does_not_pay_for_an_earlier_one(crew, how):
    wait_for(lambda: len(crew.pids) == 2)
    before = crew.pids
    crew.expect_unharmed([put(crew.client, "Nap", "touch") for _ in range(4)])
    found, _ = crew.harass(how)
    assert found.state is JobState.SUCCEEDED
    crew.expect_unharmed([put(crew.client, "Nap", "touch") for _ in range(4)])
    assert crew.pids == before


def test_the_log_goes_on_after_a_job_has_closed_its_streams(crew):
    wait_for(lambda: len(crew.pids) == 2)
    before = crew.pids
    found, [pid, _] = crew.harass("closes_its_streams")
    assert found.status.count("ValueError: I/O operation on closed file") == 2, found.status
    assert crew.pids == before
    assert f"{pid} [{found.descriptor} attempt 1/2] Hostile failed" in crew.worker.log


def test_a_job_that_closes_the_files_of_its_process(crew):
    found, pids = crew.harass("closes_all_files")
    assert (found.state, found.attempts_remaining, len(pids)) == (JobState.SUCCEEDED, 2, 1)
    wait_for(lambda: len(crew.pids) == 2 and not crew.pids & set(pids), what=lambda: crew.worker.log)


def test_a_process_in_which_no_more_files_can_be_opened_is_replaced_before_its_next_job(crew):
    wait_for(lambda: len(crew.pids) == 2)
    found, pids = crew.harass("hoards_files")
    assert (found.state, found.attempts_remaining) == (JobState.FAILED, 0)
    assert found.status.count("OSError: [Errno 24] Too many open files") == 2, found.status
    assert len(set(pids)) == 2
    assert crew.worker.log.count("that no more can be; a new process replaces this one") == 2
    wait_for(lambda: len(crew.pids - set(pids)) == 2)


def test_after_all_that_it_stops_and_leaves_no_process(crew):
    wait_for(lambda: len(crew.pids) == 2)
    crew.harass("leaves_processes")
    left = [int(line.split()[1]) for line in ran(crew.folder) if line.startswith("left ")]
    processes = psutil.Process(crew.worker.process.pid).children(recursive=True)
    assert {*left, *crew.pids} <= {process.pid for process in processes}
    assert crew.worker.stop() == 0
    _, alive = psutil.wait_procs(processes, timeout=10)
    assert alive == []
    assert "drain deadline" not in crew.worker.log


def test_what_jobs_leave_behind_does_not_hold_up_the_end_of_a_process(start_crew):
    crew = start_crew("--processes", 1, "--max-jobs", 5)
    for how in ("waits_for_a_process", "leaves_threads"):
        wait_for(lambda: len(crew.pids) == 1)
        found, [pid] = crew.harass(how)
        assert (found.state, found.attempts_remaining) == (JobState.SUCCEEDED, 2)
        wait_for(lambda pid=pid: not psutil.pid_exists(pid))
    assert crew.worker.stop() == 0


@pytest.fixture(scope="module")
def team(start_crew):
    return start_crew("--processes", 1, "--threads", 3, "--drain", 60)


@pytest.mark.parametrize("how", sorted(RAISING.keys() - {"fills_memory"}))
def test_a_job_that_raises_in_a_thread(team, how):
    before = team.pids
    found, _ = team.harass(how)
    assert (found.state, found.attempts_remaining) == (JobState.FAILED, 0)
    assert found.status.count(f" s] {RAISING[how]}") == 2, found.status
    assert team.pids == before


@pytest.mark.parametrize("how", ["leaves_threads", "saves_in_threads", "saves_after_its_end", "sets_an_alarm"])
def test_a_job_in_a_thread_that_leaves_something_behind(team, how):
    before = team.pids
    found, pids = team.harass(how)
    team.expect_unharmed([put(team.client, "Nap", "touch") for _ in range(3)])
    assert (found.state, found.attempts_remaining, len(pids)) == (JobState.SUCCEEDED, 2, 1)
    assert team.pids == before


def test_a_worker_with_threads_still_stops_cleanly(team):
    assert team.worker.stop() == 0
    assert "drain deadline" not in team.worker.log
