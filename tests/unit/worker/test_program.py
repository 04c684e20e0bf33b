"""The options of ``pinlater-worker``."""

import sys

import pytest
from click.testing import CliRunner

from pinlater import __version__
from pinlater.worker import master, program
from pinlater.worker.pools import JobPool


@pytest.fixture
def run(monkeypatch):
    started = []
    monkeypatch.setattr(master, "run_worker", lambda options: started.append(options) or 7)
    monkeypatch.setattr("pinlater.worker.logs.set_up_logs", lambda level, log_format: None)

    def run(*arguments):
        result = CliRunner().invoke(program.worker, arguments)
        result.options = started[-1] if started else None
        return result

    monkeypatch.delenv("PINLATER_SERVERS", raising=False)
    return run


def test_the_defaults(run):
    result = run("my_jobs")
    assert result.exit_code == 7
    options = result.options
    assert (options.modules, options.queues, options.burst, options.max_jobs) == (("my_jobs",), (), False, None)
    assert (options.lease_seconds, options.drain_seconds) == (30.0, 30.0)
    assert [str(address) for address in options.servers.addresses()] == ["127.0.0.1:9010"]
    [pool] = options.pools
    assert (pool.name, pool.weights) == ("jobs", {})
    assert pool.processes >= 1


def test_all_options(run):
    result = run(
        *("a", "b.py", "--server", "one:1,two:2", "--server", "three", "--processes", "3", "--queue", "x:9"),
        *(
            "--queue",
            "y",
            "--queue",
            "z,v:2=7",
            "--lease",
            "5",
            "--drain",
            "0",
            "--max-jobs",
            "9",
            "--log-level",
            "debug",
        ),
    )
    options = result.options
    assert (options.modules, options.queues) == (("a", "b.py"), ("x", "y", "z", "v"))
    assert options.pools == (JobPool("jobs", 3, {"x": 9, "y": 1}), JobPool("jobs of z,v", 7, {"z": 1, "v": 2}))
    assert [str(address) for address in options.servers.addresses()] == ["one:1", "two:2", "three:9010"]
    assert (options.lease_seconds, options.drain_seconds, options.max_jobs) == (5.0, 0.0, 9)


def test_reload_needs_what_watches_files(run, monkeypatch):
    assert run("a", "--reload").options.reload
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    result = run("a", "--reload")
    assert result.exit_code == 78
    assert result.stderr == "pinlater-worker: --reload needs the package watchfiles: pip install 'pinlater[dev]'\n"


def test_limits_of_a_process(run):
    options = run("a", "--max-age", "3600", "--max-memory", "300m", "--memory-ceiling", "2GB").options
    assert (options.max_age_seconds, options.max_rss_bytes, options.rss_ceiling_bytes) == (3600, 300_000_000, 2 * 10**9)
    assert run("a", "--burst", "--memory-ceiling", "400000k").options.rss_ceiling_bytes == 400_000_000


def test_health_may_come_from_the_environment(run, monkeypatch):
    assert run("a").options.health == ""
    monkeypatch.setenv("PINLATER_WORKER_HEALTH", "0.0.0.0:9998")
    assert run("a").options.health == "0.0.0.0:9998"
    assert run("a", "--health", "9997").options.health == "9997"


@pytest.mark.parametrize(
    ("arguments", "places", "is_team"),
    [
        ((), 1, False),
        (("--threads", "1"), 1, True),
        (("--threads", "256"), 256, True),
        (("--concurrency", "9"), 9, True),
    ],
)
def test_several_jobs_at_once(run, arguments, places, is_team):
    options = run("a", *arguments).options
    assert (options.capacity, options.is_team) == (places, is_team)


def test_servers_of_the_environment(run, monkeypatch):
    monkeypatch.setenv("PINLATER_SERVERS", "there:1234")
    assert [str(address) for address in run("a").options.servers.addresses()] == ["there:1234"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("a", "--server", "x:y:z"), "'x:y:z' is no server address; write host:port"),
        (("a", "--queue", "e-mail"), "--queue e-mail: a queue name may only have letters, digits and underscores"),
    ],
)
def test_a_wrong_set_up_is_one_line_and_78(run, arguments, message):
    result = run(*arguments)
    assert result.exit_code == 78
    assert result.options is None
    [line] = result.stderr.splitlines()
    assert line.startswith(f"pinlater-worker: {message}")


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("a", "--processes", "0"),
        ("a", "--lease", "0"),
        ("a", "--unknown"),
        ("a", "--burst", "--max-jobs", "3"),
        ("a", "--processes", "2", "--queue", "x=1"),
        ("a", "--burst", "--max-age", "60"),
        ("a", "--burst", "--max-memory", "1G"),
        ("a", "--burst", "--reload"),
        ("a", "--max-age", "0"),
        ("a", "--max-memory", "much"),
        ("a", "--max-memory", "0"),
        ("a", "--max-memory", "-1M"),
        ("a", "--memory-ceiling", "1T"),
        ("a", "--memory-ceiling", "1G", "--max-memory", "1G"),
        ("a", "--threads", "2", "--concurrency", "2"),
        ("a", "--threads", "257"),
        ("a", "--concurrency", "10001"),
    ],
)
def test_wrong_usage_is_2(run, arguments):
    result = run(*arguments)
    assert (result.exit_code, result.options) == (2, None)
    assert "Usage:" in result.stderr


def test_help_has_examples_and_exit_statuses(run):
    result = run("--help")
    assert result.exit_code == 0
    assert "pinlater-worker my_jobs --burst" in result.stdout
    assert "78 configuration error" in result.stdout


def test_the_version(run):
    assert run("--version").stdout == f"pinlater-worker, version {__version__}\n"


@pytest.mark.parametrize(
    ("words", "usage"),
    [(["install-units", "--help"], "Usage: pinlater-worker install-units ["), (["--help"], "Usage: pinlater-worker [")],
)
def test_the_command_for_systemd_is_beside_it(monkeypatch, capsys, words, usage):
    monkeypatch.setattr("sys.argv", ["/somewhere/pinlater-worker", *words])
    with pytest.raises(SystemExit) as caught:
        program.main()
    assert not caught.value.code
    assert capsys.readouterr().out.startswith(usage)


def test_debugging_takes_one_process_that_runs_one_job_at_a_time(run, monkeypatch):
    monkeypatch.setattr("pinlater.worker.terminal.refuse_without_terminal", lambda: None)
    options = run("my_jobs", "--debug").options
    assert options.debug
    assert [pool.processes for pool in options.pools] == [1]
    for words in (["--threads", "2"], ["--concurrency", "2"], ["--queue", "x=2"]):
        result = run("my_jobs", "--debug", *words)
        assert result.exit_code == 2
        assert "--debug runs one job at a time" in result.output


@pytest.fixture
def checked(run, tmp_path):
    """Write a module of jobs, and run the program with ``--check``."""
    sys_modules = set(sys.modules)

    def checked(text, *arguments):
        (tmp_path / "wk_checked.py").write_text(text)
        return run(str(tmp_path / "wk_checked.py"), "--check", *arguments)

    yield checked
    for name in set(sys.modules) - sys_modules:
        del sys.modules[name]


FINE = "from pinlater import Job\nclass Pay(Job):\n    def run(self, context): ...\n"


def test_a_check_says_what_there_is_and_starts_nothing(checked):
    result = checked(FINE, "--processes", "2")
    assert (result.exit_code, result.options) == (0, None)
    assert result.stdout == "the jobs are valid: Pay; 2 processes for queue pay\n"


def test_a_check_warns_of_a_queue_that_no_class_has(checked, caplog):
    assert checked(FINE, "--queue", "pya", "--processes", "1").exit_code == 0
    assert "no job class has the queue 'pya' (did you mean 'pay'?)" in caplog.text


@pytest.mark.parametrize(
    ("text", "arguments", "said"),
    [
        ("1 / 0\n", (), "wk_checked.py:1: ZeroDivisionError"),
        (FINE.replace("    def", "    part: complex\n    def"), (), "JSON cannot carry its field part"),
        (FINE, ("--concurrency", "5"), "a blocking run would stop: Pay"),
        (FINE, ("--on-start", "wk_checked:open_pool"), "wk_checked has no open_pool"),
        (FINE, ("--middleware", "wk_checked:traced"), "wk_checked has no traced"),
        (FINE, ("--health", "0.0.0.0"), "--health 0.0.0.0: write HOST:PORT"),
    ],
)
def test_a_check_that_fails_says_why(checked, text, arguments, said):
    result = checked(text, *arguments)
    assert (result.exit_code, result.stdout) == (78, "")
    assert said in result.stderr
