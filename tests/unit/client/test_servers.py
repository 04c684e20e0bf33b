"""Addresses, server sets and server files."""

import logging
import os

import pytest

from pinlater.client.address import Address
from pinlater.client.server_file import ServerFile
from pinlater.client.servers import ServerSet
from pinlater.errors import ConfigError

A, B, C = Address("a", 1), Address("b", 2), Address("c", 3)


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("host:9010", Address("host", 9010)),
        ("host", Address("host", 9010)),
        (" 10.0.0.1:1 ", Address("10.0.0.1", 1)),
        ("[::1]:9011", Address("::1", 9011)),
        ("[::1]", Address("::1", 9010)),
    ],
)
def test_addresses_are_read(text, expected):
    assert Address.parse(text) == expected


@pytest.mark.parametrize(
    "text", ["", ":9010", "host:", "host:x", "host:0", "host:65536", "::1", "[::1]x", "[::1", "a b:1"]
)
def test_a_bad_address_says_what_to_write(text):
    with pytest.raises(ConfigError, match="write host:port"):
        Address.parse(text)


@pytest.mark.parametrize("text", ["host:1", "[::1]:2"])
def test_an_address_is_written_as_it_is_read(text):
    assert str(Address.parse(text)) == text


def test_a_set_is_read_from_text_without_duplicates():
    assert list(ServerSet.parse("a:1, b:2,,a:1").addresses()) == [A, B]


@pytest.mark.parametrize("text", ["", " , "])
def test_an_empty_set_is_refused(text):
    with pytest.raises(ConfigError, match="no server given"):
        ServerSet.parse(text)


def test_the_environment_names_the_servers(monkeypatch):
    monkeypatch.setenv("PINLATER_SERVERS", "a:1,b:2")
    assert list(ServerSet.of(None).addresses()) == [A, B]
    monkeypatch.setenv("PINLATER_SERVERS", "a:b:c")
    with pytest.raises(ConfigError, match="PINLATER_SERVERS"):
        ServerSet.of(None)
    monkeypatch.delenv("PINLATER_SERVERS")
    assert list(ServerSet.of(None).addresses()) == [Address("127.0.0.1", 9010)]


def test_a_client_takes_text_a_list_or_a_set():
    servers = ServerSet([A])
    assert ServerSet.of(servers) is servers
    assert list(ServerSet.of(["a:1", "b:2"]).addresses()) == list(ServerSet.of("a:1,b:2").addresses()) == [A, B]


@pytest.mark.parametrize("servers", [9010, [9010], ("localhost", 9010)])
def test_a_client_that_is_given_a_port_says_what_to_write(servers):
    with pytest.raises(ConfigError, match="names no servers; write a text such as 'localhost:9010'"):
        ServerSet.of(servers)


def test_it_starts_by_chance_and_goes_round():
    assert ServerSet([A, B, C], chance=lambda: 0.5).candidates() == [B, C, A]
    assert ServerSet([A, B, C], chance=lambda: 0.99).candidates() == [C, A, B]


def test_it_stays_at_what_worked():
    servers = ServerSet([A, B, C], chance=lambda: 0.0)
    servers.worked(C)
    assert servers.candidates() == [C, A, B]


def test_a_failed_server_comes_last_for_a_while_that_doubles():
    clock = Clock()
    servers = ServerSet([A, B, C], chance=lambda: 0.0, clock=clock)
    servers.failed(B)
    assert servers.candidates() == [A, C, B]
    clock.now += 0.11
    assert servers.candidates() == [A, B, C]
    servers.failed(B)
    clock.now += 0.11
    assert servers.candidates() == [A, C, B]
    for _ in range(20):
        servers.failed(B)
    clock.now += 5.01
    assert servers.candidates() == [A, B, C]


def test_after_a_failed_server_it_goes_on_with_the_next_one_however_rare_calls_are():
    clock = Clock()
    servers = ServerSet([A, B, C], chance=lambda: 0.0, clock=clock)
    assert servers.candidates()[0] == A
    for next_one in (B, C, A):  # each call had no time to try more than one
        servers.failed(servers.candidates()[0])
        clock.now += 60
        assert servers.candidates()[0] == next_one


def test_servers_that_all_failed_are_all_tried_oldest_failure_first():
    clock = Clock()
    servers = ServerSet([A, B], chance=lambda: 0.0, clock=clock)
    servers.failed(B)
    servers.failed(A)
    servers.failed(A)
    assert servers.candidates() == [B, A]
    servers.worked(A)
    assert servers.candidates() == [A, B]


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "servers"
    path.write_text("a:1\n\n  b:2  \na:1\n")
    return path


def test_a_file_has_one_server_a_line(path):
    assert ServerFile(path).addresses() == (A, B)
    assert list(ServerSet.parse(f"file:{path}").addresses()) == [A, B]


def test_a_changed_file_is_read_again_after_a_second(path):
    clock = Clock()
    file = ServerFile(path, clock)
    path.write_text("c:3\n")
    clock.now += 0.9
    assert file.addresses() == (A, B)
    clock.now += 0.2
    assert file.addresses() == (C,)


def test_a_file_that_was_replaced_is_noticed(path):
    clock = Clock()
    file = ServerFile(path, clock)
    new = path.with_suffix(".new")
    new.write_text("c:3\n")
    os.replace(new, path)
    clock.now += 2
    assert file.addresses() == (C,)


@pytest.mark.parametrize("content", ["c:3\nc:x\n", "", "\n\n", None])
def test_a_file_that_became_useless_is_logged_and_changes_nothing(path, caplog, content):
    clock = Clock()
    file = ServerFile(path, clock)
    if content is None:
        path.unlink()
    else:
        path.write_text(content)
    clock.now += 2
    with caplog.at_level(logging.WARNING):
        assert file.addresses() == (A, B)
    assert str(path) in caplog.text
    assert "kept" in caplog.text


@pytest.mark.parametrize("content", ["x:y\n", ""])
def test_a_file_that_is_useless_from_the_start_is_an_error(path, content):
    path.write_text(content)
    with pytest.raises(ConfigError, match=str(path)):
        ServerFile(path)


def test_a_file_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(ConfigError, match="nowhere"):
        ServerSet.parse(f"file:{tmp_path}/nowhere")


def test_a_server_that_left_the_set_is_not_picked():
    addresses = [A, B]
    servers = ServerSet(lambda: addresses)
    servers.worked(B)
    addresses[:] = [A, C]
    assert set(servers.candidates()) == {A, C}


def test_connections_to_the_only_address_are_given_up_once_a_second():
    clock = Clock()
    servers = ServerSet([A], clock=clock)
    assert servers.leave(A)
    servers.worked(A)
    clock.now += 0.9
    assert not servers.leave(A)
    clock.now += 0.2
    assert servers.leave(A)


def test_a_server_that_left_a_call_unanswered_comes_last_although_it_takes_connections():
    clock = Clock()
    servers = ServerSet([A, B], chance=lambda: 0.0, clock=clock)
    servers.worked(A)
    servers.leave(A)
    clock.now += 4.9
    assert servers.candidates() == [B, A]
    servers.worked(B)
    clock.now += 1
    assert servers.candidates() == [B, A], "and the client stays at the other one"
