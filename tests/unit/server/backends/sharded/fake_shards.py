"""Shards in memory, as much of them as a fleet can tell from real ones."""

import asyncio
import itertools

from pinlater.errors import QueueNotFound
from pinlater.model.attempts import DequeuedJob
from pinlater.model.descriptor import JobDescriptor
from pinlater.model.jobs import JobRecord, Position, RecordPage
from pinlater.model.queues import QueueSettings
from pinlater.server.backends.records import Cancelled, Collected, Dequeued, Expired, KeptReport, Settled
from pinlater.server.backends.sharded import CallResult, DuePriorities, ShardClock, ShardedStore, ShardSpec
from pinlater.server.backends.token_bucket import Tokens

ADDRESS = ("db1", 3306)


class MemoryShard:
    """Keeps jobs in lists. ``error`` is raised by every verb until it is taken away.

    ``loses`` is raised by changes with an idempotency key after they are done, until it is taken away.
    """

    def __init__(self, spec, log=None):
        self.name = spec.name
        self.place = spec.endpoint
        self.error = None
        self.loses = None
        self.failed = 3
        self.results = {}
        self.is_closed = False
        self.waiting = 0
        self.connections = 1
        self.ahead_ms = 0.0
        self.clock = ShardClock()
        self.asked = [] if log is None else log
        self.gate = None
        self.running = 0
        self.tokens = 0
        self.locks = {}
        self._numbers = itertools.count(1)
        self.settings = {}
        self.listeners = []
        self.reports_by_worker = {}
        self.statistics = []
        self._jobs = {}
        self._number = 0

    async def _called(self, verb, queue=None):
        self.asked.append((self.name, verb))
        if self.gate is not None:
            await self.gate.wait()
        if self.error is not None:
            raise self.error
        if queue is not None and queue not in self._jobs:
            raise QueueNotFound(f"there is no queue {queue!r}")
        return self._jobs.get(queue, [])

    async def ping(self, *, commits=False):
        await self._called("ping")

    async def read_clock(self):
        await self._called("clock")
        return self.ahead_ms

    async def create_queue(self, queue):
        await self._called("create")
        self._jobs.setdefault(queue, [])

    async def delete_queue(self, queue):
        await self._called("delete")
        self._jobs.pop(queue, None)

    async def queue_names(self):
        await self._called("names")
        return set(self._jobs)

    async def call_result(self, queue, key):
        await self._called("result", queue)
        return self.results.get(key)

    def _kept(self, once, result):
        if once is not None:
            self.results[once.value] = result
            if self.loses is not None:
                raise self.loses

    async def enqueue_jobs(self, queue, jobs, *, once=None):
        kept = await self._called("enqueue", queue)
        if once is not None and once.value in self.results:
            return self.results[once.value].names(f"{queue}:s{self.name}:p", [job.priority for job in jobs])
        first, names = self._number + 1, []
        for job in jobs:
            self._number += 1
            names.append(f"{queue}:s{self.name}:p{job.priority}:{self._number}")
            kept.append(JobRecord(names[-1], 0, 1, 1, "", 0, job.run_after_ms or 0, 0, None, job.body))
        self._kept(once, CallResult(first))
        return names

    async def import_jobs(self, queue, jobs, *, once=None):
        kept = await self._called("import", queue)
        self._number += len(jobs)
        numbers = range(self._number - len(jobs) + 1, self._number + 1)
        names = [f"{queue}:s{self.name}:p1:{number}" for number in numbers]
        kept += [job._replace(descriptor=name) for job, name in zip(jobs, names, strict=True)]
        return names

    async def dequeue_jobs(self, queue, limit, claim, *, max_bytes, want_next_due=False, max_running=None, levels=None):
        all_kept = await self._called("dequeue", queue)
        kept = sorted((job for job in all_kept if _priority(job) <= (levels or 127)), key=_priority)
        free = limit if max_running is None else max(max_running - self.running, 0)
        is_held = free < min(limit, len(kept))
        limit = min(limit, free)
        taken = [DequeuedJob(job.descriptor, job.body, 1, 1, 0, 0) for job in kept[:limit]]
        for job in kept[:limit]:
            all_kept.remove(job)
        self.running += len(taken)
        has_more = len(kept) > len(taken)
        return Dequeued(taken, self.next_due_ms if want_next_due else None, has_more and not is_held, is_held)

    next_due_ms = None

    async def due_priorities(self, queues):
        await self._called("due_priorities", *queues[:1])
        return {queue: self._due(self._jobs[queue]) for queue in queues if queue in self._jobs}

    def _due(self, kept):
        first_ms = 0 if kept else self.next_due_ms
        return DuePriorities(sorted({_priority(job) for job in kept}), self.next_due_ms, first_ms)

    async def meet(self, me, keep_ms):
        await self._called("meet")
        self.listeners.append(me)
        return [listener for listener in self.listeners if listener != me]

    async def first_due(self, queues):
        await self._called("first due")
        return {queue: 0 if self._jobs[queue] else None for queue in queues if queue in self._jobs}

    async def lock_queue(self, queue, milliseconds):
        await self._called("lock queue", queue)
        if queue in self.locks:
            return None
        self.locks[queue] = next(self._numbers)
        return self.locks[queue]

    async def unlock_queue(self, queue, token):
        await self._called("unlock queue", queue)
        if self.locks.get(queue) == token:
            del self.locks[queue]

    async def peek_jobs(self, queue, limit, *, max_bytes):
        kept = sorted(await self._called("peek", queue), key=_priority)
        return [DequeuedJob(job.descriptor, job.body, 1, 1, 0, 0) for job in kept[:limit]]

    async def ack_dequeued_jobs(self, queue, succeeded, failed):
        await self._called("ack", queue)
        return Settled(len(succeeded), len(failed), len(failed) * 100 or None)

    async def checkpoint_jobs(self, queue, checkpoints):
        await self._called("checkpoint", queue)
        return Settled(len(checkpoints), 0, None)

    async def cancel_jobs(self, queue, jobs, status):
        await self._called("cancel", queue)
        return Cancelled(tuple(jobs), (), len(jobs))

    async def release_claims(self, queue, source):
        await self._called("release", queue)
        return 2

    async def lookup_jobs(self, jobs, *, body_bytes=0, include_result=False):
        await self._called("lookup")
        known = {job.descriptor: job for kept in self._jobs.values() for job in kept}
        return [known.get(str(job)) for job in jobs]

    async def count_jobs(self, queue, which):
        return len(await self._called("count", queue))

    async def count_running(self, queue):
        await self._called("count running", queue)
        return self.running

    async def queue_settings(self):
        await self._called("settings")
        return {queue: self.settings.get(queue, QueueSettings()) for queue in self._jobs}

    async def settings_of_queue(self, queue):
        await self._called("settings of queue")
        return self.settings.get(queue, QueueSettings()) if queue in self._jobs else None

    async def change_queue_settings(self, queue, change):
        await self._called("change", queue)
        self.settings[queue] = change.applied_to(self.settings.get(queue, QueueSettings()))

    async def acquire_tokens(self, queue, rate, wanted):
        await self._called("take_tokens", queue)
        taken = min(wanted, self.tokens)
        self.tokens -= taken
        return Tokens(taken, 0)

    async def scan_jobs(self, queue, which, limit, position, *, oldest_first=False):
        assert not oldest_first
        kept = await self._called("scan", queue)
        ranked = sorted(((job.run_after_ms, JobDescriptor.parse(job.descriptor).local_id), job) for job in kept)[::-1]
        behind = [entry for entry in ranked if position is None or entry[0] < position[:2]]
        last = Position(*behind[limit - 1][0]) if len(behind) > limit else None
        return RecordPage([job for _, job in behind[:limit]], last)

    async def retry_failed_jobs(self, queue, priority, attempts, run_after_ms, limit, *, once=None):
        await self._called("retry", queue)
        before = 0 if once is None or once.value not in self.results else self.results[once.value].number
        moved = min(limit - before, self.failed)
        self.failed -= 0 if once is None else moved
        self._kept(once, CallResult(before + moved))
        return before + moved

    async def delete_jobs(self, queue, which, limit, *, once=None):
        kept = await self._called("delete jobs", queue)
        gone = kept[:limit]
        del kept[:limit]
        return len(gone)

    async def retry_these_jobs(self, queue, jobs, attempts, run_after_ms, *, once=None):
        await self._called("retry these", queue)
        return len(jobs)

    async def schedule_jobs(self, queue, jobs, run_after_ms=None, *, once=None):
        await self._called("schedule", queue)
        return len(jobs)

    async def delete_these_jobs(self, queue, jobs, state, *, once=None):
        await self._called("delete these", queue)
        return len(jobs)

    async def forget_results(self, limit):
        await self._called("forget results")
        return 1

    async def add_statistics(self, entries):
        await self._called("add statistics")
        self.statistics.extend(entries)

    async def read_statistics(self, which, limit):
        await self._called("read statistics")
        return self.statistics[:limit]

    async def forget_statistics(self, limit):
        await self._called("forget statistics")
        return 1

    async def reap_expired(self, limit, *, server_age_ms, quiet_ms, asked_at=None):
        self.server_age_ms = server_age_ms
        await self._called("reap")
        return [Expired(queue, 1, 2) for queue in self._jobs]

    async def collect_finished(self, succeeded_ttl_ms, failed_ttl_ms, limit):
        await self._called("collect")
        return [Collected(queue, 3, 0) for queue in self._jobs]

    async def store_report(self, worker_id, report, keep_ms):
        await self._called("keep report")
        self.reports_by_worker.pop(worker_id, None)
        if keep_ms:
            self.reports_by_worker[worker_id] = KeptReport(worker_id, report, 1000 + self.ahead_ms)

    async def reports(self, max_bytes):
        await self._called("reports")
        return list(self.reports_by_worker.values())

    async def close(self):
        self.is_closed = True


def _priority(job):
    return JobDescriptor.parse(job.descriptor).priority


class FleetBench:
    """A fleet of memory shards, with its verbs called without ``await``.

    Attributes:
        shards: by name, those that were made last.
        asked: (shard, verb) of every call.
        told: (shard, seconds, whether it was answered) of every call.
        now_ms: what the clock of the store shows.
    """

    now_ms = 1_000_000

    def __init__(self, *specs):
        self.shards = {}
        self.asked = []
        self.told = []
        self._runner = asyncio.Runner()
        self.fleet = self.run(self._open())
        self.update(*(specs or specs_of("1", "2", "3")))

    @property
    def unhealthy_shards(self):
        return self.fleet.unhealthy_shards

    async def _open(self):
        def on_call(name, seconds, *, is_answered):
            self.told.append((name, seconds, is_answered))

        return ShardedStore("memory", self._make, now_ms=lambda: self.now_ms, on_call=on_call)

    def _make(self, spec):
        self.shards[spec.name] = MemoryShard(spec, self.asked)
        return self.shards[spec.name]

    def run(self, awaitable):
        return self._runner.run(awaitable)

    def update(self, *specs):
        async def update():
            self.fleet.update(specs)

        self.run(update())

    def end(self):
        self.run(self.fleet.close())
        self._runner.close()

    def asked_for(self, verb):
        """Return the shards that were asked for something, in order."""
        return [shard for shard, asked in self.asked if asked == verb]

    def wait_until(self, condition):
        async def wait():
            async with asyncio.timeout(30):
                while not condition():
                    await asyncio.sleep(0.01)

        self.run(wait())

    def __getattr__(self, verb):
        method = getattr(self.fleet, verb)
        return lambda *arguments, **options: self.run(method(*arguments, **options))


def specs_of(*names, dequeue_only=()):
    return tuple(ShardSpec(name, ADDRESS, name in dequeue_only) for name in names)
