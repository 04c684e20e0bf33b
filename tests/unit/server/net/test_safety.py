"""Limits that protect a server: exposed addresses, connections per address, overload."""

import contextlib
import json
import socket

import pytest
from click.testing import CliRunner

from pinlater.errors import EXIT_CONFIG, EXIT_UNAVAILABLE, ConfigError, NoHealthyShards
from pinlater.server import program
from pinlater.server.api.overload import LoadShedder
from pinlater.server.broker.call_slots import CallSlots
from pinlater.server.metrics import Metrics
from pinlater.server.net.listeners import is_exposed, listen, listen_locally
from pinlater.server.net.peers import Peers
from pinlater.server.program import main


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.10", "::1", "localhost"])
def test_loopback_addresses_expose_nothing(host):
    assert not is_exposed(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7", "2001:db8::1"])
def test_all_others_do(host):
    assert is_exposed(host)


def check(*options):
    return CliRunner().invoke(main, ["--check", "--set", "DATA_DIR=/tmp", *options])


def test_a_plain_port_for_other_machines_has_to_be_asked_for():
    refused = check("--host", "0.0.0.0")
    assert refused.exit_code == EXIT_CONFIG
    assert "THRIFT_HOST=0.0.0.0 lets other machines connect" in refused.output
    assert "THRIFT_TLS_CERT" in refused.output
    assert "THRIFT_ALLOW_PLAIN=true" in refused.output
    assert check("--host", "0.0.0.0", "--set", "THRIFT_ALLOW_PLAIN=true").exit_code == 0


def no_name_server(*_, **__):
    raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")


@pytest.mark.parametrize("host", ["192.0.2.1", "queue1.example.com"])
def test_an_address_that_is_missing_may_be_there_later(monkeypatch, host):
    """As while the machine starts; systemd does not restart a server that ends with wrong settings."""
    if host[0] == "q":
        monkeypatch.setattr(socket, "getaddrinfo", no_name_server)
    monkeypatch.setattr(program, "_run", lambda settings: listen(settings.thrift_host, 0, key="PORT", option="--port"))
    ended = CliRunner().invoke(main, ["--host", host, "--set", "DATA_DIR=/tmp"])
    assert ended.exit_code == EXIT_UNAVAILABLE
    assert f"pinlater-server: {host}:0 cannot be opened: " in ended.output
    assert "does this machine have the address, and is its network up?" in ended.output


def test_a_port_or_a_name_that_cannot_be_is_a_wrong_setting():
    with (
        contextlib.closing(listen("127.0.0.1", 0, key="PORT", option="--port")) as first,
        pytest.raises(ConfigError, match="in use by another program; stop that program or choose another port with"),
    ):
        listen("127.0.0.1", first.getsockname()[1], key="PORT", option="--port")
    with pytest.raises(ConfigError, match="cannot be opened") as caught:
        listen("no such host", 0, key="PORT", option="--port")
    assert caught.value.exit_status == EXIT_CONFIG
    assert "stop that program" not in str(caught.value)


def test_a_certificate_that_cannot_be_read_is_named():
    refused = check("--host", "0.0.0.0", "--set", "THRIFT_TLS_CERT=/absent/server.pem")
    assert refused.exit_code == EXIT_CONFIG
    assert "/absent/server.pem: cannot be read" in refused.output


@pytest.mark.parametrize("key", ["THRIFT_TLS_KEY", "THRIFT_TLS_CLIENT_CA"])
def test_files_without_a_certificate_are_refused(key):
    refused = check("--set", f"{key}=/some.pem")
    assert refused.exit_code == EXIT_CONFIG
    assert f"{key} has no effect without THRIFT_TLS_CERT" in refused.output


def test_a_socket_of_a_living_server_or_a_file_is_left_alone(tmp_path):
    path = tmp_path / "socket"
    with (
        listen_locally(path, key="THRIFT_UNIX_SOCKET"),
        pytest.raises(ConfigError, match="is in use by another program"),
    ):
        listen_locally(path, key="THRIFT_UNIX_SOCKET")
    with listen_locally(path, key="THRIFT_UNIX_SOCKET"):  # nobody answered there any more
        pass
    (tmp_path / "file").write_text("precious")
    with pytest.raises(ConfigError, match="is in use by another program"):
        listen_locally(tmp_path / "file", key="THRIFT_UNIX_SOCKET")
    with pytest.raises(ConfigError, match="No such file"):
        listen_locally(tmp_path / "absent" / "socket", key="THRIFT_UNIX_SOCKET")


def test_a_socket_whose_server_hangs_is_left_alone(tmp_path):
    path = tmp_path / "socket"
    with contextlib.ExitStack() as stack:
        stack.enter_context(listen_locally(path, key="THRIFT_UNIX_SOCKET")).listen(0)
        with contextlib.suppress(BlockingIOError):  # raised once no more connections can wait to be accepted
            while True:
                client = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
                client.setblocking(False)
                client.connect(str(path))
        with pytest.raises(ConfigError, match="is in use by another program"):
            listen_locally(path, key="THRIFT_UNIX_SOCKET")
        assert path.is_socket()


def test_a_socket_of_another_kind_of_program_is_left_alone(tmp_path):
    path = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
        other.bind(str(path))
        with pytest.raises(ConfigError, match="is in use by another program"):
            listen_locally(path, key="THRIFT_UNIX_SOCKET")


def test_an_address_has_its_share_of_connections_and_no_more():
    peers = Peers(2, 1, CallSlots(9))
    first, second = peers.admit("192.0.2.1"), peers.admit("192.0.2.1")
    assert first is second
    assert peers.admit("192.0.2.1") is None
    assert peers.admit("192.0.2.2") is not None
    peers.remove(first)
    assert peers.admit("192.0.2.1") is first


def test_addresses_that_left_are_forgotten():
    peers = Peers(2, 1, CallSlots(9))
    for number in range(100):
        peers.remove(peers.admit(f"192.0.2.{number}"))
    assert len(peers) == 0


def test_local_sockets_have_no_share():
    peers = Peers(1, 1, CallSlots(9))
    assert {peers.admit("") for _ in range(5)} == {peers.admit("")}


def test_dequeues_are_refused_before_enqueues():
    metrics, waiting = Metrics(), [10]
    load_shedder = LoadShedder(lambda: waiting[0], 10, metrics)
    load_shedder.check_dequeue()
    waiting[0] = 11
    with pytest.raises(NoHealthyShards, match=r"the store is overloaded: more than 10 requests.*try again later"):
        load_shedder.check_dequeue()
    load_shedder.check_enqueue()
    waiting[0] = 21
    with pytest.raises(NoHealthyShards, match="enqueueJobs"):
        load_shedder.check_enqueue()
    assert (metrics.calls_shed.value("dequeueJobs"), metrics.calls_shed.value("enqueueJobs")) == (1, 1)


@pytest.mark.parametrize("options", [["--set", "LOG_FORMAT=json"], []])
def test_where_logs_are_json_a_wrong_setting_is_said_in_a_line_of_json(options, monkeypatch, capsys):
    monkeypatch.setenv("PINLATER_LOG_FORMAT", "" if options else "json")
    with pytest.raises(SystemExit) as caught:
        main(["--set", "PINLATER_BACKEND=papyrus", *options])
    assert caught.value.code == EXIT_CONFIG
    line = json.loads(capsys.readouterr().err)
    assert (line["level"], line["logger"]) == ("CRITICAL", "pinlater-server")
    assert "papyrus" in line["message"]
