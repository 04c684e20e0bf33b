"""The jobs of a shop, for the pictures of the dashboard: they take their time, and some fail."""

import random
import time

from pinlater import Exponential, Job, JobContext


class SendReceipt(Job, queue="email", attempts=5, backoff=Exponential(first=20, cap=120)):
    customer: str
    order: int

    def run(self, _context: JobContext) -> None:
        time.sleep(random.uniform(0.01, 0.12))  # noqa: S311 - no secret
        if random.random() < 0.06:  # noqa: S311
            raise ConnectionRefusedError(f"[Errno 111] Connection refused: ('10.2.0.{self.order % 9}', 587)")


class ResizePicture(Job, queue="image", attempts=3):
    picture: str
    sizes: list[int]

    def run(self, context: JobContext) -> None:
        for number, _ in enumerate(self.sizes):
            time.sleep(random.uniform(0.1, 0.5))  # noqa: S311
            context.progress(number + 1, len(self.sizes), "sizes")


class ChargeCard(Job, queue="payment", attempts=3, backoff=Exponential(first=8, cap=20)):
    customer: str
    order: int
    cents: int

    def run(self, _context: JobContext) -> None:
        time.sleep(random.uniform(0.05, 0.3))  # noqa: S311
        self._pay()

    def _pay(self) -> None:
        if self.order % 3 == 0:
            raise TimeoutError(f"no answer from the bank's gateway after {5 + self.order % 4} s")
        if self.order % 7 == 0:
            raise ValueError(f"card of customer {self.customer} has expired")


class BuildReport(Job, queue="report", attempts=1):
    name: str

    def run(self, context: JobContext) -> None:
        context.publish(stage="reading orders")
        for done in range(600):
            context.progress(done, 600, "orders")
            time.sleep(0.5)


class CountStock(Job, queue="report", every=10, attempts=1):
    def run(self, _context: JobContext) -> None:
        raise LookupError("warehouse 'Rotterdam' is not in the list")
