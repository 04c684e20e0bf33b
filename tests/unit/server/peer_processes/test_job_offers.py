"""Jobs that nobody waits for where they are stored are offered to one server after the other."""

import asyncio
import random
from collections import Counter

import pytest

from pinlater.server.backends.job_notifications import JobLocation
from pinlater.server.peer_processes import job_offers
from pinlater.server.peer_processes.job_offers import JobOffers
from tests.support.waiting import until

QUEUE = "emails"
PLACES = [JobLocation("east", 1)]


class Network:
    """Servers that send each other messages.

    Attributes:
        servers: by their ids.
        loss: share of the messages that are lost.
        delay: seconds that each takes.
        sent: how many messages there were, by their first word.
        received: how many there were to each server.
    """

    def __init__(self, count):
        self.loss = self.delay = 0.0
        self.sent = Counter()
        self.received = Counter()
        self.servers = {b"%d" % number: Server(self, b"%d" % number) for number in range(count)}

    def __getitem__(self, number):
        return self.servers[b"%d" % number]

    def deliver(self, message, to):
        self.sent[message.split(b" ")[0]] += 1
        self.received[to] += 1
        server = self.servers[to]
        if not server.is_frozen and random.random() >= self.loss:
            asyncio.get_running_loop().call_later(self.delay, server.offers.receive, message)


class Server:
    """A server with dequeues that wait.

    Attributes:
        waiting: how many dequeues wait for the queue.
        woken: how many were woken.
        told: how often it was told of jobs without being asked.
        places: where the jobs of the last offer are.
        is_frozen: whether it gets no message.
    """

    def __init__(self, network, own_id):
        self.own_id = own_id
        self.network = network
        self.waiting = self.woken = self.told = 0
        self.places = None
        self.asked_for = []
        self.is_frozen = False
        self.offers = JobOffers(self, self)

    @property
    def ids(self):
        return [other for other in self.network.servers if other != self.own_id]

    def send(self, message, to):
        self.network.deliver(message, to)

    def announce(self, _queue, _locations, to):
        for one in to:
            self.network.servers[one].told += 1

    def announce_to_all(self, queue, locations):
        self.announce(queue, locations, self.ids)

    def take_jobs(self, _queue, count, locations):
        self.places = locations
        self.asked_for.append(count)
        taken = min(count or 1, self.waiting)
        self.waiting -= taken
        self.woken += taken
        return taken

    def sees_to(self, _queue, _due_ms):
        return bool(self.waiting)

    def wake(self):
        self.take_jobs(QUEUE, 1, ())


def woken(network):
    return sum(server.woken for server in network.servers.values())


def told(network):
    return sum(server.told for server in network.servers.values())


@pytest.fixture
def run(monkeypatch):
    """Run a test with so many servers; the patience does not end, however busy the machine is."""
    monkeypatch.setattr(job_offers, "_PATIENCE_SECONDS", (60.0, 60.0))

    def run(test, count=6):
        async def main():
            network = Network(count)
            await test(network)
            for server in network.servers.values():
                server.offers.close()

        asyncio.run(main())

    return run


def test_one_dequeue_is_woken_for_a_job_wherever_it_waits(run):
    async def test(network):
        for number in range(1, 6):
            network[number].waiting = 1
            network[0].offers.offer(QUEUE, 1, PLACES)
            await until(lambda number=number: woken(network) == number)
            assert network[number].places == PLACES
            await until(lambda: not network[0].offers._offers)
        assert told(network) == 0

    run(test)


def test_of_many_servers_with_dequeues_one_is_asked(run):
    async def test(network):
        for server in network.servers.values():
            server.waiting = 100
        for number in range(1, 50):
            network[0].offers.offer(QUEUE, 1, PLACES)
            await until(lambda number=number: woken(network) == number)
            await until(lambda: not network[0].offers._offers)
        assert network.sent[b"offer"] == 49
        assert sum(server.woken > 0 for server in network.servers.values()) > 1  # all get their share

    run(test)


def test_jobs_that_are_too_many_for_one_server_go_to_several(run):
    async def test(network):
        for number in (1, 3, 5):
            network[number].waiting = 3
        network[0].offers.offer(QUEUE, 4, PLACES)
        network[0].offers.offer(QUEUE, 3, PLACES)  # while the others are on offer
        await until(lambda: woken(network) == 7)
        assert told(network) == 0

    run(test)


@pytest.mark.parametrize("more", [[], [JobLocation(f"shard{number}", 1) for number in range(50)]])
def test_of_jobs_at_too_many_places_or_unknown_ones_no_place_is_told(run, more):
    async def test(network):
        network[1].waiting = 10
        for places in (PLACES, PLACES, more):
            network[0].offers.offer(QUEUE, 1, places)
        await until(lambda: network[1].woken == 3)
        assert network[1].places == []

    run(test, 2)


def test_a_job_that_nobody_waits_for_is_known_to_all_and_later_ones_cost_no_questions(run):
    async def test(network):
        network[0].offers.offer(QUEUE, 1, PLACES)
        await until(lambda: all(network[number].places for number in range(1, 6)))
        await until(lambda: not network[0].offers._offers)
        network[0].offers.offer(QUEUE, 1, PLACES)
        network[0].offers.offer_rest(QUEUE, are_new=False)
        assert (network.sent[b"offer"], told(network)) == (5, 5)

    run(test)


def test_jobs_that_are_left_are_offered_to_one_after_the_other_as_not_new(run):
    async def test(network):
        network[4].waiting = 3
        network[0].offers.offer_rest(QUEUE, are_new=False)
        await until(lambda: not network[0].offers._offers)
        assert (network[4].woken, network[4].asked_for, told(network)) == (1, [0], 0)
        network[0].offers.offer_rest(QUEUE, are_new=False)
        network[0].offers.offer_rest(QUEUE, are_new=False)  # follows
        network[0].offers.offer(QUEUE, 1, PLACES)  # so these jobs are not all old
        await until(lambda: not network[0].offers._offers)
        assert (network[4].woken, network[4].asked_for) == (3, [0, 0, None])

    run(test)


def test_nobody_is_asked_again_for_a_while_about_jobs_that_are_left_and_that_nobody_took(run, monkeypatch):
    monkeypatch.setattr(job_offers, "_REFUSED_SECONDS", 0.0)

    async def test(network):
        network[0].offers.offer_rest(QUEUE, are_new=False)
        await until(lambda: not network[0].offers._offers)
        network[1].waiting = 1
        network[0].offers.offer_rest(QUEUE, are_new=False)
        assert (network.sent[b"offer"], told(network)) == (5, 0)
        network[0].offers.offer(QUEUE, 1, PLACES)  # new ones are offered all the same
        await until(lambda: network[1].woken)
        network[1].waiting = 1
        network[0].offers.offer_rest(QUEUE, are_new=True)
        await until(lambda: network[1].woken == 2)
        assert network[1].asked_for == [0, 1, None]

    run(test)


@pytest.mark.parametrize("is_new", [False, True])
def test_jobs_that_are_left_while_others_are_refused_are_announced_only_if_some_are_new(run, is_new):
    async def test(network):
        network[0].offers.offer_rest(QUEUE, are_new=False)
        network[0].offers.offer_rest(QUEUE, are_new=False)
        if is_new:
            network[0].offers.offer(QUEUE, 1, PLACES)
        await until(lambda: not network[0].offers._offers)
        assert (network.sent[b"offer"], told(network)) == (5, 5 * is_new)

    run(test)


def test_a_server_that_does_not_answer_is_not_told_of_jobs_that_are_left(run, monkeypatch):
    monkeypatch.setattr(job_offers, "_PATIENCE_SECONDS", (0.02, 0.02))
    monkeypatch.setattr(job_offers, "_SILENT_SECONDS", 3600.0)

    async def test(network):
        for number in range(1, 5):
            network[number].is_frozen = True
        network[5].waiting = 1
        network[0].offers.offer_rest(QUEUE, are_new=False)
        await until(lambda: network[5].woken)
        await until(lambda: not network[0].offers._offers)
        network[0].offers.offer_rest("another", are_new=False)
        await until(lambda: not network[0].offers._offers)
        assert told(network) == 0

    run(test)


def test_a_flood_of_questions_is_cut_off(run, monkeypatch):
    monkeypatch.setattr(job_offers, "_QUESTIONS_SECONDS", 3600.0)

    async def test(network):
        for number in range(1000):
            network[0].offers.offer(f"queue{number}", 1, PLACES)
            network[0].offers.fallen_due(f"queue{number}", 5, lambda: None)
        assert network.sent[b"offer"] + network.sent[b"due"] <= job_offers._MOST_QUESTIONS
        assert told(network) > 4 * 700

    run(test)


def test_when_a_server_does_not_answer_all_others_are_told_and_it_is_asked_no_more(run, monkeypatch):
    monkeypatch.setattr(job_offers, "_PATIENCE_SECONDS", (0.5, 0.5))
    monkeypatch.setattr(job_offers, "_SILENT_SECONDS", 3600.0)

    async def test(network):
        network[1].waiting, network[1].is_frozen = 5, True
        network[0].offers.offer(QUEUE, 1, PLACES)
        await until(lambda: network[1].told)
        assert all(network[number].told or network[number].places for number in range(2, 6))
        network[2].waiting = 1
        network[0].offers.offer("another", 1, PLACES)
        await until(lambda: woken(network) == 1)
        assert network.received[b"1"] == 1

    run(test)


def test_late_answers_teach_patience_and_servers_that_are_dead_do_not(run, monkeypatch):
    monkeypatch.setattr(job_offers, "_PATIENCE_SECONDS", (0.001, 60.0))
    monkeypatch.setattr(job_offers, "_SILENT_SECONDS", 0.0)

    async def test(network):
        network[1].is_frozen = True
        for number in range(3):
            network[0].offers.offer(f"queue{number}", 1, PLACES)
            await until(lambda: not network[0].offers._offers)
        assert network[0].offers._patience == 0.001
        network[1].is_frozen, network.delay = False, 0.1
        network[0].offers.offer(QUEUE, 1, PLACES)
        await until(lambda: network[0].offers._patience >= 0.2)
        assert network[1].told == 4
        network[1].waiting = 1
        network[0].offers.offer("another", 1, PLACES)
        await until(lambda: network[1].woken)
        assert network[1].told == 4

    run(test, 2)


@pytest.mark.parametrize("loss", [0.0, 0.5, 1.0])
def test_for_each_job_somebody_is_woken_or_all_are_told_whatever_is_lost(run, monkeypatch, loss):
    if loss:
        monkeypatch.setattr(job_offers, "_PATIENCE_SECONDS", (0.02, 0.02))

    async def test(network):
        network.loss = loss
        for server in network.servers.values():
            server.waiting = 1000
        for number in range(20):
            network[0].offers.offer(f"queue{number}", 1, PLACES)
        await until(lambda: not network[0].offers._offers)
        assert woken(network) + told(network) >= 20
        assert loss or told(network) == 0

    run(test)


def test_one_server_of_those_that_know_when_a_job_falls_due_wakes_a_dequeue(run):
    async def test(network):
        for server in network.servers.values():
            server.waiting = 100
        for due_ms in range(20):
            for server in network.servers.values():
                server.offers.fallen_due(QUEUE, due_ms, server.wake)
        await until(lambda: woken(network) >= 20)
        await asyncio.sleep(0)
        assert woken(network) == 20
        assert sum(server.woken > 0 for server in network.servers.values()) > 1  # each moment has another order

    run(test)


def test_a_job_that_falls_due_passes_servers_by_that_are_frozen_or_have_no_dequeue(run, monkeypatch):
    monkeypatch.setattr(job_offers, "_PATIENCE_SECONDS", (0.02, 0.02))

    async def test(network):
        network[3].waiting = 100
        network[0].is_frozen = network[1].is_frozen = True
        network[0].waiting = 100
        for due_ms in range(20):
            network[3].offers.fallen_due(QUEUE, due_ms, network[3].wake)
        await until(lambda: network[3].woken == 20)

    run(test)


def test_messages_of_other_kinds_are_left_to_others_and_those_of_other_versions_are_refused(run):
    async def test(network):
        offers = network[0].offers
        assert not offers.receive(b" emails east:1\n")
        assert not offers.receive(b"cancelled q:s1:p1:1")
        assert offers.receive(b"taken 5 1")  # too late, or never asked
        for message in (
            b"offer 31 5 emails",
            b"offer 31 x emails 1 ",
            b"due 31 5 emails soon",
            b"taken 5",
            b"taken x 1",
        ):
            with pytest.raises(ValueError):
                offers.receive(message)

    run(test)
