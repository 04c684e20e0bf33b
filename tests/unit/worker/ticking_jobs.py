"""Periodic jobs, and bodies of them."""

from pinlater import Constant, Discard, Job, JobInterrupted, Retry
from pinlater.jobs.body_codec import encode_body
from pinlater.model.body_metadata import BodyMetadata, Recurrence

MINUTE_MS = 60_000
TICK_MS = 1_700_000_040_000
EVERY_MINUTE = "every 60.0"

seen = []
"""When each run was scheduled for."""


class Tidy(Job, queue="tidy", every=60, attempts=3, backoff=Constant(5), priority=2):
    how: str = ""
    runs: int = 0

    def run(self, context):
        seen.append(context.scheduled_for)
        self.runs += 1
        if self.how == "saves and fails":
            context.checkpoint(flush=True)
            self.runs += 10
        if "fails" in self.how:
            raise ValueError("dusty")
        if self.how == "discards":
            raise Discard("not today")
        if self.how == "retries":
            raise Retry
        if self.how == "is interrupted":
            raise JobInterrupted
        if self.how == "says when":
            context.reschedule(at=TICK_MS / 1000 + 7)
        if self.how == "is unreadable":
            self.how = object()


class Nightly(Job, queue="tidy", cron="30 2 * * *", timezone="Europe/Berlin"):
    def run(self, context):
        seen.append(context.scheduled_for)


class Plain(Job, queue="tidy"):
    pass


class Elsewhere(Job, every=60):
    pass


def periodic_body(how="", schedule=EVERY_MINUTE, **kept):
    return encode_body(Tidy(how=how), BodyMetadata(recurrence=Recurrence(TICK_MS, 4, schedule), **kept))
