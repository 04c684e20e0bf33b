"""Bulk actions: planned first, so that the user sees the number of jobs, then carried out in batches."""

from __future__ import annotations

import asyncio
import secrets
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from pinlater.client.async_verbs import AsyncVerbs
from pinlater.client.moving import Move
from pinlater.dashboard import audit
from pinlater.dashboard.bulk_jobs import ListedJobs, MatchingJobs
from pinlater.dashboard.forms import RequestRefused
from pinlater.errors import PinLaterError
from pinlater.model.state import JobState
from pinlater.model.status import cancelled_status

MAX_ACTIONS = 20
_STOP_SECONDS = 6.0
"""A little longer than a call, since a move that is cut short might leave copies of jobs."""

_PAUSE_SECONDS = 0.01
"""Pause between two batches, so that other calls get their share of the store."""


class Action(StrEnum):
    """Kind of a bulk action."""

    RETRY = "retry"
    RUN_NOW = "run-now"
    CANCEL = "cancel"
    MOVE = "move"
    DELETE = "delete"


@dataclass(slots=True, kw_only=True)
class PlannedAction:
    """A bulk action on some jobs, and its progress.

    Attributes:
        action: kind of the action.
        state: state of the jobs; a job in any other state is skipped.
        jobs: the jobs, listed or selected by a query.
        reason: how the jobs were selected.
        back: path of the page where they were selected.
        attempts: attempts that failed jobs get; None leaves moved jobs failed.
        to: target queue of a move.
        processed: number of jobs processed so far.
        changed: number of jobs changed so far.
        error: why the action ended early.
    """

    action: Action
    state: JobState
    jobs: ListedJobs | MatchingJobs
    reason: str
    back: str
    attempts: int | None = None
    to: str = ""
    processed: int = 0
    changed: int = 0
    error: str = ""
    key: str = field(default_factory=lambda: secrets.token_urlsafe(12))
    task: asyncio.Task[None] | None = None
    is_stopping: bool = False

    @property
    def total(self) -> int | None:
        """Number of jobs, or a lower bound; None if they could not be counted."""
        return self.jobs.total

    @property
    def queues(self) -> Sequence[str]:
        """Queues of the jobs."""
        return self.jobs.queues

    @property
    def is_started(self) -> bool:
        """Whether the user has confirmed the action."""
        return self.task is not None

    @property
    def is_done(self) -> bool:
        """Whether the action has ended, successfully or not."""
        return self.task is not None and self.task.done()


class BulkActions:
    """The latest bulk actions, planned, running or done; at most ``MAX_ACTIONS``.

    Args:
        client: client of the server.
        changed: called with each queue whose jobs were changed.
    """

    def __init__(self, client: AsyncVerbs, changed: Callable[[str], None]) -> None:
        self._client = client
        self._changed = changed
        self._actions: OrderedDict[str, PlannedAction] = OrderedDict()

    def add(self, planned: PlannedAction) -> None:
        """Store a planned action; if there are too many, it replaces the oldest one that is not running.

        Raises:
            RequestRefused: too many are running.
        """
        idle = [key for key, old in self._actions.items() if not old.is_started or old.is_done]
        while len(self._actions) >= MAX_ACTIONS:
            if not idle:
                raise RequestRefused(429, "too many bulk actions are running; wait until one has ended")
            del self._actions[idle.pop(0)]
        self._actions[planned.key] = planned

    def find(self, key: str) -> PlannedAction | None:
        """Return an action by its key; None if it has been forgotten."""
        return self._actions.get(key)

    def start(self, planned: PlannedAction, name: str) -> None:
        """Start an action for the user ``name``."""
        if not planned.is_started:
            planned.task = asyncio.create_task(self._carry_out(planned, name))

    async def stop(self, planned: PlannedAction) -> None:
        """Stop an action after its current batch, or during it if that takes too long."""
        await _stop([planned])

    async def close(self) -> None:
        """Stop all actions."""
        await _stop(self._actions.values())

    async def _carry_out(self, planned: PlannedAction, name: str) -> None:
        moves = {
            queue: Move(queue, planned.to, planned.state, planned.attempts) for queue in planned.queues if planned.to
        }
        try:
            async for queue, descriptors in planned.jobs.batches(self._client):
                if planned.is_stopping:
                    planned.error = "stopped"
                    break
                planned.changed += await self._run_batch(planned, queue, descriptors, moves.get(queue))
                planned.processed += len(descriptors)
                for changed in filter(None, (queue, planned.to)):
                    self._changed(changed)
                await asyncio.sleep(_PAUSE_SECONDS)
        except PinLaterError as error:
            planned.error = str(error)
        finally:
            if moves:  # the moves also count a batch that was not finished
                planned.changed = sum(move.moved for move in moves.values())
            action = f"{planned.action}-many" + (f"(to={planned.to})" if planned.to else "")
            audit.write(name, action, ",".join(planned.queues)[:200], planned.changed)

    async def _run_batch(
        self, planned: PlannedAction, queue: str, descriptors: Sequence[str], move: Move | None
    ) -> int:
        if move is not None:
            return await self._client.move_these(move, descriptors)
        if planned.action is Action.RETRY:
            return await self._client.retry_these(queue, descriptors, attempts=planned.attempts or 1)
        if planned.action is Action.RUN_NOW:
            return await self._client.run_now(queue, descriptors)
        if planned.action is Action.CANCEL:
            cancelled = await self._client.cancel_these(queue, descriptors, status=cancelled_status("on the dashboard"))
            return min(cancelled, len(descriptors))  # the server also counts cancelled children
        return await self._client.delete_these(queue, descriptors, planned.state)


async def _stop(actions: Iterable[PlannedAction]) -> None:
    running = [planned for planned in actions if planned.task is not None and not planned.task.done()]
    for planned in running:
        planned.is_stopping = True
    tasks = [planned.task for planned in running if planned.task is not None]
    if not tasks:
        return
    _, late = await asyncio.wait(tasks, timeout=_STOP_SECONDS)
    for planned in running:
        if planned.task in late:
            planned.error = "stopped"
            planned.task.cancel()
    if late:
        await asyncio.wait(late)
