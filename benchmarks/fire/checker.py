"""Checks for violations, as sentences: jobs lost or done twice, two holders of one job, broken order and limits."""

from __future__ import annotations

import bisect
import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from benchmarks.fire.evidence import Evidence, Holding
from benchmarks.fire.queues import QUEUES, JobName, QueueRules
from pinlater import JobState

CONSUMER_LEASE = 3.0
"""Lease of plain consumers in seconds; they do not renew their claims."""

FAULTS_OF_WORKERS = frozenset({"kill_worker", "freeze_worker"})

STORE_AWAY = frozenset({"kill_store", "freeze_store"})

BURST_SECONDS = 1.0
"""For how long a queue with a rate accumulates tokens, as documented."""

SPARE_SECONDS = 0.1
"""Allowance in seconds, because each process keeps tokens for a fiftieth of a second."""

CLOCK_SECONDS = 0.02
"""By how much the servers of a store may differ about its time."""


class Violation(NamedTuple):
    """A broken guarantee.

    Attributes:
        kind: what was broken.
        text: a sentence that names the job or key, and the moment.
    """

    kind: str
    text: str


def violations(evidence: Evidence, queues: Mapping[str, QueueRules] = QUEUES) -> list[Violation]:
    """Return all violations."""
    return [Violation(kind, text) for kind, check in _CHECKS.items() for text in check(evidence, queues)]


def _lost(evidence: Evidence, queues: Mapping[str, QueueRules]) -> Iterator[str]:
    """Find jobs that have not succeeded, unless somebody removed them, or they have used up their attempts."""
    done = {holding.job for holding in evidence.holdings if holding.is_success}
    for job, stored in evidence.stored.items():
        ending, is_removed = evidence.endings.get(job), job in evidence.removed
        if ending is None:
            if not is_removed:
                yield f"{job} ({stored.name}) was stored at {stored.answered:.3f}, and is not there"
        elif ending.state is JobState.SUCCEEDED:
            if job not in done:
                yield f"{job} ({stored.name}) has succeeded, and nobody has done it"
        elif ending.state is JobState.FAILED and (is_removed or job in evidence.retried):
            continue
        elif ending.state is not JobState.FAILED or ending.attempts_spent < queues[stored.name.queue].attempts:
            yield (
                f"{job} ({stored.name}) was stored at {stored.answered:.3f}, and is {ending.state.name} "
                f"after {ending.attempts_spent} attempts"
            )


def _stored_twice(evidence: Evidence, _queues: Mapping[str, QueueRules]) -> Iterator[str]:
    """Find jobs stored twice: a repeated call has its idempotency key, so that needs the key's shard to be down."""
    if any(trouble.kind in {*STORE_AWAY, "cut_server"} for trouble in evidence.disturbances):
        return
    by_name = defaultdict(set)
    for job, stored in evidence.stored.items():
        by_name[stored.name].add(job)
    for holding in evidence.holdings:
        by_name[holding.name].add(holding.job)
    for name, jobs in by_name.items():
        if len(jobs) > 1:
            yield f"{name} is there {len(jobs)} times: {', '.join(sorted(jobs))}"


def _held_by_two(evidence: Evidence, _queues: Mapping[str, QueueRules]) -> Iterator[str]:
    for job, holdings in evidence.holdings_by_job().items():
        for one, other in itertools.combinations(holdings, 2):
            if other.begins < one.sure_end and one.begins < other.sure_end:
                yield (
                    f"{job} was held by {one.holder} from {one.begins:.3f} until {one.sure_end:.3f}, "
                    f"and by {other.holder} from {other.begins:.3f}"
                )


def _done_again(evidence: Evidence, _queues: Mapping[str, QueueRules]) -> Iterator[str]:
    for job, holdings in evidence.holdings_by_job().items():
        done = min((one.acked for one in holdings if one.is_success and one.acked is not None), default=math.inf)
        for holding in holdings:
            if holding.asked > done:
                yield f"{job} was handed to {holding.holder} at {holding.begins:.3f}, and was done at {done:.3f}"


def _out_of_order(evidence: Evidence, queues: Mapping[str, QueueRules]) -> Iterator[str]:
    """Find jobs of an ordered key that began before all jobs that were enqueued earlier had ended.

    A job that is retried by hand gets a new place in the order.
    """
    ended_at = _earliest_ends(evidence)
    of_key: dict[tuple[str, str], list[tuple[int, float]]] = defaultdict(list)
    for job, stored in evidence.stored.items():
        of_key[stored.name.queue, stored.name.key].append((stored.name.number, ended_at.get(job, math.inf)))
    for (queue, key), holdings in _by_key(evidence).items():
        if not queues[queue].is_ordered:
            continue
        in_order = sorted(of_key[queue, key])
        numbers = [number for number, _ in in_order]
        latest = list(itertools.accumulate((at for _, at in in_order), max))
        for one in holdings:
            before = bisect.bisect_left(numbers, one.name.number)
            if one.job not in evidence.stored or one.job in evidence.retried or not before:
                continue
            if one.begins < latest[before - 1]:
                yield (
                    f"{one.name} was handed to {one.holder} at {one.begins:.3f}, "
                    f"before all that were enqueued earlier had been done, at {latest[before - 1]:.3f}"
                )


def _earliest_ends(evidence: Evidence) -> dict[str, float]:
    """Return when each job may have ended at the earliest."""
    ended: dict[str, float] = {}
    for job, holdings in evidence.holdings_by_job().items():
        ending = evidence.endings.get(job)
        if ending is not None and ending.state is JobState.FAILED:
            ended[job] = max(one.sure_end for one in holdings)
        for one in holdings:
            if one.is_success:
                ended[job] = min(one.ends, ended.get(job, math.inf))
    for job, at in evidence.removed.items():
        ended[job] = min(at, ended.get(job, math.inf))
    return ended | dict.fromkeys(evidence.retried, -math.inf)


def _over_limit(evidence: Evidence, queues: Mapping[str, QueueRules]) -> Iterator[str]:
    for (queue, key), holdings in _by_key(evidence).items():
        most = queues[queue].most_running
        if most is None:
            continue
        held = [one for one in holdings if one.begins < one.sure_end]
        changes = sorted([(one.begins, 1) for one in held] + [(one.sure_end, -1) for one in held])
        counts = itertools.accumulate(step for _, step in changes)
        for (at, step), running in zip(changes, counts, strict=True):
            if running > most and step > 0:
                yield f"{running} jobs of {queue} {key} were held at once, at {at:.3f}; its limit is {most}"


def _over_rate(evidence: Evidence, queues: Mapping[str, QueueRules]) -> Iterator[str]:
    """Find rates of queues exceeded.

    A bucket that nobody could use during an outage is full when the next outage makes it the only one.
    """
    outages = [trouble for trouble in evidence.disturbances if trouble.kind in {*STORE_AWAY, "cut_server"}]

    def saved_seconds(begin: float, end: float) -> float:
        known = sum(one.begins < end and one.ends > begin for one in outages)
        return BURST_SECONDS * max(known, 1) + SPARE_SECONDS

    for rules in queues.values():
        if rules.jobs_per_second is not None:
            of_queue = [one for one in evidence.holdings if one.name.queue == rules.name]
            yield from _too_many(rules.name, of_queue, rules.jobs_per_second, saved_seconds)


def _over_rate_of_key(evidence: Evidence, queues: Mapping[str, QueueRules]) -> Iterator[str]:
    """Find rates of keys exceeded: starts are spread evenly, and nothing is saved up."""
    for (queue, key), holdings in _by_key(evidence).items():
        rate = queues[queue].starts_per_second
        if rate is not None:
            yield from _too_many(f"{queue} {key}", holdings, rate, lambda _begin, _end: CLOCK_SECONDS)


def _too_many(
    what: str, holdings: Sequence[Holding], rate: float, saved_seconds: Callable[[float, float], float]
) -> Iterator[str]:
    """Find windows with too many starts, counting the jobs certainly claimed in one: asked for and received in it."""
    received: list[float] = []
    for begin, same in itertools.groupby(sorted(holdings, key=lambda one: -one.asked), lambda one: one.asked):
        for one in same:
            bisect.insort(received, one.begins)
        for count, end in enumerate(received, 1):
            if count > 1 + rate * (end - begin + saved_seconds(begin, end)):
                yield f"{count} jobs of {what} were handed out from {begin:.3f} to {end:.3f}"
                break


def undelivered(evidence: Evidence) -> dict[str, int]:
    """Return the jobs that spent more attempts than they had deliveries without success, and how many more."""
    holdings = evidence.holdings_by_job()
    found = {}
    for job, ending in evidence.endings.items():
        delivered = max(len(holdings.get(job, ())) - (ending.state is JobState.SUCCEEDED), 0)
        if ending.attempts_spent > delivered:
            found[job] = ending.attempts_spent - delivered
    return found


def _spent_for_nothing(evidence: Evidence, queues: Mapping[str, QueueRules]) -> Iterator[str]:
    """Find attempts spent on jobs that were never delivered, except those that may be lost unseen: see ``Evidence``.

    A worker that is killed or frozen takes the jobs it has fetched with it. A plain consumer whose answer is lost
    cannot give its claims back; a worker can, since each of its dequeues has its own source.
    """
    names = {job: stored.name for job, stored in evidence.stored.items()}
    names |= {one.job: one.name for one in evidence.holdings}
    silent = [trouble for trouble in evidence.disturbances if trouble.kind in {"freeze_store", "cut_server"}]
    if any(trouble.seconds > CONSUMER_LEASE for trouble in silent):
        return  # nobody could renew, end or give back jobs claimed just before
    are_workers_safe = not any(trouble.kind in FAULTS_OF_WORKERS for trouble in evidence.disturbances)
    spent: dict[str, list[str]] = defaultdict(list)
    for job, count in undelivered(evidence).items():
        if queues[names[job].queue].job_class is None or are_workers_safe:
            spent[names[job].queue] += [f"{job} ({names[job]})"] * count
    for queue, jobs in spent.items():
        unknown = evidence.unnoted[queue] + evidence.unanswered[queue]
        if len(jobs) > unknown:
            yield (
                f"{len(jobs)} attempts in {queue} were spent on what was never delivered, {unknown} of them at most "
                f"because nobody could know: {', '.join(jobs)}"
            )


def _by_key(evidence: Evidence) -> dict[tuple[str, str], Sequence[Holding]]:
    found: dict[tuple[str, str], list[Holding]] = defaultdict(list)
    for holding in evidence.holdings:
        if holding.name.key:
            found[holding.name.queue, holding.name.key].append(holding)
    return dict(found)


_CHECKS: dict[str, Callable[[Evidence, Mapping[str, QueueRules]], Iterator[str]]] = {
    "lost": _lost,
    "stored twice": _stored_twice,
    "held by two": _held_by_two,
    "done again": _done_again,
    "out of order": _out_of_order,
    "over the limit": _over_limit,
    "over the rate": _over_rate,
    "over the rate of a key": _over_rate_of_key,
    "attempt spent for nothing": _spent_for_nothing,
}


def longest_wait(evidence: Evidence) -> tuple[float, JobName | None]:
    """Return the longest wait of a job without a key until it was handed out, and which job that was.

    Such a job waits only for servers and workers. Time while the store was down does not count.
    """
    first: dict[str, float] = {}
    for holding in evidence.holdings:
        first.setdefault(holding.job, holding.begins)
    away = [trouble for trouble in evidence.disturbances if trouble.kind in STORE_AWAY]
    worst, which = 0.0, None
    for job, stored in evidence.stored.items():
        if job not in first or stored.name.key or QUEUES[stored.name.queue].jobs_per_second is not None:
            continue
        since = stored.answered
        for trouble in away:
            if since < trouble.ends and first[job] > trouble.begins:
                since = max(since, trouble.ends)
        if first[job] - since > worst:
            worst, which = first[job] - since, stored.name
    return worst, which


def latest_return(evidence: Evidence) -> float:
    """Return the longest time, in seconds, from the end of a dead consumer's lease until its job was handed out again.

    Jobs with keys and those of queues with a rate do not count, since they wait for others.
    """
    latest = 0.0
    away = [trouble for trouble in evidence.disturbances if trouble.kind in STORE_AWAY]
    for holdings in evidence.holdings_by_job().values():
        for one, other in itertools.pairwise(holdings):
            is_store_away = any(trouble.begins < other.begins and trouble.ends > one.until for trouble in away)
            rules = QUEUES[one.name.queue]
            is_alone = not rules.keys and rules.jobs_per_second is None and rules.job_class is None
            if one.is_of_dead and is_alone and not is_store_away:
                latest = max(latest, other.begins - one.until)
    return latest
