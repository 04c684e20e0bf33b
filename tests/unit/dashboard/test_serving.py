"""The dashboard on a real socket: peers that dawdle, connections that stay, an end in order."""

import asyncio
import contextlib
import socket

import pytest

from pinlater.dashboard.figures import ServerFigures
from pinlater.dashboard.options import DashboardOptions
from pinlater.dashboard.serving import MAX_CONNECTIONS, _SupervisedServer, serve
from pinlater.server.admin.pages import MonitoringPages
from pinlater.server.admin.reports import ServerStatus

PATIENCE_SECONDS = 20
REQUEST = b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


async def read_figures():
    return ServerFigures()


async def view(**_):
    return ServerStatus([], [])


OPTIONS = DashboardOptions(
    server="127.0.0.1:1", name="x", read_figures=read_figures, plain_pages=MonitoringPages(view).by_path
)


def serving(test, **options):
    """Run ``test(port)`` against a dashboard."""

    async def main():
        async with asyncio.timeout(PATIENCE_SECONDS):
            with socket.create_server(("127.0.0.1", 0)) as listener:
                done = asyncio.Event()
                served = asyncio.create_task(serve(OPTIONS, listener, done.wait, **options))
                try:
                    return await test(listener.getsockname()[1])
                finally:
                    done.set()
                    await served

    return asyncio.run(main())


async def answers(port, *sent):
    """Send one after the other on one connection; return what came back until it was closed."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    with contextlib.closing(writer):
        for part in sent:
            writer.write(part)
            await asyncio.sleep(0.05)
        try:
            return await reader.read(-1)
        except ConnectionError:
            return b"reset"


@pytest.mark.parametrize("turns", range(6))
def test_a_connection_that_was_just_accepted_is_answered_at_the_end(monkeypatch, turns):
    """Wherever the end comes; one that is not accepted yet is left to the process that comes next."""
    main_loop, has_begun = _SupervisedServer.main_loop, asyncio.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket() as client:

        async def main_loop_and_a_client(server):
            has_begun.set()
            await main_loop(server)
            client.connect(listener.getsockname())
            client.sendall(REQUEST)
            for _ in range(turns):
                await asyncio.sleep(0)

        monkeypatch.setattr(_SupervisedServer, "main_loop", main_loop_and_a_client)
        asyncio.run(serve(OPTIONS, listener.dup(), has_begun.wait))
        client.settimeout(0.2)
        with contextlib.suppress(TimeoutError):
            assert client.recv(100).startswith(b"HTTP/1.1 200")


def test_a_request_that_is_never_finished_is_not_waited_for():
    async def test(port):
        return await answers(port, b"GET / HT"), await answers(port, b"")

    assert serving(test, read_seconds=0.3) == (b"", b"")


def test_a_second_request_that_is_never_finished_is_not_waited_for_either():
    answer = serving(lambda port: answers(port, REQUEST, b"GET / HT"), read_seconds=0.3)
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert answer.count(b"HTTP/1.1") == 1


def test_a_connection_that_is_used_stays():
    async def test(port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        with contextlib.closing(writer):
            for _ in range(8):
                writer.write(REQUEST)
                await reader.readuntil(b"ok\n")
                await asyncio.sleep(0.1)
        return True

    assert serving(test, read_seconds=0.3)


def test_connections_that_ask_for_nothing_keep_nobody_out():
    async def test(port):
        held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(MAX_CONNECTIONS * 2)]
        for _, writer in held[::2]:
            writer.write(REQUEST[:10])
        asked = await answers(port, REQUEST.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        gone = [await held[0][0].read(-1) for _ in range(2)]
        for _, writer in held:
            writer.close()
        return asked, gone

    asked, gone = serving(test)
    assert asked.startswith(b"HTTP/1.1 200 ")
    assert gone == [b"", b""]


def test_forms_that_do_not_come_to_their_end_keep_nobody_out():
    head = b"POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/x-www-form-urlencoded\r\n"
    asking = REQUEST.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")

    async def test(port):
        async with contextlib.AsyncExitStack() as stack:
            for _ in range(MAX_CONNECTIONS * 2):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                stack.callback(writer.close)
                writer.write(head + b"Content-Length: 1000\r\n\r\na")
                await writer.drain()
            return [await answers(port, asking) for _ in range(5)]  # the first ones may meet others on their way out

    assert serving(test)[-1].startswith(b"HTTP/1.1 200 ")


def test_a_request_with_two_lengths_is_refused_and_nothing_behind_it_is_believed():
    smuggled = b"0\r\n\r\n" + REQUEST
    head = b"POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n"
    answer = serving(lambda port: answers(port, head + smuggled))
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"HTTP/1.1 ") == 1


def test_it_ends_though_somebody_is_connected():
    with contextlib.ExitStack() as stack:

        async def test(port):
            stack.enter_context(contextlib.closing(socket.create_connection(("127.0.0.1", port))))

        serving(test)


def test_it_ends_at_once_and_not_when_it_next_sets_the_date(monkeypatch):
    monkeypatch.setattr("pinlater.dashboard.serving._DATE_SECONDS", 10 * PATIENCE_SECONDS)
    assert b"\r\ndate: " in serving(
        lambda port: answers(port, REQUEST.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
    )
