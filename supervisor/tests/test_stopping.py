"""Stopping: stage by stage, by one deadline, and at once when asked twice."""

import os
import signal

DEAF = """
        def deaf(child):
            child.ready()
            say("ready", child.pool, child.slot, child.pid)
            while True:
                time.sleep(60)
"""


def test_a_program_that_is_starting_ends_on_term(start):
    program = start("""
        from pinlater_supervisor import signals

        signals.heed_while_starting()
        say("starting")
        while True:
            time.sleep(60)
    """)
    program.expect("starting")
    assert program.stop() == 0


def test_a_reload_is_held_back_until_a_starting_program_runs(start):
    master = start("""
        from pinlater_supervisor import signals

        signals.heed_while_starting()
        os.kill(os.getpid(), signal.SIGHUP)
        say("starting")
        supervise(Pool(name="jobs", run=worker), on_reload=lambda: say("reloads"))
    """)
    master.expect_all("starting", "reloads", "ready jobs 0")
    assert master.stop() == 0
    assert master.said.count("reloads") == 1


def test_term_drains_pools_in_their_order(start):
    master = start("""
        supervise(
            Pool(name="keeper", run=worker, stop_order=1),
            Pool(name="jobs", size=2, run=worker),
        )
    """)
    master.expect_all("ready keeper 0", "ready jobs 0", "ready jobs 1")
    assert master.stop() == 0
    drained = [line.split()[:2] for line in master.said if line.startswith(("drained", "exit"))]
    assert drained.index(["drained", "keeper"]) > max(
        number for number, words in enumerate(drained) if words == ["exit", "jobs"]
    )


def test_the_program_hears_once_that_all_begins_to_stop(start):
    master = start('supervise(Pool(name="jobs", run=worker), on_stop=lambda: say("stopping"))')
    master.expect("ready jobs 0")
    master.send(signal.SIGHUP)
    master.expect("exit jobs 0")
    assert "stopping" not in master.said, "a reload is no stop"
    assert master.stop() == 0
    assert [line for line in master.said if line.startswith(("stopping", "drained"))][1] == "stopping"
    assert master.said.count("stopping") == 1


def test_a_later_pool_is_kept_alive_while_an_earlier_one_drains(start):
    master = start("""
        def slow(child):
            child.ready()
            say("ready", child.pool, child.slot)
            wait(child)
            say("draining", child.pool)
            while not os.path.exists(sys.argv[0] + ".enough"):
                time.sleep(0.01)

        def keeper(child):
            if os.path.exists(sys.argv[0] + ".killed"):
                open(sys.argv[0] + ".enough", "w").close()
            worker(child)

        supervise(Pool(name="jobs", run=slow), Pool(name="keeper", run=keeper, stop_order=1),
                  on_exit=lambda ended: open(sys.argv[0] + ".killed", "w").close())
    """)
    keeper = int(master.expect("ready keeper")[3])
    master.send(signal.SIGTERM)
    master.expect("draining jobs")
    os.kill(keeper, signal.SIGKILL)
    assert int(master.expect("ready keeper")[3]) != keeper
    master.expect("drained keeper")
    assert master.wait() == 0


def test_the_deadline_kills_the_deaf_before_the_next_pool_is_stopped(start):
    master = start(
        DEAF
        + """
        def keeper(child):
            worker(child)
            say("keeper tidied up")

        supervise(Pool(name="jobs", run=deaf), Pool(name="keeper", run=keeper, stop_order=1),
                  drain_seconds=1, quick_seconds=600)
    """
    )
    master.expect_all("ready jobs 0", "ready keeper 0")
    assert master.stop() == 0
    told = [line for line in master.said if line.startswith("exit jobs")]
    assert "killed by SIGKILL (drain deadline)" in told[0]
    assert master.said.index(told[0]) < master.said.index("keeper tidied up")


def test_a_pool_that_tidies_up_has_time_for_that_after_a_drain_of_no_time(start):
    master = start(
        DEAF
        + """
        def keeper(child):
            worker(child)
            time.sleep(0.5)
            say("keeper tidied up")

        supervise(Pool(name="jobs", run=deaf), Pool(name="keeper", run=keeper, stop_order=1),
                  drain_seconds=0, quick_seconds=600)
    """
    )
    master.expect_all("ready jobs 0", "ready keeper 0")
    master.send(signal.SIGTERM)
    assert "killed by SIGKILL (drain deadline)" in " ".join(master.expect("exit jobs 0"))
    master.expect("keeper tidied up")
    assert master.wait() == 0


def test_a_child_hears_the_second_stage_before_it_is_killed(start):
    master = start("""
        from pinlater_supervisor import drain

        drain.warning_seconds = lambda seconds: seconds - 0.3  # no machine is too slow for what is left

        def run(child):
            child.on_drain(lambda: say("hook drain", child.draining))
            child.on_stop_now(lambda: say("hook now", child.stopping_now))
            child.ready()
            say("ready")
            while not child.stopping_now:
                select.select([child.wakeup_fd], [], [])
                os.read(child.wakeup_fd, 1)
                say("stage", child.draining, child.stopping_now)

        supervise(Pool(name="jobs", run=run), drain_seconds=600)
    """)
    master.expect("ready")
    assert master.stop() == 0
    assert [line for line in master.said if line.startswith("hook")] == ["hook drain True", "hook now True"]
    assert [line for line in master.said if line.startswith("stage")][-1] == "stage True True"


def test_int_tells_children_to_drop_their_work(start):
    master = start("""
        def run(child):
            child.ready()
            say("ready")
            wait(child)
            while not child.stopping_now:
                time.sleep(0.01)
            say("dropped")

        supervise(Pool(name="jobs", run=run), Pool(name="keeper", run=worker, stop_order=1), quick_seconds=600)
    """)
    master.expect_all("ready", "ready keeper")
    master.send(signal.SIGINT)
    master.expect("dropped")
    master.expect("drained keeper")
    assert master.wait() == 0


def test_quit_kills_the_deaf_after_a_short_grace(start):
    master = start(DEAF + '        supervise(Pool(name="jobs", run=deaf), quick_seconds=0.2)')
    master.expect("ready")
    master.send(signal.SIGQUIT)
    assert "quick stop" in " ".join(master.expect("exit jobs 0"))
    assert master.wait() == 0


def test_a_second_term_is_quick_and_a_third_immediate(start):
    master = start(DEAF + '        supervise(Pool(name="jobs", run=deaf), quick_seconds=600, drain_seconds=600)')
    master.expect("ready")
    for words in ("to finish their work", "stopping quickly"):
        master.send(signal.SIGTERM)
        master.expect_log(words)
    master.send(signal.SIGTERM)
    assert "stop was requested again" in " ".join(master.expect("exit jobs 0"))
    assert master.wait() == 0


def test_a_pool_that_tidies_up_has_its_grace_when_all_others_are_killed(start):
    master = start(
        DEAF
        + """
        supervise(Pool(name="jobs", run=deaf), Pool(name="keeper", run=worker, stop_order=1),
                  drain_seconds=600, quick_seconds=600)
    """
    )
    master.expect_all("ready", "ready keeper")
    for words in ("stopping quickly", "stop was requested again"):
        master.send(signal.SIGINT)
        master.expect_log(words)
    master.expect("drained keeper")
    assert master.wait() == 0


def test_a_stop_reaches_a_child_that_was_stopped(start):
    master = start('supervise(Pool(name="jobs", run=worker), drain_seconds=0.5)')
    os.kill(int(master.expect("ready")[3]), signal.SIGSTOP)
    assert master.stop() == 0
    assert any("drain deadline" in line for line in master.said)


def test_a_stop_before_children_are_ready(start):
    master = start("""
        def slow_boot(child):
            say("booting")
            while not child.draining:
                time.sleep(0.01)
            say("gave up")

        supervise(Pool(name="jobs", run=slow_boot))
    """)
    master.expect("booting")
    assert master.stop() == 0
    assert "gave up" in master.said


def test_children_do_not_outlive_a_killed_master(start, gone):
    master = start('supervise(Pool(name="jobs", size=2, run=worker))')
    pids = [master.expect("ready")[3] for _ in range(2)]
    master.send(signal.SIGKILL)
    assert master.wait() == -signal.SIGKILL
    for pid in pids:
        gone(pid)


def test_a_master_that_waits_for_a_slow_drain_sleeps(start):
    master = start("""
        def slow(child):
            child.ready()
            say("ready")
            while not os.path.exists(sys.argv[0] + ".enough"):
                time.sleep(0.01)

        supervise(Pool(name="slow", run=slow), Pool(name="broken", run=lambda child: 1))
    """)
    master.expect("ready")
    for _ in range(3):
        master.expect("exit broken")
    # A replacement is held back now; its moment passes while the drain goes on.
    master.send(signal.SIGTERM)
    master.expect_log("to finish their work")
    master.expect_sleep()
    open(f"{master.path}.enough", "w").close()
    assert master.wait() == 0


def test_an_idle_master_sleeps(start):
    master = start('supervise(Pool(name="jobs", run=worker))')
    master.expect("ready")
    master.expect_sleep()
    assert master.stop() == 0
