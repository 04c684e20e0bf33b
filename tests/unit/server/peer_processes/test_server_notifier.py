"""Servers of one store tell each other of jobs: by datagrams that nobody else can sign."""

import asyncio
import socket

import pytest
import uvloop

from pinlater.errors import NoHealthyShards
from pinlater.server.backends import datagram_network
from pinlater.server.backends.datagram_network import DatagramNetwork, local_address
from pinlater.server.backends.job_notifications import JobLocation
from pinlater.server.backends.listeners import Listener, StoreListeners
from pinlater.server.peer_processes import job_offers
from pinlater.server.peer_processes.cancellation_message import cancellation_messages
from pinlater.server.peer_processes.notification_batch import read_message
from pinlater.server.peer_processes.server_notifier import ServerNotifier
from tests.support.waiting import until
from tests.unit.server.peer_processes.receiver import Receiver, Server, ServerList


@pytest.fixture
def run(monkeypatch):
    """Run a test with servers of these names, which have met."""
    monkeypatch.setattr(datagram_network, "_GREETING_GAP_SECONDS", 0.001)
    monkeypatch.setattr(job_offers, "_PATIENCE_SECONDS", (30.0, 30.0))  # a late answer repeats the offer

    def run(test, *names):
        async def main():
            store = ServerList()
            servers = [Server(store, name) for name in names]
            try:
                for server in servers:
                    await until(lambda server=server: server.others >= len(set(names)) - 1)
                await test(store, *servers)
            finally:
                for server in servers:
                    await server.leave()

        asyncio.run(main())

    return run


def test_a_server_that_comes_later_hears_and_is_heard_and_looks_for_what_it_missed(run):
    async def test(store, one):
        assert one.gaps == 0
        two = Server(store, "b")
        await until(lambda: one.others and two.others)
        assert one.gaps == two.gaps == 1
        two.notifier.notify("emails")
        one.notifier.notify("pins")
        await until(lambda: one.heard and two.heard)
        assert (one.heard, two.heard) == ([("emails", None)], [("pins", None)])
        await two.leave()

    run(test, "a")


def test_processes_of_one_server_leave_each_other_alone(run):
    async def test(_, one, two, other):
        one.notifier.notify("emails")
        await until(lambda: other.heard and other.others == 2)  # it may hear of one before it meets the other
        assert two.heard == []
        assert (one.others, two.others) == (1, 1)

    run(test, "a", "a", "b")


def test_a_server_that_knows_no_cancellations_drops_the_message():
    for message in cancellation_messages([f"emails:s1:p1:{number}" for number in range(50)], 60):
        with pytest.raises(ValueError, match=r"unpack|invalid literal"):
            list(read_message(message))


@pytest.mark.parametrize("forge", [lambda signed: signed[16:], lambda signed: bytes(16) + signed[16:], lambda _: b""])
def test_what_no_server_has_signed_is_dropped(run, forge):
    async def test(store, one, two):
        [listener] = [each for each in store.listeners.values() if each.id in one.network._others]
        signed = datagram_network._signature(b" emails \n", listener.secret) + b" emails \n"
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
            stranger.sendto(forge(signed), (listener.host, listener.port))
            one.notifier.notify("pins")
            await until(lambda: two.heard)
            assert two.heard == [("pins", None)]
            stranger.sendto(signed, (listener.host, listener.port))
            await until(lambda: ("emails", None) in two.heard)

    run(test, "a", "b")


@pytest.mark.parametrize(
    "message",
    [
        b"polled 1 2 x 0 9",
        b"polled x 2 x 0 9 ",
        b"soon emails \n",
        b" emails\n",
        b" emails :1\n",
        b"\xff\n",
        b"cancelled \xff",
    ],
)
def test_a_message_of_another_version_is_dropped(run, message):
    async def test(_, one, two):
        [listener] = one.network._others.values()
        one.network._send(message, listener)
        one.notifier.notify("pins")
        await until(lambda: two.heard)
        assert {*two.heard} == {("pins", None)}, "perhaps twice, when the answer to an offer is late"

    run(test, "a", "b")


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_server_at_an_address_of_the_other_ip_version_keeps_nobody_from_hearing_of_jobs(new_loop):
    async def main():
        store = ServerList()
        store.listeners[b"far"] = Listener(b"far", "::1", 9, bytes(16))
        one, two = Server(store, "a"), Server(store, "b")
        await until(lambda: one.others == two.others == 2)
        one.notifier.notify("emails")
        await until(lambda: two.heard)
        assert not one.task.done()
        await one.leave()
        await two.leave()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(main())


def test_while_the_store_is_away_the_servers_that_are_known_are_notified(run):
    async def test(store, one, two):
        store.error, before = NoHealthyShards("gone"), store.meetings
        for number in range(1, 4):  # greetings make it look
            one.network.datagram_received(datagram_network._signature(b"", one.network._secret), ("127.0.0.1", 1))
            await until(lambda number=number: store.meetings >= before + number)
        one.notifier.notify("emails")
        await until(lambda: two.heard)
        assert not one.task.done()

    run(test, "a", "b")


def test_without_a_way_to_the_database_nobody_listens(caplog):
    async def test():
        server = Server(ServerList(), "a")
        server.network._listeners = StoreListeners(("no.such.host.invalid", 3306), ServerList().meet)
        await server.task
        server.notifier.notify("emails")

    asyncio.run(test())
    assert "waiting dequeues poll" in caplog.text
    assert local_address("127.0.0.1", 3306) == "127.0.0.1"


def test_others_are_told_where_the_jobs_are(run):
    async def test(_, one, two):
        one.notifier.notify("pins", None, lambda: [JobLocation("east", 2)])
        one.notifier.notify("pins", None, lambda: [JobLocation("west", None), JobLocation("east", 1)])
        await until(lambda: ("pins", None) in two.heard)
        assert two.locations == {JobLocation("east", 2), JobLocation("west", None), JobLocation("east", 1)}

    run(test, "a", "b")


@pytest.mark.parametrize("more", [[], [JobLocation(f"shard{number}", 1) for number in range(50)]])
def test_if_not_all_places_are_known_or_they_are_many_none_is_named(run, more):
    async def test(_, one, two):
        one.notifier.announce_to_all("emails", ())  # those after it are collected, and sent together
        for locations in ([JobLocation("east", 2)], more, [JobLocation("west", 2)]):
            one.notifier.announce_to_all("pins", locations)
        await until(lambda: ("pins", None) in two.heard)
        assert two.locations == set()

    run(test, "a", "b")


def test_each_server_has_a_rank_of_its_own_and_processes_of_one_share_it(run):
    async def test(_, *servers):
        ranks = [server.notifier.rank for server in servers]
        assert {rank.servers for rank in ranks} == {3}
        assert ranks[0] == ranks[3]
        assert sorted(rank.number for rank in ranks[:3]) == [0, 1, 2]

    run(test, "a", "b", "c", "a")


def test_a_server_that_knows_of_no_other_has_all_turns():
    notifier = ServerNotifier(DatagramNetwork(None, "a"), Receiver())
    assert (notifier.rank.number, notifier.rank.servers) == (0, 1)
