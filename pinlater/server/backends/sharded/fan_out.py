"""Calls to several shards: all at once, or one after the other until there is enough."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from typing import Any, TypeVar

from pinlater.errors import NoHealthyShards, QueueNotFound, ServiceError, ShardConnectionFailed
from pinlater.server.backends.sharded.shard import Shard, ShardFull
from pinlater.server.backends.sharded.shard_handle import ShardHandle

_T = TypeVar("_T")

PATIENCE_SECONDS = 1.5
"""After this time, a call asks no further shard, so that it ends within 10 s whatever the shards do."""

_LATE = ShardConnectionFailed("the shard did not answer in time")

Call = Callable[[Shard], Awaitable[_T]]


async def ask_all(
    handles: Iterable[ShardHandle],
    call: Call[_T],
    *,
    patience: float | None = None,
    refusals: list[ServiceError] | None = None,
    silent: list[str] | None = None,
) -> list[tuple[ShardHandle, _T]]:
    """Call all shards at once; return the answers of those that gave one. Shards that lack the queue are left out.

    Args:
        handles: the shards.
        call: makes the call.
        patience: seconds to wait for answers; None: no limit.
        refusals: collects the errors with which shards refuse the call; None: the first of them is raised.
        silent: collects the names of the shards that do not answer.

    Raises:
        QueueNotFound: all shards that answered lack the queue.
        ShardFull: no shard takes what is new.
        NoHealthyShards: no shard answered.
        ServiceError: a shard refused; with ``refusals``, only if no other shard has answered.
    """
    asked = list(handles)
    results = await _results([handle.ask(call) for handle in asked], patience)
    answers: list[tuple[ShardHandle, _T]] = []
    missing: QueueNotFound | None = None
    full: ShardFull | None = None
    for handle, result in zip(asked, results, strict=True):
        if isinstance(result, QueueNotFound):
            missing = result
        elif isinstance(result, ShardFull):
            full = result
        elif isinstance(result, ShardConnectionFailed):
            if silent is not None:
                silent.append(handle.name)
        elif isinstance(result, ServiceError) and refusals is not None:
            refusals.append(result)
        elif isinstance(result, BaseException):
            raise result
        else:
            answers.append((handle, result))
    if not answers:
        raise next(iter(refusals or ()), None) or missing or full or no_healthy_shards()
    return answers


async def _results(calls: Sequence[Coroutine[Any, Any, _T]], patience: float | None) -> list[_T | BaseException]:
    if patience is None or not calls:  # asyncio.wait refuses to wait for nothing
        return await asyncio.gather(*calls, return_exceptions=True)
    tasks = [asyncio.ensure_future(call) for call in calls]
    for task in tasks:  # it goes on if it is late or the caller is cancelled: its outcome counts for the shard's health
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
    _, late = await asyncio.wait(tasks, timeout=patience)
    return [_LATE if task in late else task.exception() or task.result() for task in tasks]


async def ask_each(
    handles: Iterable[ShardHandle], ask: Callable[[ShardHandle], Awaitable[_T]]
) -> tuple[dict[str, _T], BaseException | None]:
    """Ask all shards at once, and wait for each of them.

    Returns:
        The answers by name of the shard, and the first error, if any. That a shard lacks the queue is an error only if
        no shard has it.
    """
    asked = list(handles)
    results = await asyncio.gather(*map(ask, asked), return_exceptions=True)
    told = zip(asked, results, strict=True)
    answers = {handle.name: result for handle, result in told if not isinstance(result, BaseException)}
    errors = [result for result in results if isinstance(result, BaseException)]
    failures = [error for error in errors if not isinstance(error, QueueNotFound)]
    return answers, next(iter(failures if failures or answers else errors), None)


async def ask_in_turn(
    handles: Iterable[ShardHandle],
    call: Call[_T],
    is_enough: Callable[[_T], bool],
    *,
    passing: type[ShardConnectionFailed] = ShardConnectionFailed,
    is_long: bool = False,
) -> None:
    """Call one shard after the other until there is enough; errors for lack of an answer are those of ``ask_all``.

    Args:
        handles: the shards; once the time is up, the remaining ones are not called.
        call: makes the call; it may ask for less each time.
        is_enough: receives each answer; returns whether it was the last one wanted.
        passing: errors after which the next shard is called; others are raised.
        is_long: the call may take long, so time spent on shards that answer does not count.
    """
    missing: QueueNotFound | None = None
    is_answered = False
    deadline = time.monotonic() + PATIENCE_SECONDS
    for number, handle in enumerate(handles):
        if number and time.monotonic() > deadline:
            break
        try:
            answer = await handle.ask(call)
        except QueueNotFound as error:
            missing = error
        except passing:
            continue
        else:
            is_answered = True
            if is_enough(answer):
                break
            if is_long:
                deadline = time.monotonic() + PATIENCE_SECONDS
    if not is_answered:
        raise missing or no_healthy_shards()


def no_healthy_shards() -> NoHealthyShards:
    """Return the error for when no shard answered."""
    return NoHealthyShards("no shard of the store answers at present; look at the databases, the log names them")
