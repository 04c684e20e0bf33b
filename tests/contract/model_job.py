"""A job as the contract describes it, in plain Python."""

from dataclasses import dataclass, field

from pinlater.model.messages import MessageWait, Parent, ReceivedMessage
from pinlater.protocol.messages import FAILED, IN_PROGRESS, PENDING, SUCCEEDED


@dataclass
class ModelJob:
    """What a job has to look like."""

    number: int
    priority: int
    body: bytes
    created_at: int
    run_after: int
    updated_at: int
    allowed: int
    remaining: int
    status: str
    key: str | None = None
    state: int = PENDING
    claim: str | None = None
    source: str | None = None
    lease: int = 0
    expires: int = 0
    result: bytes | None = None
    is_cancelled: bool = False
    is_listed: bool = False
    """Whether it is to be cancelled with its parent once more, if it is cancelled."""
    parent: Parent | None = None
    waits: tuple[MessageWait, ...] = ()
    messages: dict[str, list[ReceivedMessage]] = field(default_factory=lambda: {"go": [], "join": []})
    group: int | None = None
    open: set[str] = field(default_factory=set)
    """Fields of which the contract does not say what they have become; they are taken from the store once."""

    @property
    def is_unfinished(self):
        return self.state in {PENDING, IN_PROGRESS}

    @property
    def is_to_cancel(self):
        """Whether it has to be cancelled with its parent."""
        return self.is_listed if self.is_cancelled else self.is_unfinished

    def finish(self, state, now):
        self.state, self.updated_at, self.key = state, now, None
        self.is_cancelled = self.is_cancelled and state == FAILED
        if state == SUCCEEDED or self.is_cancelled:
            self.group = None

    def back(self, run_after, now):
        """Make it PENDING, or FAILED if it is asked to stop."""
        if self.is_cancelled:
            self.finish(FAILED, now)
            self.open |= {"run_after", "remaining"}
        else:
            self.state, self.claim, self.run_after, self.updated_at = PENDING, None, run_after, now

    def is_due_by(self, waits):
        """Return whether as many messages have arrived as one of the waits says."""
        return any(len(self.messages[name]) >= number for name, number in waits)

    def receive(self, name, message_id, payload, kind, now):
        """Store a message, unless there is one with its id; end the sleep that waits for it."""
        there = self.messages[name]
        if self.is_unfinished and message_id not in [one.id for one in there]:
            there.append(ReceivedMessage(len(there) + 1, message_id, payload, kind))
        if self.state == PENDING and self.run_after > now and self.is_due_by(w for w in self.waits if w.name == name):
            self.run_after = now
            self.open.add("updated_at")

    def spend(self, run_after, now, group, *, is_final=False):
        """One attempt failed: by an ack or by expiry."""
        self.group = group
        is_last = is_final or self.remaining <= 1 or self.is_cancelled
        self.remaining = 0 if is_last else self.remaining - 1
        if self.is_cancelled:
            self.open.add("remaining")
        if is_last:
            self.finish(FAILED, now)
        else:
            self.back(run_after, now)
