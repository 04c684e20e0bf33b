"""One trial: a fleet works under faults, finishes the rest, and what was seen is checked."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from benchmarks.fire.checker import Violation, latest_return, longest_wait, undelivered, violations
from benchmarks.fire.evidence import Disturbance, Ending, Evidence, read_evidence
from benchmarks.fire.faults import FAULTS_OF_MEMBERS, FAULTS_OF_ONLY_SERVER, FAULTS_OF_SERVERS, Fault
from benchmarks.fire.fleet import FleetOnFire
from benchmarks.fire.jobs import LEASE_SECONDS
from benchmarks.fire.journal import Journal, read_journals
from benchmarks.fire.queues import QUEUE_SETS, QUEUES
from benchmarks.programs import ProgramFailed
from pinlater import Client, JobState
from pinlater.client import ServerSet
from pinlater.errors import PinLaterError
from pinlater.model.descriptor import JobDescriptor

DRAIN_SECONDS = 90.0
"""Longest time after the faults without the end of a job, one that was forgotten at the last moment included."""

_LOOKUP_SIZE = 500
_WARM_JOBS = 50
_FEW_JOBS = 500
_FEWEST_FAULTS = 2
"""Minimum number of faults of servers, and of those of workers."""
_START_SECONDS = 30.0


class Plan(NamedTuple):
    """What to try.

    Attributes:
        store: kind of the store.
        seed: seed of everything random.
        seconds: for how long faults happen; longer if servers or workers have had fewer than two by then, or if
            ``jobs`` are not stored and mostly done yet.
        faults: names of the faults.
        servers: number of servers.
        shards: number of shards.
        pace: rate of the producers, as a multiple of the usual one.
        pause_seconds: longest pause between two faults.
        queues: which ones have jobs, as in ``QUEUE_SETS``.
        jobs: number of jobs after which nothing more is produced; 0 for no limit.
    """

    store: str
    seed: int
    seconds: float
    faults: Sequence[str]
    servers: int = 3
    shards: int = 2
    pace: float = 1.0
    pause_seconds: float = 3.0
    queues: str = "mixed"
    jobs: int = 0


class Outcome(NamedTuple):
    """Result of a trial.

    Attributes:
        violations: the broken guarantees.
        figures: what was measured, by name.
    """

    violations: list[Violation]
    figures: Mapping[str, float | str]


def carry_out(plan: Plan, folder: Path) -> Outcome:
    """Carry out a trial in an empty folder.

    Raises:
        ProgramFailed: something does not start, or the store does not answer at the end.
    """
    with FleetOnFire(
        folder, plan.store, plan.seed,
        servers=plan.servers, shards=plan.shards, queues=plan.queues, pace=plan.pace, jobs=plan.jobs,
    ) as fleet, _client(fleet) as client:  # fmt: skip
        for rules in map(QUEUES.__getitem__, QUEUE_SETS[plan.queues]):
            client.create_queue(rules.name)
            if rules.jobs_per_second is not None:
                client.change_queue(rules.name, jobs_per_second=rules.jobs_per_second)
        time.sleep(1.0)  # until all servers apply the rate
        for _ in range(2):
            fleet.add_consumers()
            fleet.add_worker()
        producers = fleet.start_producers()
        _await_warmth(fleet)

        def is_busy() -> bool:
            return plan.jobs > 0 and (producers.is_running or _is_much_left(client, plan))

        disturbances = _set_on_fire(fleet, plan, is_busy)
        noted = Journal(fleet.journals, "faults")
        for one in disturbances:
            noted.write("fault", at=one.begins, kind=one.kind, ends=one.ends)
        calm_at = time.monotonic()
        producers.stop()
        _drain(fleet, client)
        drained = time.monotonic() - calm_at
        for member in (*fleet.consumers, *fleet.workers):
            member.stop()
        evidence = read_evidence(read_journals(fleet.journals), disturbances, LEASE_SECONDS)
        known = {*evidence.stored, *(one.job for one in evidence.holdings)}
        evidence.endings = _endings(client, sorted(known))
    return Outcome(violations(evidence), _figures(evidence, drained))


def _client(fleet: FleetOnFire) -> Client:
    return Client(ServerSet.from_file(fleet.server_file), timeout=20.0, source="fire:trial")


def _await_warmth(fleet: FleetOnFire) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        writers = Counter(event["event"] for event in read_journals(fleet.journals))
        if writers["got"] >= _WARM_JOBS and writers["run"]:
            return
        time.sleep(0.1)
    raise ProgramFailed(f"consumers and workers did not begin to work within {_START_SECONDS:g} s")


def _is_much_left(client: Client, plan: Plan) -> bool:
    try:
        counts = [client.count(name, JobState.PENDING, future=True) for name in QUEUE_SETS[plan.queues]]
    except PinLaterError:  # during a fault
        return True
    return sum(counts) > _FEW_JOBS


def _set_on_fire(fleet: FleetOnFire, plan: Plan, is_busy: Callable[[], bool]) -> list[Disturbance]:
    """Inject faults for the time of the plan, and while the fleet is busy; return which, and when."""
    all_of_servers = FAULTS_OF_ONLY_SERVER if fleet.has_only_server else FAULTS_OF_SERVERS
    of_servers = {name: fault for name, fault in all_of_servers.items() if name in plan.faults}
    of_workers = {name: fault for name, fault in FAULTS_OF_MEMBERS.items() if name in plan.faults}
    groups = [group for group in (of_servers, of_workers) if group]
    with ThreadPoolExecutor() as pool:
        runs = [pool.submit(_inject, fleet, plan, is_busy, group, number) for number, group in enumerate(groups)]
        return sorted((one for run in runs for one in run.result()), key=lambda one: one.begins)


def _inject(
    fleet: FleetOnFire, plan: Plan, is_busy: Callable[[], bool], faults: Mapping[str, Fault], group: int
) -> list[Disturbance]:
    chance = random.Random(f"faults {plan.seed} {group}")
    deadline = time.monotonic() + plan.seconds
    done: list[Disturbance] = []
    deck: list[str] = []
    while True:
        time.sleep(chance.uniform(0.5, plan.pause_seconds))
        left = deadline - time.monotonic()
        goes_on = is_busy()
        if len(done) >= _FEWEST_FAULTS and left <= 0 and not goes_on:
            return done
        if not deck:
            deck = chance.sample(sorted(faults), len(faults))
        name, began = deck.pop(), time.monotonic()
        faults[name](fleet, chance, max(left, plan.seconds if goes_on else 4.0))
        done.append(Disturbance(name, began, time.monotonic()))


def _drain(fleet: FleetOnFire, client: Client) -> None:
    """Wait until all stored jobs have ended or are gone, or nothing more happens; the checks report what is left."""
    stored = {job for event in read_journals(fleet.journals) if event["event"] == "stored" for job in event["jobs"]}
    deadline = time.monotonic() + DRAIN_SECONDS
    while stored and time.monotonic() < deadline:
        left = {job for job, ending in _endings(client, sorted(stored)).items() if not ending.state.is_final}
        if len(left) < len(stored):
            deadline = time.monotonic() + DRAIN_SECONDS
        stored = left
        time.sleep(0.3)


def _endings(client: Client, jobs: Sequence[str]) -> dict[str, Ending]:
    found: dict[str, Ending] = {}
    for start in range(0, len(jobs), _LOOKUP_SIZE):
        for _ in range(5):
            with suppress(PinLaterError):  # a shard that has just come back
                infos = client.lookup(jobs[start : start + _LOOKUP_SIZE])
                break
            time.sleep(1.0)
        else:
            raise ProgramFailed("the store does not answer although nothing is done to it any more")
        found |= {
            job: Ending(info.state, info.attempts_allowed - info.attempts_remaining) for job, info in infos.items()
        }
    return found


def _figures(evidence: Evidence, drained_seconds: float) -> dict[str, float | str]:
    wait, job = longest_wait(evidence)
    faults = Counter(trouble.kind for trouble in evidence.disturbances)
    spent = undelivered(evidence)
    queues = {name for name, rules in QUEUES.items() if rules.job_class is not None}
    of_workers = [count for job, count in spent.items() if JobDescriptor.parse(job).queue in queues]
    return {
        "jobs stored": len(evidence.stored),
        "deliveries": len(evidence.holdings),
        "  that did not end with success": sum(not one.is_success for one in evidence.holdings),
        "jobs cancelled, deleted or retried by hand": len(evidence.removed.keys() | evidence.retried),
        "faults": ", ".join(f"{count} {kind}" for kind, count in sorted(faults.items())),
        "longest wait of a job without a key, s": round(wait, 2),
        "  which one": str(job),
        "latest return after a lease, s": round(latest_return(evidence), 2),
        "attempts spent on what nobody noted": sum(spent.values()),
        "  of jobs of workers": sum(of_workers),
        "  that consumers may have been handed": evidence.unnoted.total(),
        "  that servers may have left unanswered": evidence.unanswered.total(),
        "until all was done at the end, s": round(drained_seconds, 1),
    }
