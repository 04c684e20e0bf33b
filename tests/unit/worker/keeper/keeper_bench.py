"""A keeper with a messenger of the tests, and processes that hold jobs."""

import itertools
import time
from collections import Counter

from pinlater.client.servers import ServerSet
from pinlater.model.descriptor import queue_of
from pinlater.worker.claim_table.counters import SharedCounters
from pinlater.worker.claim_table.exit_queue import ExitInfo, ExitQueue
from pinlater.worker.claim_table.snapshot import RUNNING, SOLO_LAYOUT, Identity, team_layout
from pinlater.worker.claim_table.table import ClaimTable
from pinlater.worker.keeper.lease_renewer import Keeper
from pinlater.worker.keeper.service_client import Renewal
from pinlater.worker.options import WorkerOptions
from tests.unit.client.fake_server import free_address
from tests.unit.worker.fakes import names

LONG_AGO_NS = 60_000_000_000


class FakeMessenger:
    """Notes what it is to say; raises ``trouble`` instead."""

    def __init__(self):
        self.said = []
        self.trouble = None
        self.troubles = []
        self.refused = {}
        self.refused_calls = {}
        self.away = {}
        self.kept = {}
        self.runs = []
        self.body = b"{}"
        self.lost = set()
        self.cancelled = set()

    def _say(self, what, jobs):
        if self.trouble:
            raise self.trouble
        if self.troubles and jobs and what != "renew":
            raise self.troubles.pop(0)
        self._ask_shards(str(jobs))
        if jobs and what in self.refused_calls:
            raise self.refused_calls[what]
        if jobs:
            self.said.append((what, jobs))

    def _ask_shards(self, descriptors):
        for error in [error for shard, error in self.away.items() if f":{shard}:" in descriptors]:
            raise error

    def renew(self, jobs):
        for error in [self.refused[queue] for queue in {queue_of(name) for name, _ in jobs} & self.refused.keys()]:
            raise error
        self._say("renew", [descriptor for descriptor, _ in jobs])
        return Renewal(self.lost.intersection(jobs), self.cancelled.intersection(jobs))

    def release(self, jobs):
        self._say("give back", [descriptor for descriptor, _ in jobs])

    def succeeded(self, jobs):
        told = [descriptor if result is None else (descriptor, result) for descriptor, _, result in jobs]
        self._say("succeeded", told)

    def failed(self, jobs):
        self._say("failed", jobs)

    def tell_runs(self, runs):
        self.runs += runs

    def lookup_job(self, descriptor):
        self._ask_shards(descriptor)
        return self.kept.get(descriptor, ""), self.body

    def prepend_status(self, job, text):
        self._say("note", (job[0], text))

    def replace_body(self, job, body, attempts):
        self._say("replace", (job[0], attempts))
        self.body = body

    def release_claims(self, queues, source):
        self._say("release", (tuple(queues), source))
        return Counter({queues[0]: 3})


class Bench:
    def __init__(self, child, places=1):
        self.child = child
        self._pids = itertools.count(77)
        layout = SOLO_LAYOUT if places == 1 else team_layout(places)
        self.claim_table = ClaimTable(4, layout)
        self.exit_queue = ExitQueue(4, layout)
        options = WorkerOptions(modules=("m",), servers=ServerSet([free_address()]), lease_seconds=30.0)
        self.counters = SharedCounters(4)
        self.keeper = Keeper(child, options, self.claim_table, self.exit_queue, self.counters.keeper)
        self.client = self.keeper._client = FakeMessenger()
        self.row = self.claim_table.row(0)
        self.row.register(Identity("worker:me", ["mail", "web"], ["SendMail"], places))

    def hold(self, *states, age_ns=0, claim="claim", run_ns=1_000_000, queue="mail"):
        area = self.row.acquire_area()
        area.write(claim, names(len(states), queue))
        area.states[: len(states)] = bytes(states)
        area._words[1] -= age_ns
        for position, state in enumerate(states):
            if state == RUNNING:
                area.started_ns[position] = time.monotonic_ns() - run_ns
        return area

    def hold_each(self, *states, run_ns=1_000_000, first=1):
        """Hold jobs as a process of many places does; return where they are."""
        areas = []
        for number, state in enumerate(states, first):
            areas.append(self.row.acquire_area())
            areas[-1].write("claim", [f"mail:s1:p1:{number}"])
            areas[-1].states[0] = state
            areas[-1].started_ns[0] = time.monotonic_ns() - run_ns
        return areas

    def turn(self):
        self.client.said.clear()
        self.is_done = self.keeper._run_once()
        return self.client.said

    def die(self, *, was_interrupted=False, died_ns=None):
        times = died_ns or time.monotonic_ns(), time.time()
        info = ExitInfo(next(self._pids), "killed by SIGSEGV, peak 9 MB", was_interrupted, *times)
        assert self.exit_queue.post(info, self.row.copy())
        self.row.clear()

    def time_out(self):
        info = ExitInfo(
            next(self._pids),
            "killed by SIGKILL (time-out)",
            False,
            time.monotonic_ns(),
            time.time(),
            is_timeout=True,
        )
        assert self.exit_queue.post(info, self.row.copy())
        self.row.clear()
