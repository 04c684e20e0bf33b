"""A real server in the test's process, on a movable clock, and a worker in the test's thread."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from pinlater.client.client import Client
from pinlater.client.tls import TlsFiles
from pinlater.jobs.follow_ups import KEPT_MS
from pinlater.jobs.job import Job, check_class
from pinlater.model.attempts import Ack, Checkpoint, ClaimedJob
from pinlater.model.class_name import name_in
from pinlater.model.descriptor import queue_of
from pinlater.protocol.internal_calls import with_stale_claims
from pinlater.protocol.messages import PinLaterJob
from pinlater.server.config.settings import Settings
from pinlater.testing.attempts import MOST_RUNS, Attempts, Ending, Outcome
from pinlater.testing.clock import MovableClock
from pinlater.testing.loop_thread import LoopThread
from pinlater.testing.server_parts import ServerParts
from pinlater.worker.processes.periodic_scheduler import FirstPeriodicJobs


class LocalServer:
    """A server on a free port of this machine; the pytest fixture ``pinlater_server`` is one.

    ::

        def test_the_reminder_comes_after_a_day(pinlater_server):
            client = pinlater_server.client(SendReminder)
            client.enqueue(SendReminder(user_id=42), delay=24 * 3600)
            assert pinlater_server.run_worker(SendReminder) == []
            pinlater_server.advance(24 * 3600)
            [outcome] = pinlater_server.run_worker(SendReminder)
            assert outcome.ending == "succeeded"

    It is a production server except for its clock, which goes on by itself, too, and moves forward in ``advance``.
    Leases expire, and finished jobs are deleted, only in ``advance``.

    Attributes:
        address: ``127.0.0.1:<port>``.

    Args:
        folder: folder for its store.

    Raises:
        ConfigError: the folder cannot be used.
    """

    def __init__(self, folder: str | Path) -> None:
        self._clock = MovableClock()
        with contextlib.ExitStack() as stack:
            self._loop = stack.enter_context(LoopThread("pinlater-server"))
            settings = Settings(data_dir=Path(folder), sqlite_synchronous="NORMAL", thrift_port=0)
            self._parts = self._loop.run(ServerParts.start(settings, self._clock.now_ms))
            stack.callback(lambda: self._loop.run(self._parts.stop()))
            self._stack = stack.pop_all()
        self.address = self._parts.address

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop the server, and close the clients that ``client`` returned."""
        self._stack.close()

    @property
    def now(self) -> datetime:
        """The current time of the server's clock, in UTC."""
        return datetime.fromtimestamp(self._clock.now_seconds(), UTC)

    def client(self, *kinds: type[Job]) -> _ClientInTime:
        """Create the queues of ``kinds`` if needed, and return a client of this server.

        Its delays count from the server's time, those of other clients from real time.
        """
        for kind in kinds:
            check_class(kind)
        client = self._stack.enter_context(_ClientInTime(self.address, self._clock))
        for queue in sorted({kind.job_options.queue for kind in kinds}):
            client.create_queue(queue)
        return client

    def advance(self, seconds: float) -> None:
        """Move the server's clock forward: jobs become due, leases expire, old finished jobs are deleted.

        Raises:
            ValueError: ``seconds`` is negative.
        """
        self._clock.advance(seconds)
        self._loop.run(self._parts.catch_up())

    def run_worker(
        self,
        *kinds: type[Job],
        queues: Sequence[str] | None = None,
        until_empty: bool = True,
        most_runs: int = MOST_RUNS,
    ) -> list[Outcome]:
        """Run all due jobs in this thread, one after another; return how each attempt ended.

        Jobs are dequeued, acked and saved by real calls. Retries with a delay and sleeping jobs are due only after
        ``advance``. Periodic jobs are enqueued first, as by a worker, and run when ``advance`` reaches their next tick.

        Args:
            kinds: job classes that the worker knows.
            queues: queues that it serves; None: those of ``kinds``.
            until_empty: whether to run until no job is due; otherwise, run one attempt.
            most_runs: maximum number of attempts; more count as an endless loop.

        Raises:
            ConfigError: two classes share a name.
            ValueError: neither a class nor a queue is given.
        """
        if not kinds and not queues:
            raise ValueError("run_worker() takes the classes of the jobs to run: run_worker(SendReminder)")
        client = self.client(*kinds)
        outcomes: list[Outcome] = []
        with Attempts(kinds, client, now=self._clock.now_seconds) as attempts:
            first, *others = queues or attempts.codec.queues
            client.enqueue_periodic(FirstPeriodicJobs(attempts.codec.kinds, (first, *others)))
            while claimed := client.dequeue_jobs(first, 1, other_queues=others):
                outcomes.append(attempts.run(claimed[0]))
                _report(client, claimed[0], outcomes[-1])
                if not until_empty:
                    break
                assert len(outcomes) < most_runs, f"{most_runs} attempts were run and it does not end; see most_runs"
        return outcomes


class _ClientInTime(Client):
    """A client whose delays follow the movable clock of the server; it makes the calls of running jobs, too."""

    def __init__(self, address: str, clock: MovableClock) -> None:
        super().__init__(address, tls=TlsFiles())
        self._clock = clock

    def _now(self) -> float:
        return self._clock.now_seconds()

    def enqueue_once(self, queue: str, jobs: list[PinLaterJob], key: bytes) -> list[str]:
        """Enqueue follow-up jobs, once for each key."""
        return self._execute(self._calls.enqueue_once(queue, jobs, key, is_repeat=False, keep_result_ms=KEPT_MS))

    def save(self, claimed: ClaimedJob, body: bytes, attempts: int | None) -> None:
        """Save the body of a running job; see ``ServerCalls``."""
        saved = Checkpoint(claimed.descriptor, claimed.claim, body, attempts=attempts)
        self._execute(with_stale_claims(self._calls.checkpoint(queue_of(claimed.descriptor), [saved])))

    def is_cancelled(self, claimed: ClaimedJob) -> bool:
        """Return whether a running job was cancelled."""
        info = self.lookup([claimed.descriptor]).get(claimed.descriptor)
        return info is not None and info.is_cancelled

    def enqueue_periodic(self, periodic_jobs: FirstPeriodicJobs) -> None:
        """Enqueue periodic jobs by the server's clock."""
        for queue, jobs in periodic_jobs.by_queue(self._clock.now_ms()).items():
            self._execute(self._calls.enqueue_structs(queue, jobs))


def _report(client: Client, job: ClaimedJob, outcome: Outcome) -> None:
    """Report the outcome of an attempt to the server, as a worker would."""
    queue, ending = queue_of(job.descriptor), outcome.ending
    if ending is Ending.LOST:
        return
    if outcome.next_attempts is not None:
        again = Checkpoint(
            job.descriptor,
            job.claim,
            outcome.body,
            move_to_pending=True,
            run_after_ms=outcome.run_after_ms,
            attempts=outcome.next_attempts,
            status=outcome.status,
        )
        client.checkpoint(queue, [again])
    elif ending is Ending.SUCCEEDED:
        client.ack(queue, succeeded=[Ack(job.descriptor, job.claim, result=outcome.result_bytes)])
    elif ending is Ending.INTERRUPTED:
        run_after_ms = job.run_after_ms if outcome.run_after_ms is None else outcome.run_after_ms
        told = outcome.body, True, run_after_ms, None, outcome.status or None
        client.checkpoint(queue, [Checkpoint(job.descriptor, job.claim, *told, outcome.waits_for)])
    else:
        is_final = ending is Ending.DISCARDED
        name = name_in(job.body) or ""
        ack = Ack(job.descriptor, job.claim, outcome.status, outcome.retry_delay, final=is_final, job=name)
        client.ack(queue, failed=[ack])
