"""The call that ends attempts: acks sent alone, or together with a dequeue."""

from __future__ import annotations

import asyncio
from typing import Any

from pinlater.protocol import messages as wire
from pinlater.server.api import rules
from pinlater.server.api.calls import Answer
from pinlater.server.api.offload import aside
from pinlater.server.broker import Broker, Caller
from pinlater.server.metrics import Metrics


class AckCall:
    """Carries out acks.

    Args:
        broker: on top of the store.
        metrics: told of what happens.
    """

    def __init__(self, broker: Broker, metrics: Metrics) -> None:
        self._broker = broker
        self._metrics = metrics

    async def answer(self, arguments: Any, _: Caller) -> Answer:
        """Carry out the acks of a call of their own."""
        if arguments.request.jobsSucceeded or arguments.request.jobsFailed:
            await self._settle(await _read(arguments.request))
        return Answer(None)

    async def start(self, request: wire.PinLaterJobAckRequest | None, caller: Caller) -> asyncio.Future[None] | None:
        """Start to carry out the acks of a dequeue, while that claims; return None if there are none.

        Raises:
            Exception: an ack cannot be understood; the others are carried out, and nothing is to be claimed.
        """
        if request is None or not (request.jobsSucceeded or request.jobsFailed):
            return None
        acks = await _read(request)
        request.jobsSucceeded = request.jobsFailed = None  # the call may wait for long, and there may be many like it
        if acks.faults:
            await self._settle(acks)
        acking = asyncio.ensure_future(self._settle(acks))
        # A wait for jobs would only delay the news that the acks went wrong.
        acking.add_done_callback(lambda done: caller.interrupt() if done.cancelled() or done.exception() else None)
        return acking

    async def _settle(self, acks: rules.Acks) -> None:
        """Carry out the acks that can be understood, then raise the fault of the first that cannot."""
        settled = await self._broker.ack(acks.queue, acks.succeeded, acks.failed)
        self._metrics.acks_succeeded.add(acks.queue, len(acks.succeeded))
        self._metrics.acks_failed.add(acks.queue, len(acks.failed))
        self._metrics.jobs_given_up.add(acks.queue, settled.failed)
        if settled.stale:
            self._metrics.stale_acks.add(acks.queue, settled.stale)
        if acks.faults:
            raise acks.faults[0]


async def _read(request: wire.PinLaterJobAckRequest) -> rules.Acks:
    count = len(request.jobsSucceeded or ()) + len(request.jobsFailed or ())
    return await aside(count, rules.read_acks, request)
