"""Coordination of server processes: connections are balanced, new jobs are notified."""

import asyncio
import os
import socket
import time
from collections import Counter
from contextlib import ExitStack

import pytest

from pinlater.server.peer_processes import connection_balancer as balancer_module
from pinlater.server.peer_processes.acceptor import MAX_DEFERRALS, RETRY_SECONDS, Acceptor
from pinlater.server.peer_processes.connection_balancer import ConnectionBalancer
from pinlater.server.peer_processes.notification_batch import notification
from pinlater.server.peer_processes.process_notifier import SUFFIX, ProcessNotifier
from tests.support.waiting import until
from tests.unit.server.peer_processes.receiver import Receiver


class Process:
    """A server process, as far as its connections are concerned."""

    def __init__(self, file, slot):
        self.count = 0
        self.balancer = ConnectionBalancer(file, slot, lambda: self.count)

    def has(self, count):
        self.count = count
        self.balancer.publish()


@pytest.fixture
def processes(tmp_path):
    return [Process(tmp_path / "connections", slot) for slot in range(3)]


def whose_turn(processes):
    return [process.balancer.should_accept() for process in processes]


def test_the_process_with_the_fewest_connections_accepts_next(processes):
    for process, count in zip(processes, (2, 1, 1), strict=True):
        process.has(count)
    assert whose_turn(processes) == [False, True, True]
    processes[1].has(2)
    assert whose_turn(processes) == [False, False, True]


def test_a_process_that_has_left_is_not_waited_for(processes):
    for process, count in zip(processes, (2, 2, 0), strict=True):
        process.has(count)
    processes[2].balancer.withdraw()
    assert whose_turn(processes)[:2] == [True, True]


def test_a_hung_process_is_not_waited_for(processes, monkeypatch):
    for process, count in zip(processes, (2, 0, 0), strict=True):
        process.has(count)
    monkeypatch.setattr(balancer_module, "STALE_SECONDS", -1.0)
    assert whose_turn(processes)[0]


def test_a_replacement_begins_without_what_its_slot_had(processes, tmp_path):
    for process in processes:
        process.has(5)
    processes[0] = Process(tmp_path / "connections", 0)
    assert whose_turn(processes)[1:] == [True, True], "it does not accept yet"
    processes[0].has(0)
    assert whose_turn(processes) == [True, False, False]


class Connections(asyncio.Protocol):
    def __init__(self, counts, name):
        self._counts, self._name = counts, name

    def connection_made(self, transport):
        self._counts[self._name] += 1
        transport.close()  # the loop may end before it hears that its peer has gone


def accept(tmp_path, scenario, slots=2):
    """Run ``scenario(address, counts)`` while so many processes accept from one listener."""

    async def run():
        counts = Counter()
        with ExitStack() as stack:
            listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            listener.setblocking(False)
            for slot in range(slots):
                balancer = ConnectionBalancer(tmp_path / "connections", slot, lambda slot=slot: counts[slot])
                copy = socket.socket(fileno=os.dup(listener.fileno()))
                copy.setblocking(False)
                acceptor = Acceptor(copy, lambda slot=slot: Connections(counts, slot), balancer)
                balancer.publish()
                stack.callback(acceptor.close)
            async with asyncio.timeout(20):
                await scenario(listener.getsockname(), counts)

    asyncio.run(run())


def test_connections_are_spread_evenly(tmp_path):
    async def scenario(address, counts):
        peers = [(await asyncio.open_connection(*address))[1] for _ in range(20)]
        await until(lambda: counts.total() >= 20)
        assert set(counts.values()) == {10}
        for peer in peers:
            peer.close()

    accept(tmp_path, scenario)


def test_a_connection_is_accepted_even_if_the_chosen_process_hangs(tmp_path):
    async def scenario(address, counts):
        counts[0] = 7
        hung = ConnectionBalancer(tmp_path / "connections", 1, lambda: 0)
        hung.publish()
        _, peer = await asyncio.open_connection(*address)
        await until(lambda: counts[0] >= 8)
        peer.close()

    accept(tmp_path, scenario, slots=1)


def test_nor_does_it_wait_longer_where_processes_run_only_now_and_then(tmp_path, monkeypatch):
    def takes_long(_):
        time.sleep(2 * RETRY_SECONDS * MAX_DEFERRALS)  # the machine is busy with something else
        return False  # there is always another one with fewer

    monkeypatch.setattr(ConnectionBalancer, "should_accept", takes_long)

    async def scenario(address, counts):
        _, peer = await asyncio.open_connection(*address)
        await until(lambda: counts[0])
        peer.close()

    accept(tmp_path, scenario, slots=1)


# News of jobs


@pytest.fixture
def notifiers(tmp_path, monkeypatch):
    """Make bells as those of other processes; return each with what it has heard."""
    pids = iter(range(100, 200))
    monkeypatch.setattr("pinlater.server.peer_processes.process_notifier.os.getpid", lambda: next(pids))

    def make(receiver=None):
        receiver = receiver or Receiver()
        notifier = ProcessNotifier(tmp_path, receiver)
        notifier.start()
        return notifier, receiver.heard

    return make


def test_a_process_that_is_too_busy_to_hear_of_a_new_one_hears_of_it_later(notifiers):
    async def run():
        one, _ = notifiers()
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as another:
            for _ in range(1_000_000):
                try:
                    another.sendto(b" emails \n", str(one._path))
                except BlockingIOError:
                    break
        two, received = notifiers()
        await until(lambda: one._others)
        one.notify("emails")
        await until(lambda: received)
        one.close()
        two.close()

    asyncio.run(run())


def test_a_process_that_was_killed_is_forgotten(notifiers, tmp_path):
    async def run():
        (one, _), (two, received), (dead, _) = notifiers(), notifiers(), notifiers()
        await asyncio.sleep(0.01)
        dead._socket.close()  # its file stays
        asyncio.get_running_loop().remove_reader(dead._socket)
        one.notify("emails")
        await until(lambda: received)
        assert len(list(tmp_path.glob("*.notify"))) == 2
        one.close()
        two.close()

    asyncio.run(run())


@pytest.mark.parametrize("message", [b"moved emails s1 s2 7", b"polled 1 2", b"\xff emails \n"])
def test_a_message_of_another_version_is_dropped(notifiers, tmp_path, message):
    async def run():
        failures = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context))
        notifier, received = notifiers()
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
            other.connect(str(next(tmp_path.glob(f"*{SUFFIX}"))))
            other.send(message)
            other.send(notification("emails", None, ()))
        await until(lambda: received)
        assert (received, failures) == ([("emails", None)], [])
        notifier.close()

    asyncio.run(run())
