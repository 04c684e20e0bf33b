"""Producers and consumers that work at the same time, and keep account of every job."""

import threading
import time

from pinlater import Client, JobState
from pinlater.client import Ack, NewJob
from pinlater.errors import CallError

LEASE_SECONDS = 4.0
"""Longer than anybody here holds a job, and short enough to wait for what a killed server had handed out."""

RELEASE = b"over"
"""The body of a job that ends a dequeue."""


class Crowd:
    """Threads, each with a client of its own.

    Args:
        addresses: of servers on one store; the members are spread over them. Several, joined by commas, are one.
        queue: exists.
        producers: how many of them. Each job has a key, so that an enqueue that is repeated, for its answer was lost,
            stores only those again that were done meanwhile.
        consumers: how many of them.
        jobs: how many there will be in all.
        retries: further tries of a call that fails; without any, each failure is a fault.
        wait: seconds that a dequeue waits for jobs.
        lease: seconds that a job is held for; longer than anybody here needs.
        pause: seconds between two enqueues of a producer.
    """

    def __init__(
        self, addresses, queue, *, producers, consumers, jobs, retries=20, wait=0.5, lease=LEASE_SECONDS, pause=0.0
    ):
        self.queue = queue
        self.jobs = jobs
        self.stored = set()
        self.done = {}
        self.faults = []
        self._addresses = addresses
        self._retries = retries
        self._wait, self._lease, self._pause = wait, lease, pause
        self._stored_at, self._taken_at = {}, {}
        self._held = set()
        self._is_over = threading.Event()
        self._lock = threading.Lock()
        shares = [range(number, jobs, producers) for number in range(producers)]
        members = [(self._produce, share) for share in shares] + [(self._consume, None)] * consumers
        self._threads = [
            threading.Thread(target=self._run, args=(act, addresses[at % len(addresses)], share))
            for at, (act, share) in enumerate(members)
        ]
        for thread in self._threads:
            thread.start()

    def join(self, *, spare=0, seconds=60):
        """Wait until all jobs are done; fail if something was not as it should be.

        Args:
            spare: so many jobs may have been stored a second time.
            seconds: it takes no longer.
        """
        with Client(self._addresses[0]) as client:
            deadline = time.monotonic() + seconds
            while not self.faults and not (len(self.stored) == self.jobs and self._counts(client)[:2] == (0, 0)):
                assert time.monotonic() < deadline, f"{len(self.done)} done, {self._counts(client)}"
                time.sleep(0.05)
            self._is_over.set()
            released = self._release(client, time.monotonic() + seconds)
            assert self.faults == []
            assert self._counts(client) == (0, 0, len(self.done) + released, 0)
        assert self.stored <= self.done.keys(), "a job that was stored was not done"
        assert set(self.done.values()) == {b"%d" % number for number in range(self.jobs)}
        assert len(self.done) <= self.jobs + spare

    @property
    def longest_wait(self):
        """How many seconds a job was stored before somebody had it who has done it, at most."""
        return max(self._taken_at[name] - at for name, at in self._stored_at.items())

    def _release(self, client, deadline):
        """Wait until all threads have ended, with a job for each dequeue that would wait long; return how many ran."""
        released = 0
        while waiting := [thread for thread in self._threads if thread.is_alive()]:
            assert time.monotonic() < deadline, f"{len(waiting)} have not ended"
            if self._wait > 1:
                released += len(client.enqueue_jobs(self.queue, [NewJob(RELEASE)] * len(waiting)))
            waiting[0].join(1.0)
        return released - client.delete_jobs(self.queue, JobState.PENDING)

    def _counts(self, client):
        return tuple(client.count(self.queue, state) for state in JobState)

    def _run(self, act, address, share):
        try:
            with Client(address, retries=self._retries, timeout=30.0) as client:
                act(client, share)
        except Exception as fault:
            self.faults.append(fault)

    def _produce(self, client, share):
        for start in range(0, len(share), 5):
            numbers = share[start : start + 5]
            jobs = [NewJob(b"%d" % number, priority=number % 3 + 1, unique=str(number)) for number in numbers]
            names = client.enqueue_jobs(self.queue, jobs)
            with self._lock:
                self.stored |= set(names)
                self._stored_at |= dict.fromkeys(names, time.monotonic())
            time.sleep(self._pause)

    def _consume(self, client, _):
        while not (self._is_over.is_set() or self.faults):
            try:
                jobs = client.dequeue_jobs(self.queue, 7, wait=self._wait, lease=self._lease)
            except CallError:
                if self._retries:
                    continue  # its jobs will be due again
                raise
            self._take(jobs)
            self._settle(client, jobs)

    def _take(self, jobs):
        names = {job.descriptor for job in jobs}
        with self._lock:
            if twice := names & self._held:
                raise AssertionError(f"{len(twice)} jobs were handed to two holders")
            if again := names & self.done.keys():
                raise AssertionError(f"{len(again)} jobs were handed out after their ack was answered")
            self._held |= names
            self._taken_at |= dict.fromkeys(names, time.monotonic())

    def _settle(self, client, jobs):
        if jobs:
            client.ack(self.queue, [Ack(job.descriptor, job.claim) for job in jobs])
            done = {job.descriptor: job.body for job in jobs if job.body != RELEASE}
            with self._lock:
                self._held -= done.keys()
                self.done |= done
