"""Processes that children start do not outlive them, or at least not the supervisor."""

import os
import signal


def test_grandchildren_in_the_group_die_with_their_child(start, gone):
    master = start("""
        def run(child):
            child.ready()
            grandchild = subprocess.Popen(["sleep", "600"])
            say("pids", child.pid, grandchild.pid)
            wait(child)

        supervise(Pool(name="jobs", run=run))
    """)
    _, child, grandchild = master.expect("pids")
    os.kill(int(child), signal.SIGKILL)
    gone(grandchild)
    master.expect("pids")
    assert master.stop() == 0


def test_a_killed_child_takes_along_what_left_its_group(start, gone):
    master = start("""
        def run(child):
            child.ready()
            grandchild = subprocess.Popen(["sleep", "600"], start_new_session=True)
            say("pid", grandchild.pid)
            time.sleep(600)

        supervise(Pool(name="jobs", run=run, hang_seconds=0.3))
    """)
    grandchild = master.expect("pid")[1]
    master.expect("exit jobs 0")
    gone(grandchild)
    master.send(signal.SIGINT)
    assert master.wait() == 0


def test_orphans_are_reaped_quietly_and_the_last_ones_killed_at_the_end(start, gone):
    master = start("""
        def run(child):
            subprocess.run("setsid sleep 600 & echo orphan $!; (exit 0) &", shell=True)
            worker(child)

        supervise(Pool(name="jobs", run=run))
    """)
    orphan = master.expect("orphan")[1]
    master.expect("ready jobs 0")
    assert master.stop() == 0
    gone(orphan)
    assert sum(line.startswith("exit") for line in master.said) == 1


def test_other_children_of_the_program_are_spared(start, gone):
    master = start("""
        stranger = subprocess.Popen(["sleep", "600"])
        code = Supervisor([Pool(name="jobs", run=worker)], name="test").run()
        say("stranger", stranger.poll())
        stranger.kill()
        stranger.wait()
        sys.exit(code)
    """)
    master.expect("ready")
    assert master.stop() == 0
    assert master.said[-1] == "stranger None"
