"""What was seen of each job: when it was stored, who held it and until when for certain, how it ended."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from benchmarks.fire.queues import JobName
from pinlater import JobState


class Disturbance(NamedTuple):
    """A time in which something was killed, frozen or cut off.

    Attributes:
        kind: the fault.
        begins: when it was injected, in monotonic seconds.
        ends: when it was undone, in monotonic seconds.
    """

    kind: str
    begins: float
    ends: float

    @property
    def seconds(self) -> float:
        """Duration in seconds."""
        return self.ends - self.begins


class StoredJob(NamedTuple):
    """A job whose enqueue was answered; ``sent`` and ``answered`` in monotonic seconds."""

    name: JobName
    sent: float
    answered: float


class Holding(NamedTuple):
    """A time in which a holder held a job under a claim; times in monotonic seconds.

    Attributes:
        job: descriptor of the job.
        name: name of the job.
        holder: who held it.
        asked: when the holder asked for jobs; it was not claimed before.
        begins: when the holder received it.
        ends: when the holder let go of it; infinity if never.
        until: until when the claim certainly held, whatever happened.
        is_success: whether the job was done.
        acked: when the ack was answered, if that was while the claim certainly held.
    """

    job: str
    name: JobName
    holder: str
    asked: float
    begins: float
    ends: float
    until: float
    is_success: bool = False
    acked: float | None = None

    @property
    def is_of_dead(self) -> bool:
        """Whether the holder never let go of the job."""
        return self.ends == math.inf

    @property
    def sure_end(self) -> float:
        """Until when nobody else may hold the job."""
        return min(self.ends, self.until)


class Ending(NamedTuple):
    """What the server says about a job at the end."""

    state: JobState
    attempts_spent: int


@dataclass(slots=True)
class Evidence:
    """Everything that was seen.

    Attributes:
        stored: stored jobs by descriptor.
        holdings: all holdings, in the order in which they begin.
        endings: endings by descriptor; none for a job that does not exist.
        disturbances: the faults injected.
        unnoted: queue -> number of jobs that consumers may have been handed before they were killed without noting it.
        unanswered: queue -> number of jobs that may have been claimed for dequeues whose server died or froze before
            it answered: a consumer that does not know of its claim can neither use it nor give it back.
        removed: job -> when somebody first asked to cancel or delete it.
        retried: jobs that somebody may have retried by hand.
    """

    stored: dict[str, StoredJob] = field(default_factory=dict)
    holdings: list[Holding] = field(default_factory=list)
    endings: dict[str, Ending] = field(default_factory=dict)
    disturbances: list[Disturbance] = field(default_factory=list)
    unnoted: Counter[str] = field(default_factory=Counter)
    unanswered: Counter[str] = field(default_factory=Counter)
    removed: dict[str, float] = field(default_factory=dict)
    retried: set[str] = field(default_factory=set)

    def holdings_by_job(self) -> dict[str, list[Holding]]:
        """Return the holdings of each job, in the order in which they begin."""
        found = defaultdict(list)
        for holding in self.holdings:
            found[holding.job].append(holding)
        return found


_Place = tuple[str, str]


def read_evidence(
    events: Iterable[Mapping[str, Any]], disturbances: Sequence[Disturbance], worker_lease_seconds: float
) -> Evidence:
    """Combine the journals into evidence.

    Args:
        events: all events; those of one writer in order.
        disturbances: the faults injected.
        worker_lease_seconds: lease of ``pinlater-worker``, which renews its claims.
    """
    reader = _Reader(Evidence(disturbances=list(disturbances)), worker_lease_seconds)
    for event in events:
        reader.add(event)
    return reader.finished()


class _Reader:
    """Combines the journals into evidence, event by event.

    Args:
        evidence: the evidence to complete.
        lease_seconds: lease of the workers.
    """

    def __init__(self, evidence: Evidence, lease_seconds: float) -> None:
        self._evidence = evidence
        self._lease_seconds = lease_seconds
        self._sent: dict[_Place, float] = {}
        self._asks: dict[_Place, Mapping[str, Any]] = {}
        self._holdings: dict[_Place, Holding] = {}  # by job and claim, or run

    def add(self, event: Mapping[str, Any]) -> None:
        """Add an event, the next one of its writer."""
        match event["event"]:
            case "enqueue" | "stored":
                self._add_of_producer(event)
            case "meddle":
                self._add_meddling(event)
            case "run" | "done":
                self._add_of_worker(event)
            case _:
                self._add_of_consumer(event)

    def finished(self) -> Evidence:
        """Return the evidence, once all events are added."""
        evidence = self._evidence
        for ask in self._asks.values():  # their consumers were killed, so nobody knows what they were handed
            evidence.unnoted.update(dict.fromkeys(ask["queues"], ask["limit"]))
        evidence.holdings = sorted(self._holdings.values(), key=lambda one: one.begins)
        return evidence

    def _add_of_producer(self, event: Mapping[str, Any]) -> None:
        call = event["writer"], event["call"]
        if event["event"] == "enqueue":
            self._sent[call] = event["at"]
            return
        for job, name in event["jobs"].items():
            self._evidence.stored[job] = StoredJob(JobName.parse(name), self._sent[call], event["at"])

    def _add_meddling(self, event: Mapping[str, Any]) -> None:
        match event["action"]:
            case "cancel" | "delete":
                for job in event["jobs"]:
                    self._evidence.removed.setdefault(job, event["at"])
            case "retry":
                self._evidence.retried.update(event["jobs"])

    def _add_of_consumer(self, event: Mapping[str, Any]) -> None:
        match event["event"]:
            case "ask":
                self._asks[event["writer"], event["call"]] = event
            case "lost":
                ask = self._asks.pop((event["writer"], event["call"]))
                if event["is_doubtful"]:
                    self._evidence.unanswered.update(dict.fromkeys(ask["queues"], ask["limit"]))
            case "got":
                ask = self._asks.pop((event["writer"], event["call"]))
                asked, until = ask["at"], ask["at"] + ask["lease"]
                for job, claim, name in event["jobs"]:
                    self._holdings[job, claim] = Holding(
                        job, JobName.parse(name), event["writer"], asked, event["at"], math.inf, until
                    )
            case "end":
                place = event["job"], event["claim"]
                self._holdings[place] = self._holdings[place]._replace(ends=event["at"], is_success=event["is_success"])
            case "ended":
                place = event["job"], event["claim"]
                if event["at"] < self._holdings[place].until:
                    self._holdings[place] = self._holdings[place]._replace(acked=event["at"])

    def _add_of_worker(self, event: Mapping[str, Any]) -> None:
        at, run = event["at"], f"{event['writer']} {event['run']}"
        place = event["job"], run
        if event["event"] == "run":
            until = _sure_until(at, self._evidence.disturbances, self._lease_seconds)
            self._holdings[place] = Holding(event["job"], JobName.parse(event["name"]), run, at, at, math.inf, until)
            return
        held, acked = self._holdings[place], at + self._lease_seconds
        is_calm = event["is_success"] and held.until > acked
        self._holdings[place] = held._replace(ends=at, is_success=event["is_success"], acked=acked if is_calm else None)


def _sure_until(begins: float, disturbances: Sequence[Disturbance], lease_seconds: float) -> float:
    """Return until when a worker whose keeper renews its claims certainly holds a job that it began to run.

    A claim is renewed three times per lease. So when a disturbance begins, at least a third of the lease is left.
    """
    for trouble in sorted(disturbances, key=lambda one: one.begins):
        if trouble.ends + lease_seconds < begins:
            continue
        return begins if trouble.begins < begins else trouble.begins + lease_seconds / 3
    return math.inf
