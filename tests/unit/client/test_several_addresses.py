"""Servers whose name stands for several IP addresses, of which not all can be reached."""

import asyncio
import contextlib
import socket

import pytest

from pinlater import AsyncClient, Client

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


@pytest.mark.parametrize("first", ["deaf", "impossible"])
@pytest.mark.parametrize("blocking", [True, False])
def test_the_address_that_answers_is_found_behind_one_that_does_not(serve, name_of, first, blocking, request):
    last = *IPV4, serve(lambda _: {"q"}).address[:2]
    name = name_of(request.getfixturevalue(first), last)
    options = {"connect_timeout": 1, "timeout": 2.5}

    async def ask():
        async with AsyncClient(name, **options) as client:
            return await client.queue_names()

    if blocking:
        with Client(name, **options) as client:
            assert client.queue_names() == {"q"}
    else:
        assert asyncio.run(ask()) == {"q"}
