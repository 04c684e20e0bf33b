"""The slots of calls: how many run at once, in which order the others follow, and that none is lost."""

import asyncio
import random

from pinlater.server.broker.call_slots import CallSlots
from pinlater.server.net.peers import Peers


class Calls:
    """Counts the calls that run, of each address and in all."""

    def __init__(self):
        self.running, self.most, self.order = {}, {}, []

    async def make(self, slots, *names, turns=1):
        if not slots.take():
            await slots.wait()
        try:
            self.order.append(names)
            for name in (*names[:1], "all"):
                self.running[name] = self.running.get(name, 0) + 1
                self.most[name] = max(self.most.get(name, 0), self.running[name])
            for _ in range(turns):
                await asyncio.sleep(0)
        finally:
            for name in (*names[:1], "all"):
                self.running[name] -= 1
            slots.leave()


def is_free(slots, most):
    """Return whether exactly ``most`` slots can be taken."""
    taken = [slots.take() for _ in range(most + 1)]
    for _ in range(most):
        slots.leave()
    return taken == [True] * most + [False]


def test_calls_of_one_address_wait_for_each_other():
    async def main():
        slots, calls = Peers(9, 2, CallSlots(100)).admit("192.0.2.1").call_slots, Calls()
        await asyncio.gather(*(calls.make(slots, "a", number) for number in range(10)))
        assert calls.most == {"a": 2, "all": 2}
        assert calls.order == [("a", number) for number in range(10)]
        assert is_free(slots, 2)

    asyncio.run(main())


def test_all_addresses_share_the_slots_of_the_server():
    async def main():
        peers, calls = Peers(9, 2, CallSlots(3)), Calls()
        addresses = {name: peers.admit(name).call_slots for name in "abc"}
        await asyncio.gather(*(calls.make(addresses[name], name, n) for n in range(5) for name in "abc"))
        assert calls.most["all"] == 3
        assert len(calls.order) == 15
        assert is_free(addresses["a"], 2)

    asyncio.run(main())


def test_a_busy_address_delays_only_itself():
    async def main():
        server, calls = CallSlots(3), Calls()
        busy, other = CallSlots(2, server), CallSlots(2, server)
        tasks = [asyncio.create_task(calls.make(busy, "busy", n, turns=50)) for n in range(20)]
        await asyncio.sleep(0)
        await calls.make(other, "other")
        assert calls.order == [("busy", 0), ("busy", 1), ("other",)]
        await asyncio.gather(*tasks)

    asyncio.run(main())


def test_a_slot_that_was_handed_over_is_not_overtaken():
    async def main():
        slots, calls = CallSlots(1), Calls()
        assert slots.take()
        first = asyncio.create_task(calls.make(slots, "first"))
        await asyncio.sleep(0)
        slots.leave()
        assert not slots.take()
        await asyncio.gather(first, calls.make(slots, "second"))
        assert calls.order == [("first",), ("second",)]

    asyncio.run(main())


def test_cancelled_calls_lose_no_slot():
    async def main(seed):
        chance = random.Random(seed)
        server = CallSlots(3)
        addresses, calls = [CallSlots(2, server) for _ in range(3)], Calls()
        tasks = []
        for number in range(60):
            tasks.append(asyncio.create_task(calls.make(chance.choice(addresses), number, turns=chance.randrange(4))))
            if chance.random() < 0.4:
                chance.choice(tasks).cancel()
            if chance.random() < 0.5:
                await asyncio.sleep(0)
        await asyncio.gather(*tasks, return_exceptions=True)
        assert calls.most["all"] <= 3
        assert all(is_free(slots, 2) for slots in addresses)
        assert is_free(server, 3)

    for seed in range(50):
        asyncio.run(main(seed))
