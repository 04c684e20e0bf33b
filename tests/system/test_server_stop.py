"""The end of a server: on TERM it answers what is in flight and exits with 0; wrong settings exit with 78."""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
from pathlib import Path

import pytest
from thrift.transport.TTransport import TTransportException

from tests.support.patterns import SLOW_BODY, SLOW_PATTERN
from tests.support.server import ServerProcess, command, environment, wait_for

QUEUE = "emails"


@pytest.fixture
def server(tmp_path):
    server = ServerProcess(tmp_path / "server")
    with server.client() as client:
        client.createQueue(name=QUEUE)
    yield server
    if server.process.poll() is None:
        server.kill()


def _enqueue_until_the_end(server, answered, faults):
    try:
        with server.client() as client:
            while True:
                answered += client.enqueueJobs(queueName=QUEUE, jobs=[{"body": b"x"}])["jobDescriptors"]
    except (TTransportException, OSError):
        pass
    except Exception as fault:
        faults.append(fault)


@pytest.mark.parametrize("signal_number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_under_load_answers_and_exits_with_0(server, signal_number):
    answered, faults = [], []
    threads = [threading.Thread(target=_enqueue_until_the_end, args=(server, answered, faults)) for _ in range(4)]
    for thread in threads:
        thread.start()
    wait_for(lambda: len(answered) > 50)
    server.process.send_signal(signal_number)
    assert server.process.wait(20) == 0
    for thread in threads:
        thread.join(20)
    assert faults == []
    assert answered
    server.start()
    with server.client() as client:
        assert client.getJobCount(queueName=QUEUE, jobState=0) == len(answered)
        assert len(client.lookupJobs(jobDescriptors=answered)) == len(answered)


def test_waiting_dequeues_are_answered_at_once(server):
    with server.client() as waiter:
        request = {"queueName": QUEUE, "limit": 1, "waitMillis": 60_000}
        waiter.send("dequeueJobs", {"context": {"source": "x"}, "request": request})
        wait_for(lambda: "\npinlater_parked_dequeues 1" in server.page("/metrics")[1])
        server.process.terminate()
        assert waiter.read("dequeueJobs")[1].keys() == {"serverTimestampMillis"}, "no jobs"
        assert server.process.wait(20) == 0


def test_a_call_in_flight_is_answered(server):
    with server.client() as client:
        client.enqueueJobs(queueName=QUEUE, jobs=[{"body": SLOW_BODY}] * 40)
        request = {"queueName": QUEUE, "jobState": 0, "bodyRegexToMatch": SLOW_PATTERN}
        client.send("getJobCount", {"context": {"source": "x"}, "request": request})
        searching = server.child()
        before = searching.cpu_times().user
        wait_for(lambda: searching.cpu_times().user > before + 0.3)
        server.process.terminate()
        with pytest.raises(Exception, match="took longer"):
            client.read("getJobCount")
        assert server.process.wait(20) == 0


def test_idle_and_half_open_peers_do_not_hold_up_the_stop(tmp_path):
    server = ServerProcess(tmp_path / "server", DRAIN_SECONDS="3600")
    peers = [server.socket() for _ in range(50)]
    for peer in peers[::2]:
        peer.sendall(b"\0\0")
    assert server.stop() == 0
    assert "killed" not in server.log
    for peer in peers:
        peer.close()


def test_a_folder_for_temporary_files_with_a_long_name_stops_no_server(tmp_path, monkeypatch):
    long = tmp_path / ("long" * 30)
    long.mkdir()
    monkeypatch.setenv("TMPDIR", str(long))
    server = ServerProcess(tmp_path / "server")
    assert wait_for(lambda: server.page("/readyz") == (200, "ok\n"))
    assert server.stop() == 0
    assert "too long" not in server.log


def test_a_process_is_replaced_though_the_private_folder_was_removed(tmp_path, monkeypatch):
    with tempfile.TemporaryDirectory(dir="/tmp") as parent:  # a short name, as sockets need it
        monkeypatch.setenv("TMPDIR", parent)
        with ServerProcess(tmp_path / "server") as server:
            (folder,) = Path(parent).iterdir()
            shutil.rmtree(folder)
            first = server.child()
            first.kill()
            wait_for(lambda: server.page("/readyz") == (200, "ok\n"))
            assert server.child() != first
            assert f"{folder} was removed, and made again" in server.log
            assert folder.stat().st_mode & 0o777 == 0o700
            assert server.stop() == 0


def test_no_process_is_left_behind(server):
    group = server.process.pid
    assert server.stop() == 0
    with pytest.raises(ProcessLookupError):
        os.killpg(group, 0)


def test_everything_is_there_after_a_restart(server):
    with server.client() as client:
        (name,) = client.enqueueJobs(queueName=QUEUE, jobs=[{"body": b"hello"}])["jobDescriptors"]
        client.dequeueJobs(queueName=QUEUE, limit=1)
    assert server.stop() == 0
    server.start()
    with server.client() as client:
        client.ackDequeuedJobs(queueName=QUEUE, jobsSucceeded=[{"jobDescriptor": name}])
        assert client.lookupJobs(jobDescriptors=[name])[name]["jobState"] == 2


# Wrong from the start


def _fails(tmp_path, *options, env=None):
    """Run the server; return its exit status and the lines it wrote."""
    base = ["--data-dir", str(tmp_path / "data"), "--port", "0", "--admin-port", "0"]
    ended = subprocess.run(
        command(*base, *options),
        capture_output=True,
        text=True,
        timeout=30,
        env=environment() | (env or {}),
        check=False,
    )
    return ended.returncode, (ended.stdout + ended.stderr).splitlines()


WRONG = {
    "an unknown setting": (["--set", "THRIFT_PROT=1"], "THRIFT_PORT"),
    "no number": (["--set", "THRIFT_PORT=many"], "THRIFT_PORT"),
    "out of range": (["--port", "70000"], "70000"),
    "no pair": (["--set", "THRIFT_PORT"], "KEY=VALUE"),
    "no such store": (["--set", "PINLATER_BACKEND=papyrus"], "papyrus"),
    "no such file": (["--config", "/nonexistent/server.conf"], "/nonexistent/server.conf"),
    "no address": (["--host", "256.256.256.256"], "256.256.256.256"),
    "no folder": (["--data-dir", "/dev/null/nothing"], "/dev/null/nothing"),
    "no limits file": (["--set", "QUEUE_CONFIG_FILE_PATH=/nonexistent/queues.json"], "/nonexistent/queues.json"),
}


@pytest.mark.parametrize(("options", "text"), WRONG.values(), ids=WRONG)
def test_wrong_settings_exit_with_78_and_one_clear_line(tmp_path, options, text):
    status, lines = _fails(tmp_path, *options)
    assert status == 78
    assert len([line for line in lines if text in line]) == 1, lines
    assert "Traceback" not in "\n".join(lines)


def test_a_wrong_setting_in_a_file_or_the_environment(tmp_path):
    config = tmp_path / "server.conf"
    config.write_text("# ours\nTHRIFT_PORT=9010\nNUM_PRIORITY_LEVELS=zero\n")
    status, lines = _fails(tmp_path, "--config", str(config))
    assert (status, len(lines)) == (78, 1)
    assert "NUM_PRIORITY_LEVELS" in lines[0]
    status, lines = _fails(tmp_path, env={"PINLATER_NUM_PRIORITY_LEVELS": "zero"})
    assert (status, len(lines)) == (78, 1)
    assert "NUM_PRIORITY_LEVELS" in lines[0]


def test_the_secret_in_a_wrong_setting_is_not_printed(tmp_path):
    status, lines = _fails(tmp_path, "--set", "ADMIN_PASSWORD_HASH=my secret")
    assert status == 78
    assert "my secret" not in "\n".join(lines)


def test_a_port_that_is_taken(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        status, lines = _fails(tmp_path, "--port", port)
    assert status in {69, 78}
    assert port in lines[-1]
    assert "Traceback" not in "\n".join(lines)


def test_a_store_that_another_server_holds(server, tmp_path):
    status, lines = _fails(tmp_path, "--data-dir", str(tmp_path / "server" / "data"))
    assert status == 78
    assert any("held by another pinlater-server" in line for line in lines)
    assert "Traceback" not in "\n".join(lines)
    with server.client() as client:
        assert QUEUE in client.getQueueNames()
