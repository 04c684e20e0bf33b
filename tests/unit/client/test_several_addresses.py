"""Servers whose name stands for several IP addresses, of which not all can be reached, or is not found."""

import asyncio
import contextlib
import socket
import threading

import pytest

from pinlater import AsyncClient, Client
from pinlater.client.address import Address
from pinlater.client.servers import ServerSet
from pinlater.errors import NotConnected

NAME = "queue.example"
IPV4 = socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, ""


@pytest.fixture
def deaf():
    """What a name stands for whose machine answers no attempt to connect."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener, contextlib.ExitStack() as stack:
        for _ in range(8):  # more than it has room for; it drops all others
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listener.getsockname())
        yield *IPV4, listener.getsockname()


@pytest.fixture
def impossible():
    """What a name stands for on a machine without IPv6."""
    return 255, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", ("::1", 9010, 0, 0)


@pytest.fixture
def name_of(monkeypatch):
    """Return a name that stands for the given addresses."""
    look_up = socket.getaddrinfo

    def name_of(*candidates):
        def find(host, *args, **options):
            is_wanted = host == NAME and not options.get("flags")
            return list(candidates) if is_wanted else look_up(host, *args, **options)

        monkeypatch.setattr(socket, "getaddrinfo", find)
        return NAME

    return name_of


def ask(servers, *, blocking, **options):
    """Return the names of queues that a client gets."""

    async def ask_asynchronously():
        async with AsyncClient(servers, **options) as client:
            return await client.queue_names()

    if not blocking:
        return asyncio.run(ask_asynchronously())
    with Client(servers, **options) as client:
        return client.queue_names()


@pytest.mark.parametrize("first", ["deaf", "impossible"])
@pytest.mark.parametrize("blocking", [True, False])
def test_the_address_that_answers_is_found_behind_one_that_does_not(serve, name_of, first, blocking, request):
    last = *IPV4, serve(lambda _: {"q"}).address[:2]
    name = name_of(request.getfixturevalue(first), last)
    assert ask(name, blocking=blocking, connect_timeout=1, timeout=2.5) == {"q"}


@pytest.fixture
def slow_resolver(monkeypatch):
    """Let the look-up of names take until the end of the test; return the names that were found."""
    is_over, found = threading.Event(), []
    look_up = socket.getaddrinfo

    def find(host, *args, **options):
        if not options.get("flags"):
            is_over.wait(20)
            found.append(host)
        return look_up(host, *args, **options)

    monkeypatch.setattr(socket, "getaddrinfo", find)
    yield found
    is_over.set()


@pytest.mark.parametrize("blocking", [True, False])
def test_no_program_waits_longer_for_a_name_than_for_an_answer(slow_resolver, blocking):
    with pytest.raises(NotConnected, match="its name was not found in time" if blocking else "localhost"):
        ask("localhost:1", blocking=blocking, connect_timeout=0.1, timeout=0.3)
    assert slow_resolver == []


@pytest.mark.parametrize("blocking", [True, False])
def test_a_server_is_reached_although_the_name_of_another_is_not_found_in_time(serve, slow_resolver, blocking):
    servers = ServerSet([Address("localhost", 1), serve(lambda _: {"q"}).address], chance=lambda: 0.0)
    assert ask(servers, blocking=blocking, connect_timeout=0.1) == {"q"}
    assert slow_resolver == []
