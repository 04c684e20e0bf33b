"""Group commit: what shares a transaction, what is tried again, and who gets which error."""

import asyncio
import functools

import pytest

from pinlater.errors import QueueNotFound, ShardConnectionFailed, UnknownError
from pinlater.server.backends.mysql import group_commit
from pinlater.server.backends.mysql.errors import (
    ConnectFailed,
    ConnectionLost,
    LockTimeout,
    PacketNotSent,
    StatementRejected,
    TransactionConflict,
)
from pinlater.server.backends.mysql.group_commit import BusyCommits, GroupCommit
from pinlater.server.backends.sharded import ShardUnreachable


def in_loop(test):
    @functools.wraps(test)
    def run(*arguments, **options):
        asyncio.run(test(*arguments, **options))

    return run


class Work:
    """Answers a request with its double; raises what stands in ``faults`` first."""

    def __init__(self, *faults):
        self.faults = list(faults)
        self.batches = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def __call__(self, batch):
        self.batches.append(list(batch.requests))
        await self.gate.wait()
        if self.faults:
            raise self.faults.pop(0)
        batch.answer([request * 2 for request in batch.requests])


def commits_of(work, *, shard="1", busy=None, **options):
    return GroupCommit(shard, work, busy=BusyCommits() if busy is None else busy, **options)


async def gather(commits, *requests):
    return await asyncio.gather(*(commits.submit(request) for request in requests), return_exceptions=True)


@in_loop
async def test_what_is_submitted_at_once_goes_together():
    work = Work()
    assert await gather(commits_of(work), 1, 2, 3) == [2, 4, 6]
    assert work.batches == [[1, 2, 3]]


@in_loop
async def test_what_comes_meanwhile_is_gathered():
    work = Work()
    commits = commits_of(work)
    work.gate.clear()
    first = commits.submit(1)
    await asyncio.sleep(0)
    rest = [commits.submit(number) for number in (2, 3)]
    assert commits.waiting == 3
    work.gate.set()
    assert await asyncio.gather(first, *rest) == [2, 4, 6]
    assert work.batches == [[1], [2, 3]]
    await commits.finish()
    assert commits.waiting == 0


@in_loop
async def test_a_batch_has_bounds():
    work = Work()
    commits = commits_of(work, max_requests=2, max_weight=10)
    await asyncio.gather(*(commits.submit(number, weight) for number, weight in enumerate((1, 1, 1, 9, 1, 99))))
    assert work.batches == [[0, 1], [2, 3], [4], [5]]


@in_loop
async def test_a_conflict_is_tried_again_but_not_for_ever(monkeypatch):
    monkeypatch.setattr(group_commit, "RETRY_SECONDS", 60.0)
    work = Work(*[TransactionConflict("deadlock")] * 10)
    assert await gather(commits_of(work), 1) == [2]
    monkeypatch.setattr(group_commit, "RETRY_SECONDS", 0.05)
    [error] = await gather(commits_of(Work(*[TransactionConflict("deadlock")] * 10**6)), 1)
    assert isinstance(error, UnknownError)
    assert "nothing was changed" in str(error)


@in_loop
async def test_the_first_conflict_is_tried_again_however_long_the_attempt_took(monkeypatch):
    monkeypatch.setattr(group_commit, "RETRY_SECONDS", 0.0)
    assert await gather(commits_of(Work(TransactionConflict("deadlock"))), 1) == [2]
    for faults in ([TransactionConflict("deadlock")] * 2, [LockTimeout("a lock")]):
        [error] = await gather(commits_of(Work(*faults)), 1)
        assert isinstance(error, UnknownError)


@in_loop
async def test_that_attempt_ends_when_the_time_of_all_attempts_is_over(monkeypatch):
    monkeypatch.setattr(group_commit, "RETRY_SECONDS", 0.0)
    limits, timeout = [], asyncio.timeout
    monkeypatch.setattr(asyncio, "timeout", lambda seconds: limits.append(seconds) or timeout(seconds))
    await gather(commits_of(Work(TransactionConflict("deadlock"))), 1)
    assert limits[0] == group_commit.ATTEMPT_SECONDS > limits[1]


@in_loop
async def test_only_repeated_conflicts_lock_everything_first(monkeypatch):
    monkeypatch.setattr(group_commit, "RETRY_SECONDS", 60.0)
    seen = []
    faults = [TransactionConflict("deadlock"), LockTimeout("a lock"), TransactionConflict("deadlock")]

    async def work(batch):
        seen.append(batch.conflicts)
        if len(seen) <= len(faults):
            raise faults[len(seen) - 1]
        batch.answer([0])

    await gather(commits_of(work), 1)
    assert seen == [0, 1, 1, 2]


@in_loop
async def test_a_broken_connection_is_tried_again():
    work = Work(ConnectionLost("gone"), ConnectionLost("gone"))
    assert await gather(commits_of(work), 1, 2) == [2, 4]
    assert work.batches == [[1, 2]] * 3


@in_loop
async def test_retries_stop_at_the_deadline(monkeypatch):
    monkeypatch.setattr(group_commit, "RETRY_SECONDS", 0.05)
    [error] = await gather(commits_of(Work(*[ConnectionLost("gone")] * 10**6), shard="7"), 1)
    assert isinstance(error, ShardConnectionFailed)
    assert not isinstance(error, ShardUnreachable)
    assert "shard 7" in str(error)


@in_loop
async def test_an_attempt_that_hangs_is_cut_off(monkeypatch):
    monkeypatch.setattr(group_commit, "ATTEMPT_SECONDS", 0.05)
    monkeypatch.setattr(group_commit, "RETRY_SECONDS", 60.0)
    attempts = []

    async def work(batch):
        attempts.append(batch)
        if len(attempts) == 2:
            monkeypatch.setattr(group_commit, "RETRY_SECONDS", 0.0)
        await asyncio.Event().wait()

    [error] = await gather(commits_of(work), 1)
    assert isinstance(error, ShardConnectionFailed)
    assert len(attempts) == 2


@in_loop
async def test_what_was_never_sent_may_go_elsewhere():
    [error] = await gather(commits_of(Work(ConnectFailed("refused"))), 1)
    assert isinstance(error, ShardUnreachable)


@pytest.mark.parametrize("then", [ConnectFailed("refused"), TransactionConflict("deadlock")])
@in_loop
async def test_what_may_have_been_committed_may_not_go_elsewhere(monkeypatch, then):
    monkeypatch.setattr(group_commit, "RETRY_SECONDS", 0.05)
    tries = []

    async def work(batch):
        tries.append(batch)
        if len(tries) == 1:
            batch.is_uncertain = True
            raise ConnectionLost("gone")
        raise then

    [error] = await gather(commits_of(work), 1)
    assert isinstance(error, ShardConnectionFailed)
    assert not isinstance(error, ShardUnreachable)


@in_loop
async def test_requests_queued_during_a_failure_are_failed(monkeypatch):
    monkeypatch.setattr(group_commit, "ATTEMPT_SECONDS", 0.2)
    monkeypatch.setattr(group_commit, "RETRY_SECONDS", 0.1)
    work = Work()
    work.gate.clear()
    commits = commits_of(work)
    first = commits.submit(1)
    await asyncio.sleep(0.05)
    second = commits.submit(2)
    errors = await asyncio.gather(first, second, return_exceptions=True)
    assert [type(error) for error in errors] == [ShardConnectionFailed, ShardUnreachable]
    assert work.batches == [[1]], "the second was never sent"
    work.gate.set()
    assert await gather(commits, 3) == [6]


@in_loop
async def test_one_bad_request_does_not_hurt_the_others():
    waiting = []

    async def work(batch):
        waiting.append(commits.waiting)
        if 13 in batch.requests:
            raise StatementRejected("out of range, nothing was changed")
        batch.answer(batch.requests)

    commits = commits_of(work)
    first, bad, last = await gather(commits, 1, 13, 2)
    assert (first, last) == (1, 2)
    assert isinstance(bad, StatementRejected)
    assert waiting == [3, 3, 2, 1]
    assert commits.waiting == 0


@in_loop
async def test_what_was_answered_with_an_error_is_not_tried_again():
    tries = []

    async def work(batch):
        tries.append(batch)
        batch.fail(ShardConnectionFailed("nobody knows"))
        raise ConnectionLost("at the commit")

    [error] = await gather(commits_of(work), 1)
    assert str(error) == "nobody knows"
    assert len(tries) == 1


@pytest.mark.parametrize("requests", [[1], [1, 2]])
@pytest.mark.parametrize(
    "then", [StatementRejected("full, nothing was changed"), UnknownError("too slow, nothing was changed")]
)
@in_loop
async def test_nobody_is_told_that_nothing_was_changed_when_an_earlier_attempt_may_have_changed_it(requests, then):
    seen = []

    async def work(batch):
        seen.append((list(batch.requests), batch.is_uncertain))
        if len(seen) == 1:
            with batch.committing():
                raise ConnectionLost("at the commit")
        raise then

    errors = await gather(commits_of(work), *requests)
    assert [type(error) for error in errors] == [ShardConnectionFailed] * len(requests)
    assert [is_uncertain for _, is_uncertain in seen] == [False] + [True] * (len(seen) - 1)


@in_loop
async def test_a_commit_that_was_not_sent_leaves_nothing_uncertain():
    seen = []

    async def work(batch):
        seen.append(batch.is_uncertain)
        with batch.committing():
            raise PacketNotSent("closed") if len(seen) == 1 else StatementRejected("full, nothing was changed")

    [error] = await gather(commits_of(work), 1)
    assert seen == [False, False]
    assert isinstance(error, StatementRejected)


@in_loop
async def test_an_attempt_that_broke_before_its_commit_leaves_nothing_uncertain():
    seen = []

    async def work(batch):
        seen.append(batch.is_uncertain)
        if len(seen) == 1:
            raise ConnectionLost("before the commit")
        raise StatementRejected("full, nothing was changed")

    [error] = await gather(commits_of(work), 1)
    assert seen == [False, False]
    assert isinstance(error, StatementRejected)


@in_loop
async def test_commits_that_fail_are_told_apart_from_those_that_are_done():
    commits = []
    await gather(
        commits_of(Work(ConnectionLost("gone"), TransactionConflict("deadlock")), on_commit=commits.append), 1, 2
    )
    assert [(stats.requests, stats.is_failed) for stats in commits] == [(2, True), (2, False)]


@in_loop
async def test_errors_of_single_requests_are_theirs():
    async def work(batch):
        batch.answer([QueueNotFound("gone"), 5])

    error, result = await gather(commits_of(work), 1, 2)
    assert isinstance(error, QueueNotFound)
    assert result == 5


@in_loop
async def test_who_goes_away_does_not_stop_the_work():
    work = Work()
    commits = commits_of(work)
    gone, kept = commits.submit(1), commits.submit(2)
    gone.cancel()
    assert await kept == 4
    assert work.batches == [[1, 2]]


@pytest.mark.parametrize("error", [RuntimeError("a bug"), TypeError("another")])
@in_loop
async def test_a_bug_is_an_answer_too(error, caplog):
    [found] = await gather(commits_of(Work(error)), 1)
    assert isinstance(found, UnknownError)
    assert str(error) in caplog.text


@in_loop
async def test_what_may_have_been_done_and_must_not_be_done_twice_is_not_tried_again():
    work = Work()
    losing = [ConnectionLost("cut"), ConnectionLost("cut again")]

    async def commit(batch):
        if losing:
            with batch.committing():
                work.batches.append(list(batch.requests))
                raise losing.pop(0)
        await work(batch)

    first, *others = await gather(commits_of(commit, is_repeatable=lambda request: request != 1), 1, 2, 3)
    assert isinstance(first, ShardConnectionFailed)
    assert not isinstance(first, ShardUnreachable)
    assert others == [4, 6]
    assert work.batches == [[1, 2, 3], [2, 3], [2, 3]]


@in_loop
@pytest.mark.parametrize(
    "fault", [ConnectionLost("before the commit"), TransactionConflict("deadlock"), LockTimeout("held")]
)
async def test_what_was_not_done_is_tried_again_whatever_it_is(fault):
    work = Work(fault)

    async def commit(batch):
        if isinstance(fault, TransactionConflict):
            with batch.committing():
                await work(batch)
        else:
            await work(batch)

    assert await gather(commits_of(commit, is_repeatable=lambda _: False), 1) == [2]


@in_loop
async def test_a_batch_that_falls_apart_remembers_that_it_may_have_been_done():
    uncertain = []

    async def refuse(batch):
        uncertain.append(batch.is_uncertain)
        if len(uncertain) == 1:
            with batch.committing():
                raise ConnectionLost("cut")
        if len(batch.requests) > 1:
            raise StatementRejected("one of them")
        batch.answer(batch.requests)

    assert await gather(commits_of(refuse), 1, 2) == [1, 2]
    assert uncertain == [False, True, True, True]


@in_loop
async def test_only_those_at_work_are_asked_how_many_requests_wait():
    busy, work = BusyCommits(), Work()
    idle, working = [commits_of(work, busy=busy) for _ in range(100)], commits_of(work, busy=busy)
    work.gate.clear()
    answers = asyncio.gather(*(working.submit(request) for request in (1, 2, 3)))
    await asyncio.sleep(0)
    assert (busy, busy.waiting) == ({working}, 3)
    work.gate.set()
    assert await answers == [2, 4, 6]
    await busy.finish()
    assert (busy, busy.waiting) == (set(), 0)
    assert await idle[0].submit(4) == 8
