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
from benchmarks.fire.queues import QUEUES, JobName, QueueRules
from pinlater import Client
from pinlater.client import Ack, Acks, Checkpoint, ClaimedJob, NewJob, ServerSet
from pinlater.errors import DequeueRateLimited, PinLaterError

ATTEMPTS = 1000
ROLES = ("produce", "consume")

_CALL_SECONDS = 5.0
_WAIT_SECONDS = 0.5
_PAUSE_SECONDS = 0.05
_ENDINGS = {"success": 0.88, "failure": 0.08, "give back": 0.035, "forget": 0.005}
_OTHER_QUEUES_SHARE = 0.2


@click.command()
@click.argument("role", type=click.Choice(ROLES))
@click.option("--name", required=True, help="Of the process; names its journal.")
@click.option("--servers", type=click.Path(path_type=Path), required=True, help="File with the servers.")
@click.option("--journals", type=click.Path(path_type=Path), required=True, help="Folder of the journals.")
@click.option("--seed", type=int, required=True, help="Of all that is left to chance.")
@click.option("--pace", type=float, default=1.0, help="Of producers: as a multiple of their usual rates.")
def main(  # noqa: PLR0917 - click calls it
    role: str, name: str, servers: Path, journals: Path, seed: int, pace: float
) -> None:
    """Produce or consume until SIGTERM, then finish the jobs that are held."""
    is_over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: is_over.set())
    crew = _Crew(name, servers, journals, seed, is_over)
    members: list[_Member] = []
    for rules in QUEUES.values():
        if role == "produce":
            members += [Producer(crew, rules, key, pace) for key in rules.keys or [""]]
        elif rules.job_class is None:
            members.append(Consumer(crew, rules))
    threads = [threading.Thread(target=member.run) for member in members]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


class _Crew(NamedTuple):
    """What all threads of a process share."""

    name: str
    servers: Path
    journals: Path
    seed: int
    is_over: threading.Event


class _Member(ABC):
    """One thread, with its own client and journal."""

    def __init__(self, crew: _Crew, what: str) -> None:
        name = f"{crew.name}-{what}"
        self._journal = Journal(crew.journals, name)
        self._chance = random.Random(f"{crew.seed} {name}")
        self._client = Client(
            ServerSet.from_file(crew.servers), source=f"fire:{name}:{os.getpid()}", timeout=_CALL_SECONDS
        )
        self._is_over = crew.is_over
        self._calls = 0

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

    def _work(self) -> None:
        count = self._chance.choice([1, 1, 4])
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
        time.sleep(self._chance.uniform(0, 2 * self._pause_seconds))

    def _job(self, name: JobName) -> NewJob:
        fields = {"name": str(name)} | ({"job": self._rules.job_class} if self._rules.job_class else {})
        key = self._rules.job_key(self._key)
        return NewJob(json.dumps(fields).encode(), self._chance.randint(1, 2), attempts=ATTEMPTS, key=key)


class Consumer(_Member):
    """Claims jobs of a queue, sometimes of others, too; holds each for a moment, and ends it in various ways."""

    def __init__(self, crew: _Crew, rules: QueueRules) -> None:
        super().__init__(crew, rules.name)
        self._queue = rules.name
        self._others = [other.name for other in QUEUES.values() if other.job_class is None and other is not rules]
        self._waiting: tuple[str, Acks] | None = None

    def _work(self) -> None:
        others = self._others if self._chance.random() < _OTHER_QUEUES_SHARE else []
        limit, call = self._chance.choice([1, 1, 3]), self._next_call()
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
        [ending] = self._chance.choices(list(_ENDINGS), weights=list(_ENDINGS.values()))
        if ending == "forget":
            return
        self._journal.write("end", job=job.descriptor, claim=job.claim, is_success=ending == "success")
        queue = job.descriptor.split(":")[0]
        ack = Ack(job.descriptor, job.claim, retry_delay=self._chance.choice([0.0, 0.05]))
        match ending:
            case "give back":
                self._give_back(queue, job)
            case "success" if self._waiting is None and self._chance.random() < 0.5:
                self._waiting = queue, Acks(succeeded=(ack._replace(retry_delay=0.0),))
            case "success":
                self._send(queue, (ack._replace(retry_delay=0.0),), ())
            case _:
                self._send(queue, (), (ack,))

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
