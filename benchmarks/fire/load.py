"""Producers and plain consumers, each a process that may be killed or frozen: ``python -m benchmarks.fire.load``."""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import click

from benchmarks.fire.checker import CONSUMER_LEASE
from benchmarks.fire.journal import Journal
from benchmarks.fire.meddling import Meddler
from benchmarks.fire.queues import QUEUE_SETS, QUEUES, JobName, QueueRules
from pinlater import Client
from pinlater.client import Ack, Acks, Checkpoint, ClaimedJob, NewJob, ServerSet
from pinlater.errors import DequeueRateLimited, PinLaterError

ROLES = ("produce", "consume")

_CALL_SECONDS = 5.0
_WAIT_SECONDS = 0.5
_PAUSE_SECONDS = 0.05
_GIVEN_BACK_SHARE = 0.035
_FORGOTTEN_SHARE = 0.005
_LATE_SHARE = 0.7
_OTHER_QUEUES_SHARE = 0.2


@click.command()
@click.argument("role", type=click.Choice(ROLES))
@click.option("--name", required=True, help="Of the process; names its journal.")
@click.option("--servers", type=click.Path(path_type=Path), required=True, help="File with the servers.")
@click.option("--journals", type=click.Path(path_type=Path), required=True, help="Folder of the journals.")
@click.option("--seed", type=int, required=True, help="Of all that is left to chance.")
@click.option("--queues", type=click.Choice(list(QUEUE_SETS)), required=True, help="Whose jobs.")
@click.option("--pace", type=float, default=1.0, help="Of producers: as a multiple of their usual rates.")
@click.option("--jobs", type=int, default=0, help="Of producers: how many are stored before they end.  [no limit]")
def main(  # noqa: PLR0917 - click calls it
    role: str, name: str, servers: Path, journals: Path, seed: int, queues: str, pace: float, jobs: int
) -> None:
    """Produce or consume until SIGTERM, then finish the jobs that are held."""
    is_over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: is_over.set())
    all_rules = [QUEUES[queue] for queue in QUEUE_SETS[queues]]
    crew = _Crew(name, servers, journals, seed, is_over, [rules.name for rules in all_rules if rules.job_class is None])
    members: list[_Member] = []
    for rules in all_rules:
        if role == "produce":
            members += [Producer(crew, rules, key, pace) for key in rules.keys or [""]]
        elif rules.job_class is None:
            members += [Consumer(crew, rules, number) for number in range(rules.consumers)]
    threads = [threading.Thread(target=member.run) for member in members]
    for thread in threads:
        thread.start()
    while jobs and sum(member.stored for member in members) < jobs and not is_over.wait(_PAUSE_SECONDS):
        pass
    if jobs:
        is_over.set()
    for thread in threads:
        thread.join()


class _Crew(NamedTuple):
    """What all threads of a process share; ``queues``: those that plain consumers take jobs from."""

    name: str
    servers: Path
    journals: Path
    seed: int
    is_over: threading.Event
    queues: Sequence[str]


class _Member(ABC):
    """One thread, with its own client and journal.

    Attributes:
        stored: how many jobs it has stored.
    """

    def __init__(self, crew: _Crew, what: str) -> None:
        name = f"{crew.name}-{what}"
        self._journal = Journal(crew.journals, name)
        self._chance = random.Random(f"{crew.seed} {name}")
        self._client = Client(
            ServerSet.from_file(crew.servers), source=f"fire:{name}:{os.getpid()}", timeout=_CALL_SECONDS
        )
        self._is_over = crew.is_over
        self._calls = 0
        self.stored = 0

    def _next_call(self) -> str:
        self._calls += 1
        return str(self._calls)

    def run(self) -> None:
        """Work until SIGTERM."""
        with self._client:
            while not self._is_over.is_set():
                self._work()
            self._finish()

    @abstractmethod
    def _work(self) -> None:
        """Do the next piece of work."""

    def _finish(self) -> None:  # noqa: B027 - producers have nothing left to do
        """Do what is left at the end."""


class Producer(_Member):
    """Enqueues the jobs of one key, one call after the other."""

    def __init__(self, crew: _Crew, rules: QueueRules, key: str, pace: float) -> None:
        super().__init__(crew, f"{rules.name}-{key}")
        self._rules = rules
        self._key = key
        self._pause_seconds = rules.pause_seconds / pace
        self._number = 0
        self._meddler = Meddler(rules.name, self._client, self._journal, self._chance)

    def _work(self) -> None:
        count = self._chance.choice(self._rules.batches)
        names = [JobName(self._rules.name, self._key, self._number + place) for place in range(count)]
        self._number += len(names)
        call = self._next_call()
        self._journal.write("enqueue", call=call)
        try:
            jobs = self._client.enqueue_jobs(self._rules.name, [self._job(name) for name in names])
        except PinLaterError as error:
            self._journal.write("unknown", call=call, error=repr(error))
        else:
            self._journal.write("stored", call=call, jobs=dict(zip(jobs, map(str, names), strict=True)))
            self.stored += len(jobs)
            if self._rules.is_meddled_with:
                self._meddler.meddle_with(jobs)
        time.sleep(self._chance.uniform(0, 2 * self._pause_seconds))

    def _job(self, name: JobName) -> NewJob:
        fields = {"name": str(name)} | ({"job": self._rules.job_class} if self._rules.job_class else {})
        key = self._rules.job_key(self._key)
        return NewJob(json.dumps(fields).encode(), self._chance.randint(1, 2), attempts=self._rules.attempts, key=key)


class Consumer(_Member):
    """Claims jobs of a queue, sometimes of others, too; holds each for a moment, and ends it in various ways."""

    def __init__(self, crew: _Crew, rules: QueueRules, number: int) -> None:
        super().__init__(crew, f"{rules.name}-{number}")
        self._queue = rules.name
        self._limits = rules.limits
        self._others = [queue for queue in crew.queues if queue != rules.name]
        self._waiting: tuple[str, Acks] | None = None

    def _work(self) -> None:
        others = self._others if self._chance.random() < _OTHER_QUEUES_SHARE else []
        limit, call = self._chance.choice(self._limits), self._next_call()
        queues = [self._queue, *others]
        waiting, self._waiting = self._waiting, None
        acks = None if waiting is None else waiting[1]._replace(queue=waiting[0])
        self._journal.write("ask", call=call, queues=queues, limit=limit, lease=CONSUMER_LEASE)
        try:
            jobs = self._client.dequeue_jobs(
                self._queue, limit, wait=_WAIT_SECONDS, lease=CONSUMER_LEASE, acks=acks, other_queues=others
            )
        except PinLaterError as error:
            self._journal.write(
                "lost", call=call, error=repr(error), is_doubtful=not isinstance(error, DequeueRateLimited)
            )
            if acks is not None:
                self._send(acks.queue or self._queue, acks.succeeded, acks.failed)
            time.sleep(_PAUSE_SECONDS)
            return
        bodies = [(job.descriptor, job.claim, json.loads(job.body)["name"]) for job in jobs]
        self._journal.write("got", call=call, jobs=bodies)
        if acks is not None:
            self._note_ended((*acks.succeeded, *acks.failed))
        for job in jobs:
            self._hold(job)

    def _hold(self, job: ClaimedJob) -> None:
        time.sleep(self._chance.uniform(0, 0.02))
        queue = job.descriptor.split(":")[0]
        ending = self._ending(QUEUES[queue].failing_share)
        if ending == "forget":
            return
        self._journal.write("end", job=job.descriptor, claim=job.claim, is_success=ending == "success")
        ack = Ack(job.descriptor, job.claim, retry_delay=self._chance.choice([0.0, 0.05]))
        match ending:
            case "give back":
                self._give_back(queue, job)
            case "success" if self._chance.random() < _LATE_SHARE and self._add_waiting(queue, ack):
                pass
            case "success":
                self._send(queue, (ack._replace(retry_delay=0.0),), ())
            case _:
                self._send(queue, (), (ack,))

    def _add_waiting(self, queue: str, ack: Ack) -> bool:
        """Keep a success for the next dequeue; return False if that has acks of another queue already."""
        of_queue, acks = self._waiting or (queue, Acks())
        if of_queue != queue:
            return False
        self._waiting = queue, acks._replace(succeeded=(*acks.succeeded, ack._replace(retry_delay=0.0)))
        return True

    def _ending(self, failing_share: float) -> str:
        shares = {"failure": failing_share, "give back": _GIVEN_BACK_SHARE, "forget": _FORGOTTEN_SHARE}
        shares["success"] = 1 - sum(shares.values())
        [ending] = self._chance.choices(list(shares), weights=list(shares.values()))
        return ending

    def _give_back(self, queue: str, job: ClaimedJob) -> None:
        try:
            self._client.checkpoint(queue, [Checkpoint(job.descriptor, job.claim, move_to_pending=True)])
        except PinLaterError:
            time.sleep(_PAUSE_SECONDS)  # its lease will expire

    def _send(self, queue: str, succeeded: Sequence[Ack], failed: Sequence[Ack]) -> None:
        while True:
            try:
                self._client.ack(queue, succeeded, failed)
            except PinLaterError:
                time.sleep(_PAUSE_SECONDS)
                if self._is_over.is_set():
                    return
            else:
                self._note_ended((*succeeded, *failed))
                return

    def _note_ended(self, acks: Sequence[Ack]) -> None:
        for ack in acks:
            self._journal.write("ended", job=ack.descriptor, claim=ack.claim)

    def _finish(self) -> None:
        if self._waiting is not None:
            queue, acks = self._waiting
            self._send(queue, acks.succeeded, acks.failed)


if __name__ == "__main__":
    main()
