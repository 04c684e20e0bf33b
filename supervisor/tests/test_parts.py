"""Parts that need no process: back-off, words, counters, settings."""

import ast
import os
import signal
import subprocess
import sys
import threading
from math import inf
from pathlib import Path

import pinlater_supervisor
import pytest
from pinlater_supervisor import ChildExit, Pool, Supervisor
from pinlater_supervisor.backoff import CrashBackoff
from pinlater_supervisor.child import Child, ChildPosition
from pinlater_supervisor.child_page import DRAINING, STOPPING_NOW, ChildPage
from pinlater_supervisor.drain import Drain
from pinlater_supervisor.memory import OomCounter
from pinlater_supervisor.pool_state import PoolState
from pinlater_supervisor.process import MOST_RESENDS, ChildProcess
from pinlater_supervisor.stack_dumps import GAP_SECONDS, StackDumps


def ended(**facts):
    plain = {
        "pool": "jobs",
        "slot": 0,
        "pid": 1,
        "generation": 0,
        "code": None,
        "signal": None,
        "peak_rss_bytes": 212_000_000,
        "run_seconds": 3.2,
        "was_ready": True,
        "stopping": False,
    }
    return ChildExit(**{**plain, **facts})


class TestBackoff:
    def delays(self, backoff, exits, now=100.0, pause=0.0):
        delays = []
        for one in exits:
            delays.append(backoff.delay_seconds(one, now))
            now += delays[-1] + pause
        return delays

    def test_unready_children_wait_up_to_ten_seconds(self):
        crash = ended(code=1, was_ready=False, run_seconds=0.1)
        assert self.delays(CrashBackoff(1), [crash] * 9) == [0, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0]

    def test_ready_children_wait_up_to_one_second(self):
        crash = ended(signal=9, run_seconds=0.1)
        assert self.delays(CrashBackoff(1), [crash] * 7) == [0, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0]

    def test_each_slot_has_its_first_crash_free(self):
        crash = ended(signal=9, run_seconds=0.1)
        assert self.delays(CrashBackoff(2), [crash] * 6) == [0, 0, 0.1, 0.1, 0.2, 0.2]

    def test_a_calm_time_forgets(self):
        crash = ended(signal=9, run_seconds=0.1)
        assert self.delays(CrashBackoff(1), [crash] * 3, pause=6.0) == [0, 0, 0]

    def test_a_child_that_ran_long_is_replaced_at_once(self):
        assert self.delays(CrashBackoff(1), [ended(signal=9, run_seconds=60)] * 5) == [0] * 5

    def test_a_child_that_leaves_of_its_own_will_is_no_crash_but_no_storm_either(self):
        delays = self.delays(CrashBackoff(1), [ended(code=0, run_seconds=0.04)] * 3)
        assert delays == pytest.approx([0.06] * 3)

    def test_many_crashes_do_not_overflow(self):
        crash = ended(code=1, was_ready=False, run_seconds=0.1)
        assert self.delays(CrashBackoff(1), [crash] * 5000)[-1] == 10.0


class TestWords:
    @pytest.mark.parametrize(
        ("facts", "words"),
        [
            ({"signal": 9}, "killed by SIGKILL (perhaps out of memory)"),
            ({"signal": 9, "oom_suspected": True}, "killed by SIGKILL (out of memory)"),
            ({"signal": 9, "killed_by_master": "drain deadline"}, "killed by SIGKILL (drain deadline)"),
            ({"signal": 9, "killed_by_master": "a", "kill_detail": "b"}, "killed by SIGKILL (a: b)"),
            ({"signal": 11}, "killed by SIGSEGV"),
            ({"signal": 40}, "killed by signal 40"),
            ({"code": 0}, "exited with 0"),
            ({"code": 1, "was_ready": False}, "exited with 1 (before it was ready)"),
            ({"code": 78, "was_ready": False}, "exited with 78 (cannot boot)"),
        ],
    )
    def test_cause(self, facts, words):
        assert ended(**facts).in_words() == f"{words}, peak 212 MB, ran 3.2 s"

    def test_expected(self):
        assert ended(code=0).is_expected
        assert ended(signal=signal.SIGTERM, stopping=True).is_expected
        assert not ended(signal=signal.SIGTERM).is_expected
        assert not ended(signal=9, stopping=True, killed_by_master="drain deadline").is_expected
        assert not ended(code=1).is_expected


class TestOomCounter:
    def test_growth_is_told_once(self, tmp_path):
        events = tmp_path / "memory.events"
        events.write_text("low 0\nhigh 0\nmax 3\noom 1\noom_kill 1\n")
        counter = OomCounter([events])
        assert not counter.has_grown()
        events.write_text("low 0\nhigh 0\nmax 4\noom 2\noom_kill 2\n")
        assert counter.has_grown()
        assert not counter.has_grown()

    def test_no_file_no_suspicion(self, tmp_path):
        assert not OomCounter([tmp_path / "gone"]).has_grown()


class TestCell:
    def test_stages_only_rise(self):
        page = ChildPage()
        page.raise_stage(STOPPING_NOW)
        page.raise_stage(DRAINING)
        assert page.stage == STOPPING_NOW
        page.close()

    def test_status_is_cut_and_never_fails(self):
        page = ChildPage()
        page.set_status("\ud800" + "ü" * 1000)
        assert page.status.startswith("?üü")
        assert len(page.status.encode()) <= 515
        page.set_status("short")
        assert page.status == "short"
        page.close()


class TestKillAt:
    def test_the_master_is_woken_only_for_a_time_before_its_next_check(self):
        page = ChildPage()
        assert page.set_kill_at(20.0)
        page.set_next_check_at(20.0)
        assert not page.set_kill_at(21.0)
        assert page.set_kill_at(19.5)
        assert page.kill_at_seconds == 19.5
        assert not page.set_kill_at(inf)
        assert page.kill_at_seconds == inf
        page.close()


class TestCrew:
    def state(self, size):
        state = PoolState(Pool(name="jobs", size=size, run=lambda child: 0))
        self.add(state, size, ready=True)
        return state

    def add(self, state, number, *, ready):
        for _ in range(number):
            process = state.new_child()
            process.pid = 1000 + len(state.children)
            state.children[process.pid] = process
            if ready:
                process.page.set_ready(0)

    def slots(self, state):
        return [process.slot for process in state.surplus()]

    def test_old_children_leave_one_by_one_as_new_ones_get_ready(self):
        state = self.state(2)
        state.start_generation()
        assert state.missing_count(0.0) == 2
        self.add(state, 2, ready=False)
        assert self.slots(state) == []
        state.children[1002].page.set_ready(0)
        assert self.slots(state) == [0]
        state.children[1003].page.set_ready(0)
        assert self.slots(state) == [0, 1]

    def test_of_two_old_generations_the_one_that_works_stays(self):
        state = self.state(1)
        state.start_generation()
        self.add(state, 1, ready=False)
        state.start_generation()
        assert state.missing_count(0.0) == 1
        assert self.slots(state) == [1]

    def test_shrinking_takes_what_does_not_work_yet_then_the_oldest(self):
        state = self.state(2)
        state.size = 3
        self.add(state, 1, ready=False)
        state.size = 1
        assert self.slots(state) == [2, 0]

    def test_one_start_less_while_one_is_held_back(self):
        state = PoolState(Pool(name="jobs", size=3, run=lambda child: 0))
        state.delay_start(5.0)
        assert state.missing_count(4.0) == 2
        assert state.missing_count(5.0) == 3


class TestDrain:
    def test_a_stage_warns_before_it_kills_and_leaves_time_for_the_next(self, monkeypatch):
        monkeypatch.setattr(ChildProcess, "signal", lambda *_: None)
        states = [PoolState(Pool(name=name, stop_order=at, run=print)) for at, name in enumerate(("jobs", "keeper"))]
        for state in states:
            state.children[1] = state.new_child()
        drain = Drain(states, exit_code=0, deadline=106.0, seconds=6.0, quick_seconds=0.0)
        drain.advance(100.0)
        first = states[0].children.pop(1)
        assert (first.stop_now_at, first.kill_at) == pytest.approx((103.3, 104.5))
        drain.advance(104.5)
        second = states[1].children[1]
        assert (second.stop_now_at, second.kill_at) == pytest.approx((104.8, 106.0))


class TestSettings:
    @pytest.mark.parametrize(
        "wrong", [{"size": -1}, {"recycle_jitter": 1.0}, {"hang_seconds": 0}, {"max_rss_bytes": -1}]
    )
    def test_a_bad_pool_is_refused(self, wrong):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            Pool(name="jobs", run=lambda child: 0, **wrong)

    def test_negative_times_are_refused(self):
        with pytest.raises(ValueError, match="drain_seconds"):
            Supervisor([Pool(name="jobs", run=lambda child: 0)], name="test", drain_seconds=-1)

    def test_pools_need_names_of_their_own(self):
        pool = Pool(name="jobs", run=lambda child: 0)
        with pytest.raises(ValueError, match="share a name"):
            Supervisor([pool, pool], name="test")
        with pytest.raises(ValueError, match="at least one"):
            Supervisor([], name="test")


class TestPackage:
    home = Path(pinlater_supervisor.__file__).parent

    def test_it_imports_nothing_but_itself_and_what_it_declares(self):
        allowed = {*sys.stdlib_module_names, "psutil", "setproctitle", "pinlater_supervisor"}
        for path in self.home.glob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
                assert {name.split(".")[0] for name in names} <= allowed, path.name

    def test_exported_names_exist(self):
        assert all(hasattr(pinlater_supervisor, name) for name in pinlater_supervisor.__all__)

    def test_the_folder_is_not_a_package(self):
        # It would hide supervisord, whose import name is `supervisor`.
        assert not (self.home.parent / "__init__.py").exists()

    def test_importing_it_loads_only_what_every_run_needs(self):
        probe = "import pinlater_supervisor, sys; print(*{'psutil', 'setproctitle'} & set(sys.modules))"
        found = subprocess.run(
            [sys.executable, "-c", probe],
            env={**os.environ, "PYTHONPATH": str(self.home.parent)},
            capture_output=True,
            text=True,
            check=True,
        )
        assert found.stdout.strip() == ""

    def test_infinity_is_never_due(self):
        from pinlater_supervisor.process import ChildProcess

        page = ChildPage()
        process = ChildProcess(Pool(name="jobs", run=lambda child: 0), 0, 0, page)
        assert process.kill_at == process.stop_now_at == inf
        page.close()


def test_a_signal_that_was_not_answered_is_sent_again_a_few_times(monkeypatch):
    sent = []
    monkeypatch.setattr(ChildProcess, "signal", lambda _, number: sent.append(number))
    process = ChildProcess(Pool(name="p", run=print), 0, 0, ChildPage())
    process.ask_to_stop("test", deadline=1e9, warning_seconds=0)
    while process.resend_at < inf:
        process.resend_signal(process.resend_at)
    assert sent == [signal.SIGTERM] * (1 + MOST_RESENDS)


def test_a_signal_that_was_answered_is_not_sent_again(monkeypatch):
    sent = []
    monkeypatch.setattr(ChildProcess, "signal", lambda _, number: sent.append(number))
    process = ChildProcess(Pool(name="p", run=print), 0, 0, ChildPage())
    process.ask_to_stop("test", deadline=1e9, warning_seconds=0)
    process.page.record_answer(DRAINING)
    process.resend_signal(process.resend_at)
    assert process.resend_at == inf
    assert sent == [signal.SIGTERM]
    process.stop_now("test")  # a later stage has to be heard again
    process.resend_signal(process.resend_at)
    assert sent == [signal.SIGTERM, signal.SIGQUIT, signal.SIGQUIT]


class TestStackDumps:
    """The stacks of several children are written one after another: their lines would mix."""

    def child(self, pid, dumped, monkeypatch):
        process = ChildProcess(Pool(name="jobs", run=print), 0, 0, ChildPage())
        process.pid = pid
        monkeypatch.setattr(process, "signal", lambda number: dumped.append((pid, number)))
        return process

    def test_the_next_child_begins_when_the_one_before_has_had_its_time(self, monkeypatch):
        dumped = []
        children = [self.child(pid, dumped, monkeypatch) for pid in (1, 2)]
        dumps = StackDumps()
        assert dumps.advance(children, 10.0) == inf
        dumps.request(children)
        assert dumps.advance(children, 10.0) == 10.0 + GAP_SECONDS
        assert dumps.advance(children, 10.0 + GAP_SECONDS / 2) == 10.0 + GAP_SECONDS
        assert dumped == [(1, signal.SIGUSR2)]
        assert dumps.advance(children, 10.0 + GAP_SECONDS) == inf
        assert dumped == [(1, signal.SIGUSR2), (2, signal.SIGUSR2)]

    def test_one_that_has_ended_is_left_out(self, monkeypatch):
        dumped = []
        first, second = (self.child(pid, dumped, monkeypatch) for pid in (1, 2))
        dumps = StackDumps()
        dumps.request([first, second])
        assert dumps.advance([second], 10.0) == inf
        assert [pid for pid, _ in dumped] == [2]

    def test_a_second_request_begins_anew_at_the_same_pace(self, monkeypatch):
        dumped = []
        children = [self.child(pid, dumped, monkeypatch) for pid in (1, 2)]
        dumps = StackDumps()
        dumps.request(children)
        dumps.advance(children, 10.0)
        dumps.request(children)
        for step in range(5):
            dumps.advance(children, 10.0 + step * GAP_SECONDS)
        assert [pid for pid, _ in dumped] == [1, 1, 2]


class TestTimeOut:
    """Between the last check of a child's time-out and its death, the child must not go on to something else."""

    def child_of(self, page):
        return Child(ChildPosition("jobs", 0, 0), page, "test", os.open(os.devnull, os.O_WRONLY))

    def test_a_child_that_is_being_killed_does_not_go_on(self):
        page = ChildPage()
        child, went_on = self.child_of(page), []
        page.set_being_killed(True)
        thread = threading.Thread(target=lambda: went_on.append(child.kill_at(None)), daemon=True)
        thread.start()
        thread.join(0.05)
        assert went_on == []
        page.set_being_killed(False)
        thread.join(60)
        assert went_on == [None]

    def test_a_child_that_went_on_is_not_killed(self):
        process = ChildProcess(Pool(name="jobs", run=print), 0, 0, ChildPage())
        self.child_of(process.page).kill_at(200.0)
        assert not process.kill_if_overdue(100.0, "time-out")
        assert process.killed is None
        assert not process.page.is_being_killed

    def test_what_it_wants_is_read_after_it_is_shown_that_it_is_killed(self, monkeypatch):
        seen = []
        page = ChildPage()
        monkeypatch.setattr(ChildPage, "kill_at_seconds", property(lambda it: seen.append(it.is_being_killed) or inf))
        assert not ChildProcess(Pool(name="jobs", run=print), 0, 0, page).kill_if_overdue(100.0, "time-out")
        assert seen == [True]
