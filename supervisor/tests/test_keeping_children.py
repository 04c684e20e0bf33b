"""Children are started, told apart by slots, and replaced when they die."""

import os
import signal
from itertools import pairwise

import pytest


def test_children_start_with_the_smallest_slots(start):
    master = start('supervise(Pool(name="jobs", size=3, run=worker))')
    master.expect_all("ready jobs 0", "ready jobs 1", "ready jobs 2")
    assert master.stop() == 0


def test_a_killed_child_is_replaced_by_the_same_master_in_the_same_slot(start):
    master = start('supervise(Pool(name="jobs", size=2, run=worker))')
    pid = int(master.expect("master")[1])
    victim = int(master.expect("ready jobs 1")[3])
    os.kill(victim, signal.SIGKILL)
    replacement = int(master.expect("ready jobs 1")[3])
    assert replacement != victim
    assert pid == master.pid
    assert master.stop() == 0


def test_on_exit_tells_the_signal_before_the_slot_is_used_again(start):
    master = start('supervise(Pool(name="jobs", size=1, run=worker))')
    for number in (signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT):
        os.kill(int(master.expect("ready jobs 0")[3]), number)
        told = master.expect("exit jobs 0")
        assert told[6].rstrip(",") == number.name
    master.expect("ready jobs 0")
    assert master.stop() == 0
    # Whoever was ready in the slot is reported gone before the next one is ready in it.
    events = [line.split()[0] for line in master.said if line.startswith(("ready", "exit"))]
    assert all(one != other for one, other in pairwise(events))


def test_an_exit_tells_code_memory_and_time(start):
    master = start("""
        def run(child):
            child.ready()
            ballast = bytearray(60_000_000)
            if child.slot == 0:
                return 7

        def told(ended):
            say("exit", ended.code, ended.signal, ended.was_ready, ended.stopping, ended.killed_by_master)
            say("peak", ended.peak_rss_bytes // 1_000_000, "ran", ended.run_seconds)
            os.kill(os.getpid(), signal.SIGTERM)

        supervise(Pool(name="jobs", run=run), on_exit=told)
    """)
    assert master.expect("exit")[1:] == ["7", "None", "True", "False", "None"]
    peak = master.expect("peak")
    assert int(peak[1]) >= 60
    assert 0 < float(peak[3]) < 20
    assert master.wait() == 0
    assert "jobs[0] pid" in master.log
    assert "exited with 7, peak" in master.log


def test_an_exception_is_logged_and_exits_with_1(start):
    master = start("""
        def run(child):
            child.ready()
            raise KeyboardInterrupt("from the depths")

        def told(ended):
            say("exit", ended.code)
            os.kill(os.getpid(), signal.SIGTERM)

        supervise(Pool(name="jobs", run=run), on_exit=told)
    """)
    assert master.expect("exit") == ["exit", "1"]
    assert master.wait() == 0
    assert "KeyboardInterrupt: from the depths" in master.log


def test_exit_codes_never_wrap_round_to_success(start):
    master = start("""
        def run(child):
            child.ready()
            if child.slot == 0:
                return 256
            if child.slot == 1:
                sys.exit("a reason")
            sys.exit(5)

        codes = {}

        def told(ended):
            codes.setdefault(ended.slot, ended.code)
            if len(codes) == 3:
                say("codes", codes[0], codes[1], codes[2])
                os.kill(os.getpid(), signal.SIGTERM)

        supervise(Pool(name="jobs", size=3, run=run), on_exit=told)
    """)
    assert master.expect("codes") == ["codes", "1", "1", "5"]
    assert master.wait() == 0
    assert "a reason" in master.log


def test_a_failing_hook_does_no_harm(start):
    master = start("""
        def told(ended):
            say("told", ended.slot)
            raise RuntimeError("the hook is broken")

        supervise(Pool(name="jobs", run=worker), on_exit=told)
    """)
    os.kill(int(master.expect("ready jobs 0")[3]), signal.SIGKILL)
    master.expect("told 0")
    master.expect("ready jobs 0")
    assert master.stop() == 0
    assert "the hook is broken" in master.log


def test_a_pool_without_restart_ends_with_its_work(start):
    master = start("""
        def burst(child):
            child.ready()
            say("work", child.slot)
            crash = f"{sys.argv[0]}.crashed"
            if child.slot == 1 and not os.path.exists(crash):
                open(crash, "w").close()
                return 3

        supervise(
            Pool(name="jobs", size=2, run=burst, restart=False),
            Pool(name="keeper", run=worker, stop_order=1),
        )
    """)
    master.expect("drained keeper 0")
    assert master.wait() == 0
    # Two that did their part, and the one that crashed.
    assert sum(line.startswith("work") for line in master.said) == 3


def test_children_have_their_own_group_and_no_stdin(start):
    master = start("""
        def run(child):
            child.ready()
            say("group", os.getpgid(0) == os.getpid())
            say("stdin", repr(sys.stdin.read()))
            say("title", open("/proc/self/cmdline").read().rstrip("\\0"))
            child.title("busy")
            say("retitled", open("/proc/self/cmdline").read().rstrip("\\0"))
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGHUP)
            say("alive", child.draining)
            wait(child)

        supervise(Pool(name="jobs", run=run, title="test: jobs"))
    """)
    assert master.expect("group")[1] == "True"
    assert master.expect("stdin")[1] == "''"
    assert master.expect("title") == ["title", "test:", "jobs"]
    assert master.expect("retitled") == ["retitled", "test:", "jobs:", "busy"]
    assert master.expect("alive")[1] == "False"
    with open(f"/proc/{master.pid}/cmdline") as cmdline:
        assert cmdline.read().rstrip("\0") == "test: master"
    assert master.stop() == 0


def test_hear_again_restores_the_signal_handling(start):
    master = start("""
        from pinlater_supervisor import hear_again

        def run(child):
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            signal.signal(signal.SIGCHLD, signal.SIG_IGN)
            signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
            for clock in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF):
                signal.setitimer(clock, 0.05)
            hear_again(child)
            ended = time.process_time() + 0.2  # two of them count only while the processor works
            while time.process_time() < ended:
                pass
            say("program", subprocess.run(["false"]).returncode)
            worker(child)

        supervise(Pool(name="jobs", run=run), drain_seconds=600)
    """)
    assert master.expect("program") == ["program", "1"], "where SIGCHLD is ignored, nobody hears that it has failed"
    pid = int(master.expect("ready")[3])
    os.kill(pid, signal.SIGTERM)
    master.expect("drained")
    assert "exited with 0" in " ".join(master.expect("exit jobs 0"))
    assert master.stop() == 0


@pytest.mark.parametrize("change", ["signal.signal(signal.SIGUSR2, signal.SIG_DFL)", "faulthandler.unregister(12)"])
def test_hear_again_restores_the_dump_of_the_stacks(start, change):
    master = start(f"""
        import faulthandler
        from pinlater_supervisor import hear_again

        def waits_here(child):
            {change}
            hear_again(child)
            worker(child)

        supervise(Pool(name="jobs", run=waits_here))
    """)
    master.expect("ready")
    master.send(signal.SIGUSR2)
    master.expect_log("in waits_here")
    assert master.stop() == 0
    assert "SIGUSR2" not in master.log


def test_a_timer_left_running_does_not_end_the_child(start):
    master = start("""
        def run(child):
            for clock in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF):
                signal.setitimer(clock, 0.01)
            ended = time.process_time() + 0.2
            while time.process_time() < ended:
                pass
            worker(child)

        supervise(Pool(name="jobs", run=run))
    """)
    master.expect("ready")
    assert master.stop() == 0


def test_a_child_that_exits_with_0_before_run_returned_is_replaced(start):
    master = start("""
        def run(child):
            child.ready()
            if not os.path.exists(sys.argv[0] + ".left"):
                open(sys.argv[0] + ".left", "w").close()
                os._exit(0)
            say("the rest is done")

        supervise(Pool(name="jobs", run=run, restart=False))
    """)
    assert "exited with 0 (while it was working)" in " ".join(master.expect("exit jobs 0"))
    master.expect("the rest is done")
    assert master.wait() == 0


def test_a_child_may_tidy_up_after_a_master_that_was_killed(start, gone):
    master = start("""
        def tidy(child):
            child.on_master_death(lambda: say("tidied up"))
            worker(child)

        supervise(Pool(name="jobs", run=worker), Pool(name="heir", run=tidy))
    """)
    master.expect_all("ready jobs", "ready heir")
    pids = [int(line.split()[3]) for line in master.said if line.startswith("ready")]
    os.kill(master.pid, signal.SIGKILL)
    master.expect("tidied up")
    for pid in pids:
        gone(pid)


def test_it_does_so_even_if_the_one_signal_of_the_kernel_interrupts_nothing(start, gone):
    master = start("""
        from pinlater_supervisor import linux

        def tidy(child):
            linux.request_parent_death_signal = lambda: linux._prctl(linux._PR_SET_PDEATHSIG, 0)
            child.on_master_death(lambda: (say("tidied up"), time.sleep(0.3), say("to the end")))
            worker(child)

        supervise(Pool(name="heir", run=tidy))
    """)
    pid = int(master.expect("ready heir")[3])
    os.kill(master.pid, signal.SIGKILL)
    master.expect("tidied up")
    master.expect("to the end")
    gone(pid)
    assert [line for line in master.said if line == "tidied up"] == ["tidied up"]


def test_processes_that_a_child_forks_do_not_run_its_handlers(start):
    master = start("""
        import multiprocessing

        def run(child):
            child.ready()
            helper = multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,))
            helper.start()
            helper.terminate()
            helper.join()
            say("helper", helper.exitcode, child.draining)
            wait(child)

        supervise(Pool(name="jobs", run=run))
    """)
    assert master.expect("helper")[1:] == [str(-signal.SIGTERM), "False"]
    assert master.stop() == 0


def test_atexit_and_log_handlers_of_the_child_run(start):
    master = start("""
        import atexit, logging.handlers

        atexit.register(say, "master leaves")

        class Slow(logging.handlers.MemoryHandler):
            def flush(self):
                for record in self.buffer:
                    say("logged", record.getMessage())
                self.buffer.clear()

        def run(child):
            atexit.register(say, "child leaves")
            logging.getLogger("job").addHandler(Slow(100))
            logging.getLogger("job").warning("last words")

        supervise(Pool(name="jobs", run=run, restart=False))
    """)
    assert master.wait() == 0
    said = [line for line in master.said if "leaves" in line or "logged" in line]
    assert said == ["child leaves", "logged last words", "master leaves"]


def test_the_master_looks_for_no_garbage_in_what_was_there_before_it(start):
    master = start("""
        import gc

        class Kept:
            pass

        kept = Kept()

        def run(child):
            child.ready()
            return 0

        def told(ended):
            say("looks", any(one is kept for one in gc.get_objects()))
            os.kill(os.getpid(), signal.SIGTERM)

        supervise(Pool(name="jobs", run=run), on_exit=told)
    """)
    assert master.expect("looks")[1] == "False"
    assert master.wait() == 0
