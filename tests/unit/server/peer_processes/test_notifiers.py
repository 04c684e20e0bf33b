"""What processes of a server tell each other, by sockets, and servers of a store, by datagrams: both alike."""

import asyncio

import pytest

from pinlater.server.backends.poll_of_all import PollOfAll
from pinlater.server.clock import elapsed_seconds
from pinlater.server.peer_processes.process_notifier import ProcessNotifier
from tests.support.waiting import until
from tests.unit.server.peer_processes.receiver import Receiver, Server, ServerList


class Process(Receiver):
    """A process of a server, and what it has heard."""

    def __init__(self, folder):
        super().__init__()
        self.notifier = ProcessNotifier(folder, self)
        self.notifier.start()

    @property
    def others(self):
        return len(self.notifier._others)

    async def leave(self):
        self.notifier.close()


@pytest.fixture(params=["processes", "servers"])
def run(request, tmp_path, monkeypatch):
    """Run a test with so many processes or servers, which have met."""
    pids, store = iter(range(100, 200)), ServerList()
    monkeypatch.setattr("pinlater.server.peer_processes.process_notifier.os.getpid", lambda: next(pids))
    monkeypatch.setattr("pinlater.server.backends.datagram_network._GREETING_GAP_SECONDS", 0.001)

    def run(test, count):
        async def main():
            is_process = request.param == "processes"
            peers = [Process(tmp_path) if is_process else Server(store, str(number)) for number in range(count)]
            try:
                await until(lambda: all(peer.others == count - 1 for peer in peers))
                await test(*peers)
            finally:
                for peer in peers:
                    await peer.leave()

        asyncio.run(main())

    return run


def soonest(heard):
    """Return the first time of each queue: on a busy machine, news need not go together."""
    return {queue: min(due for other, due in heard if other == queue) for queue, _ in heard}


def test_all_others_hear_of_jobs(run):
    async def test(one, two, three):
        one.notifier.notify("emails")
        await until(lambda: two.heard and three.heard)
        one.notifier.notify("pins", 3000)
        one.notifier.notify("pins", 2000)
        one.notifier.notify("cards", 4000)
        await until(lambda: all({("pins", 2000), ("cards", 4000)} <= {*other.heard} for other in (two, three)))
        for first, *others in (two.heard, three.heard):
            assert first == ("emails", None)
            assert soonest(others) == {"pins": 2000, "cards": 4000}
        assert one.heard == []

    run(test, 3)


def test_all_others_hear_of_a_poll_of_all_queues(run):
    async def test(one, two, three):
        one.notifier.notify_polled(PollOfAll(elapsed_seconds(), {"emails": 1000}, frozenset("12"), is_whole=True), 5000)
        await until(lambda: two.polls and three.polls)
        [news] = two.polls
        assert (news.tells_empty("emails"), news.tells_empty("pins")) == (False, True)
        assert one.polls == []

    run(test, 3)


def test_all_others_hear_of_jobs_that_are_to_stop(run):
    async def test(one, two, three):
        names = [f"emails:s1:p1:{number}" for number in range(500)]
        one.notifier.notify_cancelled(names)
        one.notifier.notify("emails")
        await until(lambda: two.heard and three.heard and len(two.cancelled) == len(three.cancelled) == len(names))
        assert two.cancelled == names
        assert one.cancelled == []

    run(test, 3)


def test_a_stream_of_jobs_makes_few_messages(run):
    async def test(one, two):
        for _ in range(1000):
            one.notifier.notify("emails")
        one.notifier.notify("pins")
        await until(lambda: ("pins", None) in two.heard)
        assert len(two.heard) < 20, "far fewer than jobs, also when answers to offers are late"

    run(test, 2)


def test_many_queues_fit_into_messages(run):
    async def test(one, two):
        names = {f"queue{number:04}" + "x" * 80 for number in range(500)}
        one.notifier.notify("first")
        for name in names:
            one.notifier.notify(name, 1000)
        await until(lambda: {name for name, _ in two.heard} == {"first", *names})

    run(test, 2)
