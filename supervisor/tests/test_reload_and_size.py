"""SIGHUP, SIGTTIN and SIGTTOU: another generation, another number of children."""

import os
import signal


def test_hup_starts_the_new_generation_before_the_old_one_drains(start):
    master = start("""
        def telling_first(child):  # so that the line stands before all that being ready brings about
            say("ready", child.pool, child.slot, child.pid, child.generation)
            child.ready()
            wait(child)
            say("drained", child.pool, child.slot, child.pid)

        supervise(Pool(name="jobs", size=2, run=telling_first), Pool(name="keeper", run=telling_first, stop_order=1),
                  on_reload=lambda: say("reloading"))
    """)
    master.expect_all("ready jobs 0", "ready jobs 1", "ready keeper 0")
    master.send(signal.SIGHUP)
    master.expect("reloading")
    master.expect_all("exit jobs 0", "exit jobs 1", "exit keeper 0")
    new = [line.split() for line in master.said if line.startswith("ready") and line.endswith(" 1")]
    # The old ones still held their slots.
    assert sorted((words[1], words[2]) for words in new) == [("jobs", "2"), ("jobs", "3"), ("keeper", "1")]
    first_drained = min(number for number, line in enumerate(master.said) if line.startswith("drained jobs"))
    assert any(line.startswith(("ready jobs 2", "ready jobs 3")) for line in master.said[:first_drained])
    assert master.stop() == 0


def test_new_code_is_loaded_by_the_new_generation(start, tmp_path):
    module = tmp_path / "user_code.py"
    module.write_text("VERSION = 1")
    master = start(f"""
        sys.path.insert(0, {str(tmp_path)!r})
        sys.dont_write_bytecode = True

        def run(child):
            import user_code
            child.ready()
            say("version", user_code.VERSION)
            wait(child)

        supervise(Pool(name="jobs", run=run))
    """)
    assert master.expect("version")[1] == "1"
    module.write_text("VERSION = 23")
    master.send(signal.SIGHUP)
    assert master.expect("version")[1] == "23"
    assert master.stop() == 0


def test_children_that_cannot_overlap_are_replaced_after_they_are_gone(start):
    master = start('supervise(Pool(name="server", run=worker, overlap=False))')
    master.expect("ready server 0")
    master.send(signal.SIGHUP)
    master.expect("exit server 0")
    assert not any(line.startswith("ready server") and line.endswith(" 1") for line in master.said)
    master.expect("ready server 0")
    assert master.stop() == 0


def test_a_new_generation_that_cannot_boot_leaves_the_old_one_alone(start):
    master = start("""
        def run(child):
            if child.generation == 1:
                sys.exit(78)
            worker(child)

        supervise(Pool(name="jobs", run=run))
    """)
    old = master.expect("ready jobs 0")[3]
    master.send(signal.SIGHUP)
    assert "cannot boot" in " ".join(master.expect("exit jobs 1"))
    master.expect_log("the running ones continue")
    # The next reload, with mended code, replaces it.
    master.send(signal.SIGHUP)
    assert master.expect("drained")[3] == old
    assert master.stop() == 0


def test_a_reload_does_not_wait_for_the_back_off_of_the_old_code(start):
    master = start("""
        def run(child):
            if child.generation == 0:
                return 1
            worker(child)

        def told(ended):
            say("exit", ended.pool, ended.run_seconds)

        supervise(Pool(name="jobs", run=run), on_exit=told)
    """)
    for _ in range(4):
        master.expect("exit")
    master.send(signal.SIGHUP)
    master.expect("ready jobs 0")
    assert master.stop() == 0


def test_ttin_and_ttou_change_the_first_pool(start):
    master = start('supervise(Pool(name="jobs", run=worker), Pool(name="other", run=worker))')
    oldest = master.expect("ready jobs 0")[3]
    master.send(signal.SIGTTIN)
    master.expect("ready jobs 1")
    master.send(signal.SIGTTOU)
    assert master.expect("exit jobs")[3] == oldest
    # The last one stays.
    master.send(signal.SIGTTOU)
    master.expect_log("1 children wanted", times=2)
    master.send(signal.SIGTTIN)
    master.expect("ready jobs 0")
    assert master.stop() == 0


def test_ttin_makes_no_more_than_a_pool_takes(start):
    master = start('supervise(Pool(name="jobs", run=worker, most=2))')
    master.expect("ready jobs 0")
    master.send(signal.SIGTTIN)
    master.expect("ready jobs 1")
    master.send(signal.SIGTTIN)
    master.expect_log("is limited to 2 children")
    master.send(signal.SIGTTOU)
    master.expect("exit jobs")
    assert master.stop() == 0


def test_usr1_reaches_the_master_and_the_children(start):
    master = start("""
        def run(child):
            child.on_reopen(lambda: say("child reopens", child.slot))
            worker(child)

        supervise(Pool(name="jobs", size=2, run=run), on_reopen=lambda: say("master reopens"))
    """)
    master.expect_all("ready jobs 0", "ready jobs 1")
    master.send(signal.SIGUSR1)
    master.expect_all("master reopens", "child reopens 0", "child reopens 1")
    assert master.stop() == 0


def test_usr2_dumps_stacks_and_status_of_the_children(start):
    master = start("""
        def a_telling_name(child):
            child.status("counting pins")
            child.ready()
            say("ready")
            wait(child)

        supervise(Pool(name="jobs", run=a_telling_name))
    """)
    master.expect("ready")
    master.send(signal.SIGUSR2)
    master.expect_log("in a_telling_name")
    assert "counting pins" in master.log
    assert master.stop() == 0


def test_usr2_dumps_the_stacks_of_all_children(start):
    master = start("""
        def a_telling_name(child):
            child.ready()
            say("ready")
            wait(child)

        supervise(Pool(name="jobs", size=3, run=a_telling_name))
    """)
    for _ in range(3):
        master.expect("ready")
    master.send(signal.SIGUSR2)
    master.expect_log("stacks follow on stderr", times=3)
    master.expect_log("in a_telling_name", times=3)
    assert master.stop() == 0


def test_a_child_told_to_stop_by_someone_else_is_replaced(start):
    master = start('supervise(Pool(name="jobs", run=worker))')
    os.kill(int(master.expect("ready jobs 0")[3]), signal.SIGTERM)
    master.expect("drained jobs 0")
    master.expect("ready jobs 0")
    assert master.stop() == 0
