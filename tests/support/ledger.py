"""Who was handed which job, under which claim, when, and until when: and what of it must not have been."""

import contextlib
import itertools
import threading
import time
from collections import Counter, defaultdict
from typing import NamedTuple

from pinlater import Client, JobState
from pinlater.client import Ack, NewJob
from pinlater.errors import NoHealthyShards, PinLaterError, ServiceError
from tests.support.server import wait_for

ATTEMPTS = 1


class Handout(NamedTuple):
    """One job in one answer to a dequeue."""

    job: str
    claim: str
    holder: str
    at: float


class Ledger:
    """What producers and holders were told, all of them threads.

    Attributes:
        confirmed: jobs whose enqueue succeeded.
        refused: enqueues that changed nothing, as was said.
        doubtful: enqueues of which nobody said whether they were done.
        handouts: in the order of time.
        ended: when the ack of (job, claim) was sent that succeeded.
    """

    def __init__(self):
        self.confirmed = []
        self.refused = 0
        self.doubtful = 0
        self.handouts = []
        self.ended = {}
        self._is_enough = threading.Event()
        self._is_over = threading.Event()

    @contextlib.contextmanager
    def at_work(self, address, queue, *, producers=2, holders=3):
        """Let producers and holders work while the block runs; the jobs that are left then come to their ends."""
        produce = [threading.Thread(target=self._produce, args=(address, queue)) for _ in range(producers)]
        hold = [threading.Thread(target=self._hold, args=(address, queue, f"holder{n}")) for n in range(holders)]
        for thread in (*produce, *hold):
            thread.start()
        try:
            yield
            self._is_enough.set()
            for thread in produce:
                thread.join()
            with Client(address, timeout=30) as client:
                wait_for(lambda: self._all_ended(client))
        finally:
            self._is_enough.set()
            self._is_over.set()
            for thread in (*produce, *hold):
                thread.join()

    def _produce(self, address, queue):
        """Enqueue jobs of one attempt until it is over."""
        with Client(address, retries=0, timeout=30, connect_timeout=30) as client:
            while not self._is_enough.is_set():
                try:
                    self.confirmed += client.enqueue_jobs(queue, [NewJob(b"x" * 1000, attempts=ATTEMPTS)])
                except PinLaterError as error:
                    if "nothing was changed" in str(error) or isinstance(error, NoHealthyShards):
                        self.refused += 1
                    else:
                        self.doubtful += 1
                time.sleep(0.002)

    def _hold(self, address, queue, holder):
        """Take jobs and ack them, each until that succeeds, until it is over."""
        with Client(address, retries=0, timeout=30, connect_timeout=30, source=holder) as client:
            while not self._is_over.is_set():
                try:
                    jobs = client.dequeue_jobs(queue, 5, wait=1)
                except PinLaterError:
                    time.sleep(0.01)
                    continue
                now = time.monotonic()
                self.handouts += (Handout(job.descriptor, job.claim, holder, now) for job in jobs)
                for job in jobs:
                    self._end(client, queue, job)

    def _end(self, client, queue, job):
        while not self._is_over.is_set():
            sent = time.monotonic()
            try:
                client.ack(queue, [Ack(job.descriptor, job.claim)])
            except PinLaterError:
                time.sleep(0.02)
            else:
                self.ended[job.descriptor, job.claim] = sent
                return

    def _all_ended(self, client):
        """Tell whether all confirmed jobs have succeeded; False while the store is not back yet."""
        names = list(self.confirmed)
        try:
            found = [client.lookup(names[start : start + 1000]) for start in range(0, len(names), 1000)]
        except ServiceError:
            return False
        states = {name: info.state for some in found for name, info in some.items()}
        return all(states.get(name) is JobState.SUCCEEDED for name in names)

    def faults(self):
        """Return a sentence for everything that must not have been."""
        by_job = defaultdict(list)
        for handout in self.handouts:
            by_job[handout.job].append(handout)
        faults = [f"{job} was confirmed {count} times" for job, count in Counter(self.confirmed).items() if count > 1]
        phantoms = by_job.keys() - set(self.confirmed)
        if len(phantoms) > self.doubtful:
            faults.append(f"{len(phantoms)} jobs were handed out whose enqueue was not confirmed: {sorted(phantoms)}")
        for job, handouts in by_job.items():
            if len(handouts) > ATTEMPTS:
                faults.append(f"{job} has {ATTEMPTS} attempt, and was handed out {len(handouts)} times: {handouts}")
            for one, other in itertools.pairwise(handouts):
                if self.ended.get((job, one.claim), other.at + 1) > other.at:
                    faults.append(f"{job} was handed to {other.holder} while {one.holder} had it")
        return faults
