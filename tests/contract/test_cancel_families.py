"""A cancellation that fails half-way, on every store: the same call, made again, reaches what the first has not."""

from types import SimpleNamespace
from typing import NamedTuple
from unittest.mock import MagicMock

import pytest

from pinlater.errors import ShardConnectionFailed
from pinlater.model.descriptor import JobDescriptor
from pinlater.model.keys import JobKey
from pinlater.protocol import messages as wire
from pinlater.protocol.messages import IN_PROGRESS
from pinlater.server.api.job_messages import JobMessages
from pinlater.server.broker import Caller
from pinlater.server.config.settings import Settings
from tests.support.bench import FAR_MS, QUEUE, Bench
from tests.support.families import OTHER, child_of
from tests.support.stores import SHARDED_STORES


class Family(NamedTuple):
    """A job and its descendants."""

    root: str
    rest: list[str]


class FailingStore:
    """A store of which one call fails: before it is carried out, or its answer is lost."""

    def __init__(self, store, fails_at=None, *, is_answer_lost=False):
        self._store, self._fails_at, self._is_answer_lost = store, fails_at, is_answer_lost
        self._calls = 0

    def __getattr__(self, verb):
        async def call(*arguments):
            self._calls += 1
            is_failing = self._calls == self._fails_at
            if is_failing and not self._is_answer_lost:
                raise ShardConnectionFailed("it is away")
            result = await getattr(self._store, verb)(*arguments)
            if is_failing:
                raise ShardConnectionFailed("the answer is lost")
            return result

        return call


def cancel(backend, store, *names):
    """Carry out a call of cancelJobs over a store."""
    broker = SimpleNamespace(backend=store, cancel=store.cancel_jobs)
    handler = JobMessages(broker, Settings(), MagicMock(), 1 << 20)
    request = wire.PinLaterCancelJobsRequest(QUEUE, list(names), None)
    return backend.run(handler.cancel(SimpleNamespace(request=request), Caller()))


def descendants(backend, parent, depth):
    """Enqueue children of a job that wait, and theirs, in two queues; return them all, parents first."""
    if not depth:
        return []
    queue = OTHER if depth % 2 else QUEUE
    jobs = [child_of(parent, at, run_after_ms=FAR_MS) for at in range(2)]
    names = backend.put(*jobs, queue=queue)
    return names + [name for child in names for name in descendants(backend, child, depth - 1)]


def family(backend):
    """Return a job that runs and two generations of descendants: some wait, a line of them runs."""
    root, _ = backend.started(b"root", attempts=5)
    rest = descendants(backend, root, 2)
    parent = root
    for queue in (QUEUE, OTHER):
        [parent] = backend.put(child_of(parent, 2), queue=queue)
        assert backend.take_names(queue=queue) == [parent]
        rest.append(parent)
    return Family(root, rest)


def end_asked(backend, names):
    """End those of the jobs that run and are asked to stop."""
    for job in backend.lookup_jobs([*map(JobDescriptor.parse, names)]):
        if job.state == IN_PROGRESS and job.is_cancelled:
            backend.fail(job.descriptor, queue=JobDescriptor.parse(job.descriptor).queue)


def spared(backend, names):
    """Return those of the jobs that are neither cancelled nor asked to stop."""
    jobs = backend.lookup_jobs([*map(JobDescriptor.parse, names)])
    return [job.descriptor for job in jobs if not job.is_cancelled]


@pytest.mark.parametrize("has_ended", [False, True])
@pytest.mark.parametrize("is_answer_lost", [False, True])
def test_wherever_it_failed_all_descendants_are_cancelled(backend, is_answer_lost, has_ended):
    backend.create_queue(OTHER)
    for number in range(1, 100):
        root, rest = family(backend)
        try:
            cancel(backend, FailingStore(backend.backend, number, is_answer_lost=is_answer_lost), root)
        except ShardConnectionFailed:
            if has_ended:
                end_asked(backend, (root, *rest))
            cancel(backend, FailingStore(backend.backend), root)
        else:
            break
        finally:
            end_asked(backend, (root, *rest))
        assert spared(backend, rest) == []
        assert backend.children_to_cancel([*map(JobDescriptor.parse, (root, *rest))], 100) == []
    assert number > 5


@pytest.fixture(params=SHARDED_STORES)
def shards(request, tmp_path):
    bench = Bench(SHARDED_STORES[request.param].home(tmp_path / "store", shards=3))
    bench.create_queue(QUEUE)
    bench.create_queue(OTHER)
    yield bench
    bench.end()


def test_descendants_on_other_shards_are_cancelled_too(shards):
    for number in range(1, 100):
        root, _ = shards.started(b"root", attempts=5)
        names, parents = [], [root]
        for generation in range(3):
            jobs = [
                child_of(parent, at, run_after_ms=FAR_MS, key=JobKey(f"{number} {generation} {at} {parent}"))
                for parent in parents
                for at in range(2)
            ]
            parents = shards.put(*jobs, queue=OTHER)
            names += parents
        try:
            cancel(shards, FailingStore(shards.backend, number), root)
        except ShardConnectionFailed:
            cancel(shards, FailingStore(shards.backend), root)
        else:
            break
        finally:
            shards.release_claims(QUEUE, "worker")
        assert spared(shards, names) == []
    assert number > 5
