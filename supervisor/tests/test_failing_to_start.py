"""Children that cannot boot, and masters that must not fork."""

import os
import signal


def test_exit_78_before_ready_stops_everything_with_78(start):
    master = start("""
        def run(child):
            say("the file is missing")
            return 78

        supervise(Pool(name="jobs", size=2, run=run), Pool(name="keeper", run=worker, stop_order=1))
    """)
    assert master.wait() == 78
    assert "the file is missing" in master.said
    assert "cannot boot" in master.log


BROKEN_AT_TIMES = """
        def run(child):
            if os.path.exists(sys.argv[0] + ".broken"):
                return 78
            worker(child)
"""


def test_a_child_that_cannot_be_replaced_for_a_while_ends_nothing(start):
    master = start(
        BROKEN_AT_TIMES
        + """
        supervise(Pool(name="jobs", run=run), Pool(name="others", run=worker))
    """
    )
    master.expect_all("ready jobs 0", "ready others 0")
    broken = master.path.with_name("program.py.broken")
    broken.touch()
    [pid] = [line.split()[3] for line in master.said if line.startswith("ready jobs")]
    os.kill(int(pid), signal.SIGKILL)
    master.expect_log("no child of pool jobs can boot; trying again", times=2)
    broken.unlink()
    master.expect("ready jobs 0")
    assert master.stop() == 0
    assert sum(line.startswith("ready others") for line in master.said) == 1


def test_a_child_without_restart_that_cannot_be_replaced_ends_everything_with_78(start):
    master = start(
        BROKEN_AT_TIMES
        + """
        supervise(Pool(name="jobs", run=run, restart=False))
    """
    )
    pid = int(master.expect("ready jobs 0")[3])
    master.path.with_name("program.py.broken").touch()
    os.kill(pid, signal.SIGKILL)
    assert master.wait() == 78


def test_exit_69_counts_in_the_first_start_only(start):
    master = start("""
        def run(child):
            if os.path.exists(sys.argv[0] + ".started"):
                open(sys.argv[0] + ".again", "a").write("x")
                if os.path.getsize(sys.argv[0] + ".again") <= 2:
                    return 69
            if not os.path.exists(sys.argv[0] + ".started"):
                os.kill(os.getppid(), signal.SIGUSR1)
                while not os.path.exists(sys.argv[0] + ".busy"):
                    time.sleep(0.01)
                open(sys.argv[0] + ".started", "w").close()
                child.ready()
                return 1
            worker(child)

        def miss_the_start():
            open(sys.argv[0] + ".busy", "w").close()
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)

        supervise(Pool(name="jobs", run=run), on_reopen=miss_the_start)
    """)
    master.expect("ready jobs 0")
    assert master.stop() == 0
    assert sum("exited with 69" in line for line in master.said) == 2


def test_exit_69_in_the_first_start_returns_69(start):
    master = start('supervise(Pool(name="jobs", run=lambda child: 69))')
    assert master.wait() == 69


def test_exit_78_after_ready_is_a_crash_like_others(start):
    master = start("""
        def run(child):
            child.ready()
            say("ready")
            if not os.path.exists(sys.argv[0] + ".once"):
                open(sys.argv[0] + ".once", "w").close()
                return 78
            wait(child)

        supervise(Pool(name="jobs", run=run))
    """)
    master.expect("ready")
    master.expect("ready")
    assert master.stop() == 0


def test_a_crash_loop_slows_down_and_leaves_other_pools_alone(start):
    master = start("""
        crashes = []

        def told(ended):
            if ended.pool == "broken":
                crashes.append(time.monotonic())
                if len(crashes) == 6:
                    say("gaps", *(f"{b - a:.3f}" for a, b in zip(crashes, crashes[1:])))
            else:
                say("exit", ended.pool, ended.slot)

        supervise(Pool(name="broken", run=lambda child: 1), Pool(name="sound", run=worker), on_exit=told)
    """)
    sound = int(master.expect("ready sound 0")[3])
    gaps = [float(gap) for gap in master.expect("gaps")[1:]]
    # At once, then 0.1, 0.2, 0.4, 0.8 s; only the lower bounds are certain.
    assert all(gap >= least for gap, least in zip(gaps, [0, 0.1, 0.2, 0.4, 0.8], strict=True))
    os.kill(sound, signal.SIGKILL)
    master.expect("exit sound 0")
    master.expect("ready sound 0")
    assert master.stop() == 0


def test_a_slow_report_does_not_use_up_the_delay_after_a_crash(start):
    master = start("""
        reported = []

        def told(ended):
            time.sleep(0.2)
            reported.append(time.monotonic())
            if len(reported) == 4:
                say("reported", *reported)

        def run(child):
            say("started", time.monotonic())
            return 1

        supervise(Pool(name="broken", run=run), on_exit=told)
    """)
    starts = [float(master.expect("started")[1]) for _ in range(4)]
    reports = [float(moment) for moment in master.expect("reported")[1:]]
    delays = [started - reported for started, reported in zip(starts[1:], reports, strict=False)]
    assert all(delay >= least for delay, least in zip(delays, [0, 0.1, 0.2], strict=True)), delays
    assert master.stop() == 0


def test_a_master_with_threads_refuses_to_fork(start):
    master = start("""
        import threading
        threading.Thread(target=time.sleep, args=(600,), name="metrics", daemon=True).start()
        supervise(Pool(name="jobs", run=worker))
    """)
    assert master.wait() == 1
    assert "cannot fork safely: the master also runs the thread(s) metrics" in master.log
    assert not any(line.startswith("ready") for line in master.said)


def test_a_thread_that_comes_later_ends_in_an_ordered_stop(start):
    master = start("""
        import threading

        def start_thread():
            threading.Thread(target=time.sleep, args=(60,), name="metrics", daemon=True).start()

        supervise(Pool(name="jobs", run=worker), on_reload=start_thread)
    """)
    master.expect("ready jobs 0")
    master.send(signal.SIGHUP)
    master.expect("drained jobs 0")
    assert master.wait() == 70
    assert "cannot fork safely" in master.log


def test_a_master_that_fails_leaves_nothing_behind(start):
    master = start("""
        class Broken(Supervisor):
            def _reopen(self):
                raise MemoryError("broken")

        say("code", Broken([Pool(name="jobs", size=2, run=worker)], name="test").run())
    """)
    master.expect("ready")
    master.expect("ready")
    master.send(signal.SIGUSR1)
    assert master.wait() == 1
    assert "MemoryError" in master.log


# A file names the generation that cannot boot.
PATIENT = """
        def run(child):
            path = sys.argv[0] + ".broken"
            if os.path.exists(path) and open(path).read() == str(child.generation):
                say("broken", child.generation)
                return 78
            worker(child)

        supervise(Pool(name="jobs", size=2, run=run, awaits_reload=True))
"""


def test_a_pool_that_awaits_a_reload_survives_code_that_cannot_boot(start):
    master = start(PATIENT)
    old, _ = (master.expect("ready jobs")[3] for _ in range(2))
    master.path.with_name("program.py.broken").write_text("1")
    master.send(signal.SIGHUP)
    master.expect_log("pool jobs cannot boot; waiting for the next reload")
    os.kill(int(old), signal.SIGKILL)  # nor is it replaced by what cannot boot
    master.expect("exit jobs")
    master.send(signal.SIGHUP)
    generations = [master.expect("ready jobs")[4] for _ in range(2)]
    assert generations == ["2", "2"]
    assert master.stop() == 0
    assert sum(line.startswith("broken") for line in master.said) <= 2


def test_a_pool_that_awaits_a_reload_may_begin_broken(start):
    master = start(
        """
        open(sys.argv[0] + ".broken", "w").write("0")
"""
        + PATIENT
    )
    master.expect_log("waiting for the next reload")
    for _ in range(2):
        master.expect("exit jobs")
    master.send(signal.SIGHUP)
    assert master.expect("ready jobs")[4] == "1"
    assert master.stop() == 0


def test_a_system_without_room_for_a_child_for_a_while_ends_nothing(start):
    master = start("""
        import errno, mmap
        from pinlater_supervisor import child_page

        fork, page, refusals = os.fork, mmap.mmap, []

        def refuse(number, carry_out):
            def call(*arguments):
                if os.path.exists(sys.argv[0] + ".full") and len(refusals) < 4:
                    refusals.append(number)
                    raise OSError(number, os.strerror(number))
                return carry_out(*arguments)
            return call

        os.fork = refuse(errno.EAGAIN, fork)
        mmap.mmap = lambda *arguments: refuse(errno.ENOMEM, page)(*arguments) if len(refusals) % 2 else page(*arguments)
        supervise(Pool(name="jobs", run=worker))
    """)
    pid = int(master.expect("ready jobs 0")[3])
    master.path.with_name("program.py.full").touch()
    os.kill(pid, signal.SIGKILL)
    master.expect("ready jobs 0")
    assert master.stop() == 0
    assert master.log.count("raise their limit (ulimit -u, TasksMax=, pids.max)") == 2
    assert master.log.count("cannot start a child of pool jobs: [Errno 12]") == 2
