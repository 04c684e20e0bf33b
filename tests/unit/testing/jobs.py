"""Jobs for the tests of the testing kit."""

import msgspec

from pinlater import Constant, Discard, Job, JobContext, JobInterrupted, RawJob, Retry


class Count(Job, queue="counts"):
    end: int
    cursor: int = 0

    def run(self, context: JobContext) -> None:
        while self.cursor < self.end:
            self.cursor += 1
            context.checkpoint()


class Report(Job, queue="reports", attempts=2, backoff=Constant(5)):
    log: list[str] = msgspec.field(default_factory=list)

    def run(self, context: JobContext) -> None:
        rows = context.step("load", lambda: (1, 2, 3))
        self.log.append(f"rows {rows}")
        total = context.step("sum", sum, rows)
        if context.attempt == 1:
            raise OSError("the printer is on fire")
        context.step("print", self.log.append, f"total {total}")


class Polite(Job, attempts=5):
    word: str

    async def run(self, context: JobContext) -> None:
        if self.word == "retry" and context.attempt < 3:
            raise Retry(after=30, reason="not now")
        if self.word == "discard":
            raise Discard("no use")
        if self.word == "fail":
            raise ValueError("never")
        context.checkpoint()


class Once(Job):
    """Is interrupted once."""

    was_interrupted: bool = False

    def run(self, context: JobContext) -> None:
        if not self.was_interrupted:
            self.was_interrupted = True
            raise JobInterrupted


class Lines(RawJob, queue="lines"):
    def run(self, context: JobContext) -> None:
        context.checkpoint()
        context.step("never", len, self.body)
