"""What mypy knows of results of jobs, of calls and of events; it checks this module, and nobody runs it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, assert_type

from pinlater import AsyncClient, Client, Job, JobContext, JobFailed, RawJob, retrying
from pinlater.client import Batch, BatchOutcome


@dataclass
class Size:
    width: int


class Resize(Job[Size], queue="photos"):
    photo: int

    def run(self, context: JobContext) -> Size:
        return Size(self.photo)


class Count(Job[int], queue="photos"):
    async def run(self, context: JobContext) -> int:
        return 1


class Plain(Job, queue="photos"):
    def run(self, context: JobContext) -> None: ...


class Wrong(Job[int], queue="photos"):
    def run(self, context: JobContext) -> str:  # type: ignore[override]
        return ""


class Bytes(RawJob, queue="raw"):
    def run(self, context: JobContext) -> bytes:
        return self.body


class Calls(Job, queue="photos"):
    def run(self, context: JobContext) -> None:
        assert_type(context.call(Resize(photo=1)), Size)
        assert_type(context.call(Count(), name="count", timeout=5, queue="night"), int)
        assert_type(context.call(Plain()), Any)
        assert_type(context.call(Bytes(body=b"")), bytes | None)
        jobs = [Resize(photo=number) for number in range(3)]
        assert_type(context.call_all(jobs, name="resize"), list[Size])
        assert_type(context.call_all(jobs, name="resize", return_failures=True), list[Size | JobFailed])
        either = context.call_all(jobs, name="resize", return_failures=context.is_last_attempt)
        assert_type(either, list[Size] | list[Size | JobFailed])
        assert_type(context.call_all([Plain(), Count()], name="mixed"), list[Any])
        assert_type(context.wait_for("approval", Size, timeout=60), Size)
        assert_type(context.wait_for("approval"), Any)


class Patient:
    def delay(self, attempts_spent: int) -> float:
        return 60.0 * attempts_spent


class Later(Job, queue="photos", backoff=Patient()):
    photo: int

    def run(self, context: JobContext) -> None:
        context.step("count", retrying(len, attempts=3, backoff=Patient()), "abc")


def key_of(job: Later) -> str | None:
    return f"photo {job.photo}"


def many(client: Client) -> None:
    client.enqueue_many([Later(photo=1)], unique=key_of, key=key_of)
    client.enqueue_many([Later(photo=1)], unique=lambda job: f"photo {job.photo}", key=lambda job: f"{job.photo}")


def handles(client: Client) -> None:
    assert_type(client.enqueue(Resize(photo=1)).result(), Size)
    assert_type(client.enqueue(Plain()).result(), Any)
    assert_type(client.batch([Resize(photo=1), Plain()]).result(), BatchOutcome)
    assert_type(client.handle("queue:s1:p1:1", Batch).result(), BatchOutcome)


async def async_handles(client: AsyncClient) -> None:
    handle = await client.enqueue(Resize(photo=1))
    assert_type(await handle, Size)
    assert_type(await handle.result(timeout=5), Size)
