"""Changes of many jobs: planned first, so that somebody sees how many, then carried out step by step."""

from __future__ import annotations

import asyncio
import secrets
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from pinlater.client.async_verbs import AsyncVerbs
from pinlater.client.moving import Move
from pinlater.dashboard import audit
from pinlater.dashboard.forms import Refused
from pinlater.errors import PinLaterError
from pinlater.model.state import JobState

MOST_JOBS = 10_000
"""In one plan; what is left takes another one."""

MOST_PLANS = 20
_STEP = 100
_FAREWELL_SECONDS = 6.0
"""A little longer than a call: half of a step might leave copies of jobs that are being moved."""

_PAUSE_SECONDS = 0.01
"""Between two steps, so that a big one leaves the store to others."""


class Action(StrEnum):
    """What is done to each job."""

    RETRY = "retry"
    MOVE = "move"
    DELETE = "delete"


@dataclass(slots=True, kw_only=True)
class Plan:
    """What is to be done to which jobs, and how far it is.

    Attributes:
        action: what.
        state: that the jobs are in; those that have left it meanwhile are left alone.
        jobs: queue -> descriptors.
        reason: what they have in common.
        back: path of the page that it was made on.
        attempts: that retried jobs get; of moved ones None: they are not tried again.
        to: queue that jobs are moved to.
        gone_through: jobs that were asked for so far.
        changed: jobs that were changed.
        error: why it ended early.
    """

    action: Action
    state: JobState
    jobs: Mapping[str, Sequence[str]]
    reason: str
    back: str
    attempts: int | None = None
    to: str = ""
    gone_through: int = 0
    changed: int = 0
    error: str = ""
    key: str = field(default_factory=lambda: secrets.token_urlsafe(12))
    task: asyncio.Task[None] | None = None
    is_stopping: bool = False

    @property
    def total(self) -> int:
        """How many jobs it is about."""
        return sum(len(descriptors) for descriptors in self.jobs.values())

    @property
    def is_started(self) -> bool:
        """Whether somebody has said yes."""
        return self.task is not None

    @property
    def is_done(self) -> bool:
        """Whether it has ended, one way or the other."""
        return self.task is not None and self.task.done()

    def steps(self) -> Iterator[tuple[str, Sequence[str]]]:
        """Yield some jobs of one queue at a time."""
        for queue, descriptors in self.jobs.items():
            for start in range(0, len(descriptors), _STEP):
                yield queue, descriptors[start : start + _STEP]


class Plans:
    """The plans of the last time; few, so that they take little memory.

    Args:
        client: of the server.
        changed: told of every queue whose jobs were changed.
    """

    def __init__(self, client: AsyncVerbs, changed: Callable[[str], None]) -> None:
        self._client = client
        self._changed = changed
        self._plans: OrderedDict[str, Plan] = OrderedDict()

    def add(self, plan: Plan) -> None:
        """Keep a plan; the oldest that does not run is forgotten for it.

        Raises:
            Refused: too many run.
        """
        idle = [key for key, old in self._plans.items() if not old.is_started or old.is_done]
        while len(self._plans) >= MOST_PLANS:
            if not idle:
                raise Refused(429, "too many changes are under way; wait for one to end")
            del self._plans[idle.pop(0)]
        self._plans[plan.key] = plan

    def find(self, key: str) -> Plan | None:
        """Return a plan, if it is still known."""
        return self._plans.get(key)

    def start(self, plan: Plan, name: str) -> None:
        """Begin to carry it out; ``name`` is who wants it."""
        if not plan.is_started:
            plan.task = asyncio.create_task(self._carry_out(plan, name))

    async def stop(self, plan: Plan) -> None:
        """Stop after the step that is under way; if that takes too long, in the middle of it."""
        await _stop([plan])

    async def close(self) -> None:
        """Stop all."""
        await _stop(self._plans.values())

    async def _carry_out(self, plan: Plan, name: str) -> None:
        moves = {queue: Move(queue, plan.to, plan.state, plan.attempts) for queue in plan.jobs if plan.to}
        try:
            for queue, descriptors in plan.steps():
                if plan.is_stopping:
                    plan.error = "stopped"
                    break
                plan.changed += await self._step(plan, queue, descriptors, moves.get(queue))
                plan.gone_through += len(descriptors)
                for changed in filter(None, (queue, plan.to)):
                    self._changed(changed)
                await asyncio.sleep(_PAUSE_SECONDS)
        except PinLaterError as error:
            plan.error = str(error)
        finally:
            if moves:  # also those of a step that was not done to its end
                plan.changed = sum(move.moved for move in moves.values())
            action = f"{plan.action}-many" + (f"(to={plan.to})" if plan.to else "")
            audit.write(name, action, ",".join(plan.jobs)[:200], plan.changed)

    async def _step(self, plan: Plan, queue: str, descriptors: Sequence[str], move: Move | None) -> int:
        if move is not None:
            return await self._client.move_these(move, descriptors)
        if plan.action is Action.RETRY:
            return await self._client.retry_these(queue, descriptors, attempts=plan.attempts or 1)
        return await self._client.delete_these(queue, descriptors, plan.state)


async def _stop(plans: Iterable[Plan]) -> None:
    running = [plan for plan in plans if plan.task is not None and not plan.task.done()]
    for plan in running:
        plan.is_stopping = True
    tasks = [plan.task for plan in running if plan.task is not None]
    if not tasks:
        return
    _, late = await asyncio.wait(tasks, timeout=_FAREWELL_SECONDS)
    for plan in running:
        if plan.task in late:
            plan.error = "stopped"
            plan.task.cancel()
    if late:
        await asyncio.wait(late)
