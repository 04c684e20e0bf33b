"""A store on the test bench: a clock that stands still, and verbs that are called without ``await``."""

import asyncio
import itertools

from pinlater.model.attempts import StoredAck, StoredCheckpoint
from pinlater.model.descriptor import JobDescriptor
from pinlater.model.jobs import NewJob
from pinlater.model.messages import Message, MessageKind, MessageWait
from pinlater.protocol.messages import FAILED, IN_PROGRESS, PENDING, SUCCEEDED
from pinlater.server.backends.records import WHOLE_BODY, Claim, JobFilter

START_MS = 1_700_000_000_000
LEASE_MS = 180_000
FAR_MS = START_MS + 10**11
"""Later than any test looks."""
QUEUE = "emails"
STATES = (PENDING, IN_PROGRESS, SUCCEEDED, FAILED)


class FakeClock:
    """Epoch milliseconds that pass when a test says so.

    Attributes:
        read: what to ask instead, if anything.
    """

    def __init__(self):
        self.now_ms = START_MS
        self.read = None

    def __call__(self):
        return self.now_ms if self.read is None else self.read()

    def advance(self, ms):
        self.now_ms += ms
        return self.now_ms


def new_job(
    body=b"body",
    *,
    priority=1,
    run_after_ms=None,
    attempts=2,
    status="",
    unique_key=None,
    rule=None,
    key=None,
    parent=None,
):
    return NewJob(body, priority, run_after_ms, attempts, status, unique_key, rule, key, parent)


class Bench:
    """One store of one kind; closes and opens it again, also the hard way.

    Args:
        home: where the store lives: ``open(clock)`` makes a backend in the running loop, ``lose()`` lets the
            next one find what a killed process would leave behind.
    """

    def __init__(self, home):
        self.home = home
        self.clock = FakeClock()
        self._numbers = itertools.count(1)
        self._runner = asyncio.Runner()
        self.backend = self.run(self._open())

    async def _open(self):
        return self.home.open(self.clock)

    def run(self, awaitable):
        return self._runner.run(_hold(awaitable))

    def together(self, *calls):
        """Make all the calls in one turn of the loop; return their results, exceptions included."""

        async def gather():
            return await asyncio.gather(*(call() for call in calls), return_exceptions=True)

        return self.run(gather())

    def close(self):
        self.run(self.backend.close())

    def reopen(self):
        self.close()
        self.backend = self.run(self._open())

    def crash(self):
        """Let the process die between two calls, and start another one."""
        self.home.lose()
        self.reopen()

    def end(self):
        self.close()
        self._runner.close()

    def __getattr__(self, verb):
        """Return a verb of the contract as an ordinary function."""
        method = getattr(self.backend, verb)

        def call(*arguments, **options):
            return self.run(method(*arguments, **options))

        return call

    # Short forms

    def put(self, *jobs, queue=QUEUE):
        """Enqueue; return the descriptors."""
        return self.enqueue_jobs(queue, [*jobs])

    def put_one(self, *arguments, queue=QUEUE, **options):
        return self.put(new_job(*arguments, **options), queue=queue)[0]

    def claim(self, source="worker", lease_ms=LEASE_MS):
        return Claim(f"host:9010:{START_MS}:{source}:{next(self._numbers)}", lease_ms)

    def take(self, limit=100, *, queue=QUEUE, source="worker", lease_ms=LEASE_MS):
        """Dequeue; return the jobs."""
        return self.dequeue_jobs(queue, limit, self.claim(source, lease_ms)).jobs

    def take_names(self, limit=100, **options):
        return [job.descriptor for job in self.take(limit, **options)]

    def started(self, *arguments, source="worker", lease_ms=LEASE_MS, **options):
        """Enqueue a job and claim it; return its descriptor and its claim."""
        descriptor = self.put_one(*arguments, **options)
        claim = self.claim(source, lease_ms)
        assert [job.descriptor for job in self.dequeue_jobs(QUEUE, 1, claim).jobs] == [descriptor]
        return descriptor, claim.descriptor

    def lookup_jobs(self, jobs, *, include_body=True, body_bytes=WHOLE_BODY, **options):
        return self.run(self.backend.lookup_jobs(jobs, body_bytes=body_bytes if include_body else 0, **options))

    def look(self, descriptor, *, include_body=True, **options):
        """Return the record of a job, or None."""
        job = JobDescriptor.parse(descriptor)
        return self.lookup_jobs([job], include_body=include_body, **options)[0]

    def state(self, descriptor):
        record = self.look(descriptor)
        return None if record is None else record.state

    def ack(self, *descriptors, queue=QUEUE, **options):
        return self.ack_dequeued_jobs(queue, [ack_of(name, **options) for name in descriptors], [])

    def fail(self, *descriptors, queue=QUEUE, **options):
        return self.ack_dequeued_jobs(queue, [], [ack_of(name, **options) for name in descriptors])

    def checkpoint(self, descriptor, *, queue=QUEUE, **options):
        return self.checkpoint_jobs(queue, [checkpoint_of(descriptor, **options)])

    def finished(self, *, state=SUCCEEDED, **options):
        """Bring a job to its end; return its descriptor."""
        descriptor, _ = self.started(**options)
        self.ack(descriptor) if state == SUCCEEDED else self.fail(descriptor, is_final=True)
        return descriptor

    def cancel(self, *descriptors, queue=QUEUE, status=""):
        return self.cancel_jobs(queue, [*map(JobDescriptor.parse, descriptors)], status)

    def send(self, descriptor, name="go", message_id="1", payload=b"", kind=MessageKind.EVENT):
        """Send a message; return whether the job has it."""
        return self.send_message(JobDescriptor.parse(descriptor), Message(name, message_id, payload, kind))

    def read(self, descriptor, name="go", *, after=0, limit=1000, **options):
        """Return messages of a job."""
        return self.read_messages(JobDescriptor.parse(descriptor), name, after, limit, **options)

    def sleep(self, descriptor, *waits, claim=None, until_ms=FAR_MS, queue=QUEUE, **options):
        """Give a job back until one of the waits, pairs of a name and a number, is fulfilled."""
        waits_for = [MessageWait(*wait) for wait in waits]
        return self.checkpoint(
            descriptor,
            claim=claim,
            move_to_pending=True,
            run_after_ms=until_ms,
            waits_for=waits_for,
            queue=queue,
            **options,
        )

    def asleep(self, *waits, until_ms=FAR_MS, **options):
        """Enqueue a job, claim it and let it sleep; return its descriptor."""
        descriptor, claim = self.started(**options)
        assert self.sleep(descriptor, *waits, claim=claim, until_ms=until_ms).changed == 1
        return descriptor

    def reap(self, limit=1000, *, server_age_ms=10**12, quiet_ms=LEASE_MS, asked_at=None):
        """End expired claims; by default the server has been up for long."""
        return self.reap_expired(limit, server_age_ms=server_age_ms, quiet_ms=quiet_ms, asked_at=asked_at)

    def count(self, state=PENDING, *, queue=QUEUE, is_future=None, **options):
        return self.count_jobs(queue, JobFilter(state, is_future=is_future, **options))

    def counts(self, queue=QUEUE):
        """Return how many jobs are in each state, future ones included."""
        return tuple(self.count(state, queue=queue) for state in STATES)

    def scan(
        self, state=PENDING, *, limit=100, position=None, queue=QUEUE, is_future=None, oldest_first=False, **options
    ):
        which = JobFilter(state, is_future=is_future, **options)
        return self.scan_jobs(queue, which, limit, position, oldest_first=oldest_first)

    def delete(self, state=PENDING, *, limit=1000, queue=QUEUE, priority=1, **options):
        return self.delete_jobs(queue, JobFilter(state, priority, **options), limit)

    def retry(self, *, priority=1, attempts=1, run_after_ms=None, limit=1000, queue=QUEUE):
        return self.retry_failed_jobs(queue, priority, attempts, run_after_ms, limit)


async def _hold(awaitable):
    return await awaitable


def ack_of(
    descriptor,
    *,
    claim=None,
    status="",
    retry_delay_ms=0,
    is_final=False,
    result=None,
    is_cancelled=False,
    failure=None,
    run_ms=None,
):
    job = JobDescriptor.parse(descriptor)
    return StoredAck(job, claim, status, retry_delay_ms, is_final, result, is_cancelled, failure, run_ms)


def checkpoint_of(
    descriptor,
    *,
    claim=None,
    source="worker",
    body=None,
    move_to_pending=False,
    run_after_ms=None,
    attempts=None,
    status="",
    waits_for=(),
    keeps=(),
    drops=(),
):
    changes = (body, move_to_pending, run_after_ms, attempts, status, waits_for, keeps, drops)
    return StoredCheckpoint(JobDescriptor.parse(descriptor), claim, source, *changes)
