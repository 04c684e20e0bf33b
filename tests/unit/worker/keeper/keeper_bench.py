"""A keeper with a messenger of the tests, and processes that hold jobs."""

import time
from collections import Counter

from pinlater.client.servers import ServerSet
from pinlater.worker.claim_table.counters import Tally
from pinlater.worker.claim_table.exit_queue import Facts, Notices
from pinlater.worker.claim_table.snapshot import ALONE, RUNNING, Identity, team_layout
from pinlater.worker.claim_table.table import Board
from pinlater.worker.keeper.lease_renewer import Keeper
from pinlater.worker.options import Options
from tests.unit.client.fake_server import free_address
from tests.unit.worker.fakes import names

LONG_AGO_NS = 60_000_000_000


class FakeMessenger:
    """Notes what it is to say; raises ``trouble`` instead."""

    def __init__(self):
        self.said = []
        self.trouble = None
        self.troubles = []
        self.kept = {}
        self.body = b"{}"
        self.lost = set()

    def _say(self, what, jobs):
        if self.trouble:
            raise self.trouble
        if self.troubles and jobs and what != "renew":
            raise self.troubles.pop(0)
        if jobs:
            self.said.append((what, jobs))

    def renew(self, jobs):
        self._say("renew", [descriptor for descriptor, _ in jobs])
        return {job for job in jobs if job in self.lost}

    def give_back(self, jobs):
        self._say("give back", [descriptor for descriptor, _ in jobs])

    def succeeded(self, jobs):
        self._say("succeeded", [descriptor for descriptor, _ in jobs])

    def failed(self, jobs):
        self._say("failed", jobs)

    def look(self, descriptor):
        return self.kept.get(descriptor, ""), self.body

    def note(self, job, text):
        self._say("note", (job[0], text))

    def release(self, queues, source):
        self._say("release", (tuple(queues), source))
        return Counter({queues[0]: 3})


class Bench:
    def __init__(self, child, places=1):
        self.child = child
        layout = ALONE if places == 1 else team_layout(places)
        self.board = Board(4, layout)
        self.notices = Notices(4, layout)
        options = Options(modules=("m",), servers=ServerSet([free_address()]), lease_seconds=30.0)
        self.tally = Tally(4)
        self.keeper = Keeper(child, options, self.board, self.notices, self.tally.keeper)
        self.messenger = self.keeper._messenger = FakeMessenger()
        self.slot = self.board.slot(0)
        self.slot.introduce(Identity("worker:me", ["mail", "web"], ["SendMail"], places))

    def hold(self, *states, age_ns=0, claim="claim", run_ns=1_000_000):
        area = self.slot.free_batch()
        area.hold(claim, names(len(states)))
        area.states[: len(states)] = bytes(states)
        area._words[1] -= age_ns
        for position, state in enumerate(states):
            if state == RUNNING:
                area.since_ns[position] = time.monotonic_ns() - run_ns
        return area

    def hold_each(self, *states, run_ns=1_000_000, first=1):
        """Hold jobs as a process of many places does; return where they are."""
        areas = []
        for number, state in enumerate(states, first):
            areas.append(self.slot.free_batch())
            areas[-1].hold("claim", [f"mail:s1:p1:{number}"])
            areas[-1].states[0] = state
            areas[-1].since_ns[0] = time.monotonic_ns() - run_ns
        return areas

    def turn(self):
        self.messenger.said.clear()
        self.is_done = self.keeper._turn()
        return self.messenger.said

    def die(self, *, was_interrupted=False, died_ns=None):
        facts = Facts(77, "killed by SIGSEGV, peak 9 MB", was_interrupted, died_ns or time.monotonic_ns())
        assert self.notices.post(facts, self.slot.copy())
        self.slot.clear()

    def time_out(self):
        facts = Facts(77, "killed by SIGKILL (time-out)", False, time.monotonic_ns(), is_timeout=True)
        assert self.notices.post(facts, self.slot.copy())
        self.slot.clear()
