"""Offer jobs that no dequeue waits for here to other servers, one after the other, until one has a dequeue for them.

A server that is notified of a job wakes a dequeue for it; if all were notified, all but one would do so in vain. So one
server is asked at a time, and answers how many of the jobs it has woken dequeues for. If it does not answer within some
milliseconds, it is dead or hangs; then the remaining servers are all notified, as they are of jobs that fall due later.

When a job falls due, every server that knows of it would wake a dequeue. For each queue and due time, a hash puts the
servers in an order. Each asks those before it whether they see to the job, and wakes its own dequeue only if none does.

No message has to arrive: if one is lost, a dequeue asks the store in vain, or a poll finds the job.
"""

from __future__ import annotations

import asyncio
import itertools
import math
import random
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from typing import NamedTuple, Protocol

from pinlater.server.backends.job_notifications import JobLocation
from pinlater.server.peer_processes.notification_batch import MOST_LOCATIONS
from pinlater.server.peer_processes.peer_receiver import PeerReceiver

_OFFER, _DUE, _ANSWER = b"offer", b"due", b"taken"

_PATIENCE_SECONDS = (0.005, 0.1)
"""Shortest and longest wait for an answer; in between, it is four times as long as answers take."""
_PATIENCE_ROUND_TRIPS = 4
_PATIENCE_SHARE = 0.125
"""How far an answer that took less time shortens the patience; one that took more counts in full."""

_SILENT_SECONDS = 1.0
"""How long a server that has not answered is not asked; it is notified of jobs that no other server takes."""

_FULL_SECONDS = 5.0
"""How long a server that did not take all jobs it was offered is asked last for jobs of that queue."""

_REFUSED_SECONDS = 0.1
"""How long after no server took a job of a queue all are notified of new ones, which costs less than asking each."""

_REST_REFUSED_SECONDS = 1.0
"""How long they are not asked about jobs that are left: a dequeue that comes to them finds those by itself."""

_MOST_QUESTIONS, _QUESTIONS_SECONDS = 200, 0.1
"""Most questions in this time, which cost a twentieth of a core. Beyond that all servers are notified, of many jobs in
one message."""

_MOST_REMEMBERED = 10_000


class OtherServers(Protocol):
    """The processes of other servers, by their ids."""

    @property
    def own_id(self) -> bytes:
        """The id of this process."""

    @property
    def ids(self) -> Collection[bytes]:
        """The ids of those that are known."""

    def send(self, message: bytes, to: bytes) -> None:
        """Send a message to one of them; it may be lost."""

    def announce(self, queue: str, locations: Collection[JobLocation], to: Iterable[bytes]) -> None:
        """Notify some of them of due jobs, without asking for an answer; see ``OnJobs``."""

    def announce_to_all(self, queue: str, locations: Collection[JobLocation]) -> None:
        """Notify all of them of due jobs, together with all other notifications of the next few milliseconds."""


class _Question(NamedTuple):
    """A message that waits for its answer; ``then`` is called with it, or with None if none came in time."""

    peer: bytes
    then: Callable[[int | None], None]
    timer: asyncio.TimerHandle
    sent_at: float


@dataclass(slots=True)
class _Offer:
    """Jobs of a queue that are being offered.

    Attributes:
        queue: the queue that has them.
        count: how many are left, as far as is known.
        or_more: whether there may be more.
        is_rest: whether none of them is new; servers that do not answer are not notified of such jobs.
        locations: where they are; None: that is not known of all.
        peers: the servers left to ask; the last one is next.
    """

    queue: str
    count: int = 0
    or_more: bool = False
    is_rest: bool = True
    locations: set[JobLocation] | None = field(default_factory=set)
    peers: list[bytes] = field(default_factory=list)

    def add(self, count: int | None, locations: Collection[JobLocation]) -> None:
        """Add new jobs of the queue."""
        self.count += count or 1
        self.or_more |= count is None
        self.is_rest = False
        known = None if self.locations is None or not locations else self.locations | {*locations}
        self.locations = None if known is None or len(known) > MOST_LOCATIONS else known

    def add_rest(self) -> None:
        """Add an unknown number of jobs that are not new."""
        self.count += 1
        self.or_more = True

    @property
    def wanted(self) -> bytes:
        """How many dequeues are wanted, as ``PeerReceiver.take_jobs`` takes it."""
        if self.is_rest:
            return b"0"
        return b"" if self.or_more else b"%d" % self.count


class JobOffers:
    """Offers jobs to other servers, and answers what they offer.

    Args:
        others: the other servers.
        receiver: takes what they offer.
    """

    def __init__(self, others: OtherServers, receiver: PeerReceiver) -> None:
        self._others = others
        self._receiver = receiver
        self._numbers = itertools.count(random.getrandbits(32))
        self._questions: dict[int, _Question] = {}
        self._late: dict[int, _Question] = {}
        self._offers: dict[str, _Offer] = {}
        self._next_offers: dict[str, _Offer] = {}
        self._patience = _PATIENCE_SECONDS[0]
        self._silent_until: dict[bytes, float] = {}
        self._full_until: dict[tuple[str, bytes], float] = {}
        self._refused_at: dict[str, float] = {}
        self._asked = 0
        self._asked_since = 0.0

    def close(self) -> None:
        """Drop the unanswered questions."""
        for question in self._questions.values():
            question.timer.cancel()
        self._questions.clear()

    # Jobs that are due now

    def offer(self, queue: str, count: int | None, locations: Collection[JobLocation]) -> None:
        """Offer new jobs that are due, or have fallen due, given how many (None: one or more) and where."""
        if self._is_refused(queue, _REFUSED_SECONDS) or self._is_too_much():
            self._others.announce_to_all(queue, locations)
        else:
            self._add(queue, lambda offer: offer.add(count, locations))

    def offer_rest(self, queue: str, *, are_new: bool) -> None:
        """Offer an unknown number of jobs that a claim has left, or a poll has found.

        Args:
            queue: the queue that has them.
            are_new: whether the queue was empty before they came. Then dequeues may wait at servers that have recently
                taken none.
        """
        if self._is_refused(queue, _REFUSED_SECONDS if are_new else _REST_REFUSED_SECONDS) or self._is_too_much():
            return
        self._add(queue, (lambda offer: offer.add(None, ())) if are_new else _Offer.add_rest)

    def _is_refused(self, queue: str, seconds: float) -> bool:
        """Return whether all servers were told in these last seconds that the queue has jobs, and none took any."""
        return _now() - seconds < self._refused_at.get(queue, -math.inf)

    def _is_too_much(self) -> bool:
        """Return whether too many questions were asked recently to ask more."""
        now = _now()
        if now >= self._asked_since + _QUESTIONS_SECONDS:
            self._asked, self._asked_since = 0, now
        return self._asked >= _MOST_QUESTIONS

    def _add(self, queue: str, add: Callable[[_Offer], None]) -> None:
        """Offer jobs; while others of the queue are on offer, add them to the offer that follows."""
        is_next = queue in self._offers
        offer = self._next_offers.setdefault(queue, _Offer(queue)) if is_next else _Offer(queue)
        add(offer)
        if not is_next:
            self._begin(offer)

    def _begin(self, offer: _Offer) -> None:
        self._offers[offer.queue] = offer
        awake = self._awake()
        random.shuffle(awake)
        now = _now()
        offer.peers = sorted(awake, key=lambda peer: self._full_until.get((offer.queue, peer), 0.0) <= now)
        self._next(offer)

    def _next(self, offer: _Offer) -> None:
        if not offer.peers:
            self._refused(offer)
            return
        peer, places = offer.peers.pop(), ",".join(map(str, offer.locations or ())).encode()
        self._ask(peer, partial(self._answered_offer, offer, peer), _OFFER, offer.queue.encode(), offer.wanted, places)

    def _answered_offer(self, offer: _Offer, peer: bytes, taken: int | None) -> None:
        if taken is None and not offer.is_rest:  # notify all at once: asking each in turn would delay the job
            self._announce(offer, [peer, *offer.peers])
            self._end(offer)
            return
        offer.count -= taken or 0
        if taken and offer.or_more:  # that server goes on offering what its claims leave
            offer.count = 0
        if offer.count <= 0:
            self._end(offer)
            return
        if taken is not None:
            self._remember_full(offer.queue, peer)
        self._next(offer)

    def _refused(self, offer: _Offer) -> None:
        silent = set(self._others.ids) - set(self._awake())
        if silent and not offer.is_rest:
            self._announce(offer, silent)
        if len(self._refused_at) > _MOST_REMEMBERED:
            self._refused_at.clear()
        self._refused_at[offer.queue] = _now()
        self._end(offer)

    def _end(self, offer: _Offer) -> None:
        """End an offer, and begin the next one of the queue."""
        del self._offers[offer.queue]
        following = self._next_offers.pop(offer.queue, None)
        if following is None:
            return
        if not self._is_refused(offer.queue, _REFUSED_SECONDS):
            self._begin(following)
        elif not following.is_rest:
            self._others.announce_to_all(offer.queue, following.locations or ())

    def _announce(self, offer: _Offer, peers: Iterable[bytes]) -> None:
        self._others.announce(offer.queue, offer.locations or (), peers)

    def _remember_full(self, queue: str, peer: bytes) -> None:
        if len(self._full_until) > _MOST_REMEMBERED:
            self._full_until.clear()
        self._full_until[queue, peer] = _now() + _FULL_SECONDS

    # Jobs that fall due

    def fallen_due(self, queue: str, due_ms: int, wake: Callable[[], None]) -> None:
        """Wake a dequeue for a job that has fallen due, unless a server before this one in the order sees to it."""
        if self._is_too_much():
            wake()
            return
        own, moment = self._others.own_id, f"{queue} {due_ms}".encode()
        order = sorted([*self._awake(), own], key=lambda peer: blake2b(moment, digest_size=8, key=peer).digest())
        self._ask_whether_seen_to(queue, due_ms, order[: order.index(own)], wake)

    def _ask_whether_seen_to(self, queue: str, due_ms: int, peers: Sequence[bytes], wake: Callable[[], None]) -> None:
        if not peers:
            wake()
            return
        first, *rest = peers

        def then(is_seen_to: int | None) -> None:
            if not is_seen_to:
                self._ask_whether_seen_to(queue, due_ms, rest, wake)

        self._ask(first, then, _DUE, queue.encode(), b"%d" % due_ms)

    # Messages

    def _awake(self) -> list[bytes]:
        """Return the servers that may be asked."""
        now = _now()
        self._silent_until = {peer: until for peer, until in self._silent_until.items() if until > now}
        return [peer for peer in self._others.ids if peer not in self._silent_until]

    def _ask(self, peer: bytes, then: Callable[[int | None], None], kind: bytes, *words: bytes) -> None:
        self._asked += 1
        number, loop = next(self._numbers), asyncio.get_running_loop()
        timer = loop.call_later(self._patience, self._unanswered, number)
        self._questions[number] = _Question(peer, then, timer, loop.time())
        self._others.send(b" ".join((kind, self._others.own_id.hex().encode(), b"%d" % number, *words)), peer)

    def _unanswered(self, number: int) -> None:
        question = self._questions.pop(number)
        if len(self._late) >= _MOST_REMEMBERED:
            self._late.clear()
        self._late[number] = question
        self._silent_until[question.peer] = _now() + _SILENT_SECONDS
        question.then(None)

    def _answered(self, number: int, answer: int) -> None:
        question = self._questions.pop(number, None) or self._late.get(number)
        if question is None:
            return
        enough = _PATIENCE_ROUND_TRIPS * (_now() - question.sent_at)
        patience = max(enough, self._patience + (enough - self._patience) * _PATIENCE_SHARE)
        self._patience = min(max(patience, _PATIENCE_SECONDS[0]), _PATIENCE_SECONDS[1])
        question.timer.cancel()
        if self._late.pop(number, None) is None:  # otherwise the others were notified already
            question.then(answer)

    def receive(self, message: bytes) -> bool:
        """Answer a question, or handle an answer; return False for messages of other kinds.

        Raises:
            ValueError: it is of another version.
        """
        kind, *words = message.split(b" ")
        if kind == _ANSWER:
            number, answer = words
            self._answered(int(number), int(answer))
        elif kind == _OFFER:
            sender, number, queue, count, places = words
            locations = [JobLocation.parse(place) for place in places.decode().split(",") if place]
            taken = self._receiver.take_jobs(queue.decode(), int(count) if count else None, locations)
            self._answer(sender, number, taken)
        elif kind == _DUE:
            sender, number, queue, due_ms = words
            self._answer(sender, number, self._receiver.sees_to(queue.decode(), int(due_ms)))
        else:
            return False
        return True

    def _answer(self, sender: bytes, number: bytes, answer: int) -> None:
        self._others.send(b" ".join((_ANSWER, b"%d" % int(number), b"%d" % answer)), bytes.fromhex(sender.decode()))


def _now() -> float:
    return asyncio.get_running_loop().time()
