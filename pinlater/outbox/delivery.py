"""Sends the batches of an outbox to a server, and decides what happens to those that fail."""

from __future__ import annotations

import logging
import time
from collections import Counter
from dataclasses import replace

from pinlater.client.client import Client
from pinlater.client.servers import STORE_OUT_OF_REACH, ServerSet
from pinlater.errors import (
    CallError,
    CallUnsendable,
    ClientError,
    JobError,
    PinLaterError,
    ProtocolError,
    QueueNameInvalid,
    QueueNameTooLong,
    QueueNotFound,
    ServerError,
)
from pinlater.jobs.follow_ups import KEPT_MS
from pinlater.model.plural import plural
from pinlater.outbox.batch import OutboxBatch
from pinlater.outbox.turn import Settlement
from pinlater.protocol.repeating import never
from pinlater.protocol.stored_jobs import needs_its_shard

_TIMEOUT_SECONDS = 10.0
_PATIENCE_SECONDS = 0.5
_FIRST_PAUSE_SECONDS = 0.05
_LONGEST_PAUSE_SECONDS = 2.0
_MOST_TRIES = 5
_MOST_TRIES_OF_SUSPECT = 30  # about a minute
_SECONDS_BETWEEN_WARNINGS = 60.0

log = logging.getLogger("pinlater.outbox")


class DeliveryClient(Client):
    """A client that makes calls with given idempotency keys, and repeats them only with servers that recognize keys."""

    def __init__(self, servers: ServerSet, source: str | None) -> None:
        super().__init__(servers, source=source, timeout=_TIMEOUT_SECONDS, patience=_PATIENCE_SECONDS)

    def deliver(self, batch: OutboxBatch) -> None:
        """Enqueue the jobs of a batch, unless a call with its key has already done so.

        Raises:
            BodyInvalid: a newer version has stored a row, or somebody has changed it by hand.
            PinLaterError: as in ``Client.enqueue``.
        """
        call = self._calls.enqueue_once(
            batch.queue, batch.jobs(), batch.key, is_repeat=batch.is_repeat, keep_result_ms=KEPT_MS
        )
        self._execute(replace(call, is_repeatable=never))


class Delivery:
    """Delivers batches in their order, and returns what to write about them into the table.

    A batch that the server refuses is divided until the bad job is alone; that job is set aside, and tried again later.
    While no server answers, everything waits. If the server answers with an error of its own, the batch is tried a few
    times, then divided or set aside. If the next batch fails, too, the server is the suspect: all jobs wait for it, and
    one more is set aside each minute until a batch is delivered. A job that was set aside before delays no others.

    Args:
        client: client of the servers.
    """

    def __init__(self, client: DeliveryClient) -> None:
        self._client = client
        self._tries: Counter[bytes] = Counter()  # by key
        self._is_server_suspect = False
        self._pause_seconds = 0.0
        self._next_warning = 0.0

    def deliver(self, batches: list[OutboxBatch]) -> Settlement:
        """Send batches in order, unless they have to wait for the server; return what became of them."""
        settlement = Settlement()
        divided: set[str] = set()
        for batch in batches:
            if batch.queue in divided:
                continue  # earlier jobs of its queue are to be tried again first
            if not self._send(batch, settlement):
                break
            if batch in settlement.divided:
                divided.add(batch.queue)
        return settlement

    def _send(self, batch: OutboxBatch, settlement: Settlement) -> bool:
        """Send a batch; return whether the next one may be sent."""
        try:
            self._client.deliver(batch)
        except (ClientError, CallUnsendable, JobError) as error:
            is_of_all = isinstance(error, (QueueNotFound, QueueNameInvalid, QueueNameTooLong))
            self._refuse(batch, error, settlement, may_divide=not is_of_all)
        except PinLaterError as error:
            return self._go_on_after(error, batch, settlement)
        else:
            self._record_delivery(batch, settlement)
        self._pause_seconds, self._next_warning = 0.0, 0.0
        return True

    def _record_delivery(self, batch: OutboxBatch, settlement: Settlement) -> None:
        settlement.delivered.append(batch)
        self._tries.clear()
        self._is_server_suspect = False
        if batch.is_repeat and batch.age_seconds * 1000 > KEPT_MS:
            log.warning(
                "%s for queue %s first sent more than a day ago, and nobody knows whether that arrived then: "
                "sent again, so it may be stored twice", plural(len(batch.ids)), batch.queue,
            )  # fmt: skip

    def _go_on_after(self, error: PinLaterError, batch: OutboxBatch, settlement: Settlement) -> bool:
        """Wait for the server, or set the batch aside if it caused the error; return whether to send the next one."""
        if isinstance(error, STORE_OUT_OF_REACH) or (
            isinstance(error, CallError) and not isinstance(error, ProtocolError)
        ):
            self._tries.clear()
        elif self._is_to_blame(batch):
            self._blame(batch, error, settlement)
            return True
        self._wait(error, settlement)
        return False

    def _is_to_blame(self, batch: OutboxBatch) -> bool:
        """Count a try that the server has answered with an error; return whether the batch has had enough of them."""
        self._tries[batch.key] += 1
        most = _MOST_TRIES_OF_SUSPECT if self._is_server_suspect else _MOST_TRIES
        return batch.was_refused or self._tries[batch.key] >= most

    def _blame(self, batch: OutboxBatch, error: PinLaterError, settlement: Settlement) -> None:
        # One of several shards may have stored its part of jobs with keys: only the same call can store the rest.
        is_whole = isinstance(error, ServerError) and not any(map(needs_its_shard, batch.jobs()))
        self._refuse(batch, error, settlement, may_divide=is_whole)
        if not batch.was_refused:  # another error of that batch says nothing new about the server
            self._is_server_suspect = batch not in settlement.divided

    def _wait(self, error: PinLaterError, settlement: Settlement) -> None:
        self._pause_seconds = min(max(self._pause_seconds * 2, _FIRST_PAUSE_SECONDS), _LONGEST_PAUSE_SECONDS)
        settlement.pause_seconds = self._pause_seconds
        if time.monotonic() >= self._next_warning:
            log.warning("jobs wait in the outbox: %s", error)
            self._next_warning = time.monotonic() + _SECONDS_BETWEEN_WARNINGS

    def _refuse(self, batch: OutboxBatch, error: PinLaterError, settlement: Settlement, *, may_divide: bool) -> None:
        if may_divide and len(batch.ids) > 1:
            settlement.divided.append(batch)
            return
        settlement.refused.append((batch, f"{type(error).__name__}: {error}"))
        log.error(
            "%s for queue %s cannot be delivered, rows %s; tried again later: %s",
            plural(len(batch.ids)), batch.queue, ", ".join(map(str, batch.ids[:10])), error,
        )  # fmt: skip
