"""Samples of waiting jobs: which key and which class most jobs of a deep queue have."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from pinlater.client.async_verbs import AsyncVerbs
from pinlater.errors import ProtocolError, QueueNotFound
from pinlater.model.body_summary import SUMMARY_BYTES, summarize
from pinlater.model.descriptor import queue_of
from pinlater.model.jobs import JobInfo
from pinlater.model.queues import QueueSettings
from pinlater.model.state import JobState
from pinlater.model.statistics import HOUR, StatisticsKind, total
from pinlater.model.workers import WorkerReport
from pinlater.triage.readings import Depth, FloodSample, Flow, KeyHold, ServerReading

MOST_SAMPLED = 5
"""Maximum number of queues to sample: the deepest ones."""

FEW_QUEUES = 20
"""Up to this many queues, jobs that wait for their key are counted in each."""

USUAL_HOURS = 4
"""Full hours that show which share of a queue's attempts each class usually has."""

_USUAL_SECONDS = 300.0
_SAMPLE = 200
_LOOKED_UP = 100
_DEEP = 100
_LONG_MS = 60_000
_DAY_MS = 24 * HOUR * 1000
_MOST_HOLDS = 20
"""Maximum number of running jobs to look up: those that have run longest of the queues in which jobs wait for a key."""

USUAL_DAYS = 7
"""Days that show how long attempts of a class usually run."""

_FEWEST_RUNS = 3
"""Fewer attempts do not show what is usual."""

_UsualShares = Mapping[str, float]
"""Class -> its share of a queue's attempts."""


class WaitingSamples(NamedTuple):
    """By queue: the most frequent key and class of its waiting jobs, and the job that most holds up its key."""

    keys: Mapping[str, FloodSample]
    classes: Mapping[str, FloodSample]
    holds: Mapping[str, KeyHold]


class WaitingSampler:
    """Samples the waiting jobs of the deepest queues.

    Args:
        client: client of the server.
    """

    def __init__(self, client: AsyncVerbs) -> None:
        self._client = client
        self._usual: dict[str, tuple[float, _UsualShares]] = {}  # queue -> good until, shares
        self._usual_runs: dict[tuple[str, str], tuple[float, float | None]] = {}  # queue, class -> good until, seconds

    async def sample(
        self,
        settings: Mapping[str, QueueSettings],
        depths: Mapping[str, Depth],
        recent: Mapping[str, Flow] | None,
        server: ServerReading | None,
        *,
        workers: Sequence[WorkerReport],
        at_ms: int,
    ) -> WaitingSamples:
        """Sample the queues with the most waiting jobs.

        Args:
            settings: the examined queues.
            depths: queues whose due jobs are counted.
            recent: flows of the last minutes; None if unknown.
            server: figures from a server's metrics; None if unavailable.
            workers: reports of the workers.
            at_ms: now, epoch milliseconds.
        """
        waiting = Counter({queue: depth.due for queue, depth in depths.items()})
        by_key = await self._waiting_for_key(settings, recent or {}, server)
        waiting.update(by_key)
        deepest = [queue for queue, number in waiting.most_common(MOST_SAMPLED) if number >= _DEEP]
        jobs = {queue: await self._jobs(queue) for queue in deepest}
        keys = {queue: sample for queue in deepest if (sample := _key_sample(jobs[queue], waiting[queue]))}
        held_up = {queue for queue, number in by_key.items() if number}
        return WaitingSamples(
            keys, await self._class_samples(jobs, waiting, at_ms), await self._holds(held_up, workers, at_ms)
        )

    async def _holds(self, queues: Collection[str], workers: Sequence[WorkerReport], at_ms: int) -> dict[str, KeyHold]:
        """Return the job of each queue that has run longest of those that others of their key wait for.

        One that has run longer than usual for its class goes before those that have not.
        """
        since_ms = {
            job.descriptor: (job.since_ms or at_ms) - (report.clock_ahead_ms or 0)
            for report in workers
            for process in report.processes
            for job in process.jobs
            if queue_of(job.descriptor) in queues
        }
        longest = [
            name for name in sorted(since_ms, key=lambda name: since_ms[name]) if at_ms - since_ms[name] >= _LONG_MS
        ]
        some = longest[:_MOST_HOLDS]
        infos = await self._client.lookup(some, include_body=True, max_body_bytes=SUMMARY_BYTES) if some else {}
        found: dict[str, KeyHold] = {}
        for name in some:
            queue, info = queue_of(name), infos.get(name)
            is_settled = queue in found and not found[queue].is_usual(at_ms)
            if is_settled or info is None or info.key is None or info.state is not JobState.IN_PROGRESS:
                continue
            waiting = await self._waiting_for(queue, info.key.text)
            if not waiting:
                continue
            job = summarize(info.body).job
            usual = await self._usual_seconds(queue, job, at_ms) if job else None
            hold = KeyHold(name, info.key.text, since_ms[name], waiting, job, usual)
            if queue not in found or hold.is_usual(at_ms) is False:
                found[queue] = hold
        return found

    async def _usual_seconds(self, queue: str, job: str, at_ms: int) -> float | None:
        """Return how long 95 % of the attempts of a class took at most within the last days; None if few are known."""
        now = time.monotonic()
        good_until, usual = self._usual_runs.get((queue, job), (now, None))
        if now < good_until:
            return usual
        try:
            read = await self._client.statistics(
                StatisticsKind.CLASS, resolution=HOUR, since_ms=at_ms - USUAL_DAYS * _DAY_MS, queues=[queue], name=job
            )
        except ProtocolError:  # an earlier version
            read = []
        run = total(read).run
        most_ms = run.quantile(0.95) if run.count >= _FEWEST_RUNS else None
        usual = None if most_ms is None else most_ms / 1000
        self._usual_runs = {key: known for key, known in self._usual_runs.items() if now < known[0]}
        self._usual_runs[queue, job] = now + _USUAL_SECONDS, usual
        return usual

    async def _waiting_for(self, queue: str, key: str) -> int:
        """Return how many jobs wait for a key, as far as one page of them shows."""
        try:
            page = await self._client.scan(queue, JobState.PENDING, key=key, limit=_SAMPLE)
        except QueueNotFound:  # deleted in the meantime
            return 0
        return sum(info.waits_for_key for info in page.jobs)

    async def _waiting_for_key(
        self, settings: Mapping[str, QueueSettings], recent: Mapping[str, Flow], server: ServerReading | None
    ) -> dict[str, int]:
        """Return how many jobs wait for their key: from metrics, and counted if queues are few or have grown."""
        told = {} if server is None else server.waiting_for_key
        found = {queue: number for queue, number in told.items() if queue in settings}
        for queue in settings if len(settings) <= FEW_QUEUES else _grown(settings, recent):
            try:
                found[queue] = await self._client.count(queue, JobState.PENDING, future=True, waiting_for_key=True)
            except QueueNotFound:  # deleted in the meantime
                found.pop(queue, None)
        return found

    async def _jobs(self, queue: str) -> list[JobInfo]:
        """Return some of the jobs that are due or wait for their key."""
        jobs: list[JobInfo] = []
        try:
            for future in (False, True):
                page = await self._client.scan(queue, JobState.PENDING, future=future, limit=_SAMPLE)
                jobs += [info for info in page.jobs if not future or info.waits_for_key]
        except QueueNotFound:
            return []
        return jobs

    async def _class_samples(
        self, jobs: Mapping[str, Sequence[JobInfo]], waiting: Mapping[str, int], at_ms: int
    ) -> dict[str, FloodSample]:
        """Return the most frequent class of sampled jobs, for queues whose usual classes are known."""
        usual = await self._usual_shares([queue for queue, some in jobs.items() if some], at_ms)
        found: dict[str, FloodSample] = {}
        for queue, shares in usual.items():
            classes = Counter(await self._classes(jobs[queue]))
            if classes:
                job, number = classes.most_common(1)[0]
                found[queue] = FloodSample(job, number, classes.total(), waiting[queue], shares.get(job, 0.0))
        return found

    async def _classes(self, jobs: Sequence[JobInfo]) -> list[str]:
        """Return the classes of jobs, as the beginnings of their bodies name them."""
        names: list[str] = []
        for start in range(0, len(jobs), _LOOKED_UP):
            some = [info.descriptor for info in jobs[start : start + _LOOKED_UP]]
            known = await self._client.lookup(some, include_body=True, max_body_bytes=SUMMARY_BYTES)
            names += [job for info in known.values() if (job := summarize(info.body).job)]
        return names

    async def _usual_shares(self, queues: Collection[str], at_ms: int) -> dict[str, _UsualShares]:
        """Return the share of each class in the full hours before, for queues with at least two classes."""
        now = time.monotonic()
        self._usual = {queue: known for queue, known in self._usual.items() if now < known[0]}
        missing = [queue for queue in queues if queue not in self._usual]
        if missing:
            for queue, shares in (await self._read_usual_shares(missing, at_ms)).items():
                self._usual[queue] = now + _USUAL_SECONDS, shares
        return {queue: shares for queue in queues if len(shares := self._usual[queue][1]) > 1}

    async def _read_usual_shares(self, queues: Collection[str], at_ms: int) -> dict[str, _UsualShares]:
        until_ms = at_ms - at_ms % (HOUR * 1000)
        since_ms = until_ms - USUAL_HOURS * HOUR * 1000
        try:
            read = await self._client.statistics(
                StatisticsKind.CLASS, resolution=HOUR, since_ms=since_ms, until_ms=until_ms, queues=queues
            )
        except ProtocolError:  # an earlier version
            read = []
        ended: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for one in read:
            ended[one.queue][one.name] += one.succeeded + one.failed
        return {
            queue: {name: number / ended[queue].total() for name, number in ended[queue].items() if number}
            for queue in queues
        }


def _grown(settings: Collection[str], recent: Mapping[str, Flow]) -> list[str]:
    """Return the queues that have grown most, if by enough jobs to make a queue deep."""
    grown = Counter({queue: round(flow.growth * flow.seconds) for queue, flow in recent.items() if queue in settings})
    return [queue for queue, number in grown.most_common(MOST_SAMPLED) if number >= _DEEP]


def _key_sample(jobs: Sequence[JobInfo], waiting: int) -> FloodSample | None:
    """Return the most frequent key of some pending jobs; None if they have none."""
    keys = Counter(info.key.text for info in jobs if info.key is not None)
    return FloodSample(*keys.most_common(1)[0], len(jobs), waiting) if keys else None
