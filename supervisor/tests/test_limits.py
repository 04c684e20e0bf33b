"""Children that hang, grow or age."""

import os
import re
import signal
import time


def test_a_hung_child_is_dumped_and_killed(start):
    master = start("""
        def stuck_in_a_loop(child):
            child.ready()
            if child.slot == 0 and not os.path.exists(sys.argv[0] + ".hung"):
                open(sys.argv[0] + ".hung", "w").close()
                while True:
                    pass
            say("beating")
            while not child.draining:
                child.beat()
                time.sleep(0.01)

        await_dumps_of(stuck_in_a_loop)
        supervise(Pool(name="jobs", run=stuck_in_a_loop, hang_seconds=0.3))
    """)
    assert "killed by SIGKILL (hung: no heartbeat for 0.3 s)" in " ".join(master.expect("exit jobs 0"))
    assert "in stuck_in_a_loop" in master.log
    master.expect("beating")
    assert master.stop() == 0


BEATING = """
        def run(child):
            child.ready()
            say("ready", child.pid)
            while not child.draining:
                child.beat()
                time.sleep(0.01)
"""


def test_a_stopped_child_is_found_and_replaced(start):
    master = start(
        BEATING
        + """
        await_dumps_of(run)
        supervise(Pool(name="jobs", run=run, hang_seconds=1))
    """
    )
    os.kill(int(master.expect("ready")[1]), signal.SIGSTOP)
    assert "hung" in " ".join(master.expect("exit jobs 0"))
    assert "Current thread" in master.log
    master.expect("ready")
    assert master.stop() == 0


def test_a_pause_of_master_and_children_is_no_silence_of_the_children(start):
    master = start(
        BEATING
        + """
        from pinlater_supervisor import watch

        watch.PAUSE_SECONDS = 0.1
        supervise(Pool(name="jobs", run=run, hang_seconds=2))
    """
    )
    child = int(master.expect("ready")[1])
    master.expect_sleep()  # until it has seen that the child is ready
    for pid in (master.pid, child):
        os.kill(pid, signal.SIGSTOP)
    time.sleep(3)  # the pause
    os.kill(master.pid, signal.SIGCONT)
    master.expect_log("the processes were paused")
    os.kill(child, signal.SIGCONT)
    assert master.stop() == 0
    assert "hung" not in master.log


def test_a_child_may_name_a_moment_in_years(start):
    master = start("""
        def run(child):
            child.kill_at(time.monotonic() + 10 * 365 * 86400)
            child.ready()
            say("ready", child.pid)
            while not child.draining:
                time.sleep(0.01)

        supervise(Pool(name="jobs", run=run))
    """)
    first = int(master.expect("ready")[1])
    master.expect_sleep()
    master.send(signal.SIGHUP)
    assert int(master.expect("ready")[1]) != first
    assert master.stop() == 0


def test_a_child_is_killed_at_the_moment_it_named(start):
    master = start("""
        from pinlater_supervisor import watch

        watch.DUMP_SECONDS = 0.1

        def run(child):
            child.ready()
            child.kill_at(time.monotonic() + 600)
            if not os.path.exists(sys.argv[0] + ".late"):
                open(sys.argv[0] + ".late", "w").close()
                a_slow_task(child)
            child.kill_at(time.monotonic() + 0.1)  # should it stand still here, it is killed, and its successor is not
            child.kill_at(None)
            time.sleep(0.4)
            say("still here")
            wait(child)

        def a_slow_task(child):
            child.kill_at(time.monotonic() + 0.1)
            time.sleep(600)

        await_dumps_of(a_slow_task)
        supervise(Pool(name="jobs", run=run))
    """)
    assert "killed by SIGKILL (time-out)" in " ".join(master.expect("exit jobs 0"))
    assert "in a_slow_task" in master.log
    master.expect("still here")
    assert master.stop() == 0


def test_a_child_is_not_killed_for_what_has_ended_since(start):
    master = start("""
        from pinlater_supervisor import watch

        log = os.path.join(os.path.dirname(sys.argv[0]), "stderr")
        watch.DUMP_SECONDS = 600

        def run(child):
            child.ready()
            for _ in range(2):
                child.kill_at(time.monotonic() + 0.1)
                shown("stacks follow, then it is killed")
                child.kill_at(None)
                child.wake_master()
                shown("the child is not killed")
                say("the next task is done")
                os.truncate(log, 0)
            os.kill(os.getppid(), signal.SIGUSR1)
            shown("killed sooner")
            child.kill_at(time.monotonic() + 0.1)
            time.sleep(600)

        def kill_sooner():
            watch.DUMP_SECONDS = 0.1
            logging.info("killed sooner")

        supervise(Pool(name="jobs", run=run), on_reopen=kill_sooner, drain_seconds=1)  # the next child does not heed it
    """)
    first = master.expect("the next task")
    assert master.expect("the next task") == first
    assert "killed by SIGKILL (time-out)" in " ".join(master.expect("exit jobs 0")), "the last one does not end"
    assert not any(line.startswith("exit") for line in master.said[:-1])
    assert master.stop() == 0


def test_a_child_is_killed_at_the_moment_that_another_one_named(start):
    master = start("""
        import mmap
        from math import inf

        shared = memoryview(mmap.mmap(-1, 4096)).cast("Q")

        def run(child):
            child.ready()
            say("ready jobs", child.slot)
            if child.slot == 1 or shared[9]:
                wait(child)
            else:
                a_slow_task()

        def a_slow_task():
            shared[9] = 1
            time.sleep(600)

        def keep(child):
            child.ready()
            while not shared[9]:
                time.sleep(0.01)
            shared[0] = int((time.monotonic() + 0.2) * 1e9)
            child.wake_master()
            wait(child)

        def kill_at(slot):
            return shared[0] / 1e9 if slot == 0 and shared[0] and shared[9] == 1 else inf

        def on_exit(ended):
            shared[9] = 2
            told(ended)

        await_dumps_of(a_slow_task)
        supervise(Pool(name="jobs", run=run, size=2, kill_at=kill_at), Pool(name="keeper", run=keep), on_exit=on_exit)
    """)
    assert "killed by SIGKILL (time-out)" in " ".join(master.expect("exit jobs 0"))
    assert "in a_slow_task" in master.log
    assert master.stop() == 0
    assert sum("SIGKILL" in line for line in master.said) == 1


def test_a_child_that_is_never_ready_is_killed(start):
    master = start("""
        def run(child):
            if child.slot == 0 and not os.path.exists(sys.argv[0] + ".late"):
                open(sys.argv[0] + ".late", "w").close()
                time.sleep(60)
            worker(child)

        supervise(Pool(name="jobs", run=run, ready_seconds=0.5))
    """)
    assert "not ready after 0.5 s" in " ".join(master.expect("exit jobs 0"))
    master.expect("ready jobs 0")
    assert master.stop() == 0


def test_a_child_is_recycled_by_age_beside_its_replacement(start):
    master = start("""
        def told(ended):
            say("exit", ended.stopping, ended.killed_by_master, ended.code)

        limits = {"max_age_seconds": 0.3, "limit_names": {"max_age_seconds": "--old"}}
        supervise(Pool(name="jobs", run=worker, **limits), on_exit=told)
    """)
    for _ in range(2):
        master.expect("ready jobs")
        assert master.expect("exit")[1:] == ["True", "None", "0"]
    assert "asked to stop: --old: reached its maximum age of 0.3 s" in master.log
    assert master.stop() == 0


def test_a_child_that_grew_is_recycled(start):
    master = start("""
        def run(child):
            child.ready()
            say("ready")
            if not os.path.exists(sys.argv[0] + ".grown"):
                open(sys.argv[0] + ".grown", "w").close()
                time.sleep(0.2)
                ballast = bytearray(120_000_000)
            wait(child)

        supervise(Pool(name="jobs", run=run, max_rss_bytes=80_000_000, recycle_jitter=0))
    """)
    assert "exited with 0" in " ".join(master.expect("exit jobs 0"))
    assert "asked to stop: max_rss_bytes: grew to" in master.log
    assert master.stop() == 0


def test_a_limit_below_the_size_at_start_is_reported_not_looped_on(start):
    master = start('supervise(Pool(name="jobs", run=worker, max_rss_bytes=1_000_000))')
    master.expect("ready jobs 0")
    master.expect_log("raise max_rss_bytes")
    assert master.stop() == 0
    assert sum(line.startswith("ready") for line in master.said) == 1


def test_the_memory_ceiling_kills(start):
    master = start("""
        def run(child):
            child.ready()
            say("ready")
            if not os.path.exists(sys.argv[0] + ".burst"):
                open(sys.argv[0] + ".burst", "w").close()
                ballast = bytearray(120_000_000)
            wait(child)

        names = {"rss_ceiling_bytes": "--ceiling"}
        supervise(Pool(name="jobs", run=run, rss_ceiling_bytes=80_000_000, limit_names=names))
    """)
    assert re.search(
        r"killed by SIGKILL \(memory ceiling: \d+ MB, --ceiling is 80 MB\)", " ".join(master.expect("exit jobs 0"))
    )
    master.expect("ready")
    assert master.stop() == 0


def test_a_child_over_the_ceiling_before_it_is_ready_is_not_killed_for_that(start):
    master = start("""
        def run(child):
            ballast = bytearray(120_000_000)
            time.sleep(1.5)
            del ballast
            worker(child)

        supervise(Pool(name="jobs", run=run, rss_ceiling_bytes=80_000_000))
    """)
    master.expect("ready jobs 0")
    assert master.stop() == 0


def test_recycling_can_wait_for_a_task_as_long_as_it_takes_and_starts_no_other(start):
    master = start("""
        def run(child):
            child.ready()
            if os.path.exists(sys.argv[0] + ".old"):
                say("next", child.slot)
                return wait(child)
            open(sys.argv[0] + ".old", "w").close()
            wait(child)
            time.sleep(1.5)
            say("finished", child.draining, child.stopping_now)

        supervise(Pool(name="jobs", run=run, max_age_seconds=0.3, recycle_seconds=float("inf")), drain_seconds=0.2)
    """)
    assert master.expect("finished")[1:] == ["True", "False"]
    assert not any(line.startswith("next") for line in master.said)
    assert "exited with 0" in " ".join(master.expect("exit jobs 0"))
    assert master.expect("next")[1] == "0"
    assert master.stop() == 0


def test_a_reload_does_not_wait_for_what_is_recycled(start):
    master = start("""
        def run(child):
            worker(child)
            if child.generation == 0:
                time.sleep(600)

        limits = {"max_age_seconds": 0.3, "recycle_seconds": float("inf")}
        supervise(Pool(name="jobs", run=run, **limits), drain_seconds=0.5)
    """)
    master.expect("drained jobs 0")
    master.send(signal.SIGHUP)
    assert master.expect("ready jobs 1")[4] == "1"
    assert master.stop() == 0


def test_a_stop_sets_a_deadline_to_what_recycling_would_have_waited_for(start):
    master = start("""
        def run(child):
            child.ready()
            wait(child)
            say("drained")
            time.sleep(600)

        supervise(Pool(name="jobs", run=run, max_age_seconds=0.3, recycle_seconds=float("inf")), drain_seconds=0.5)
    """)
    master.expect("drained")
    assert master.stop() == 0
    assert "killed by SIGKILL (drain deadline)" in "\n".join(master.said)
