"""Saves a running job's body, now: for checkpoints and finished steps."""

from __future__ import annotations

import logging
import time

from pinlater_supervisor import Child

from pinlater.errors import BodyTooLarge, CallError, CallUnsendable, EnqueueRejected, ServerError
from pinlater.wire.messages import (
    PinLaterCheckpointJobRequest,
    PinLaterCheckpointJobsRequest,
    RequestContext,
    arguments_of,
)
from pinlater.worker.batch import Batch, queue_of
from pinlater.worker.connector import Connector
from pinlater.worker.pipeline import Pipeline

_checkpoints_of = arguments_of("checkpointJobs")

log = logging.getLogger(__name__)


class Saver:
    """Sends checkpoints, and tries again for some time when there is no server.

    Args:
        pipeline: to send them through.
        connector: says how long to wait before another try.
        context: in whose name.
        child: the process; once it is to stop now, nothing is tried again.

    Attributes:
        is_saving: whether a call is under way.
    """

    is_saving = False

    def __init__(self, pipeline: Pipeline, connector: Connector, context: RequestContext, child: Child) -> None:
        self._pipeline = pipeline
        self._connector = connector
        self._context = context
        self._child = child

    @property
    def is_draining(self) -> bool:
        """Whether jobs should stop at their next checkpoint."""
        return self._child.draining

    def save(self, batch: Batch, position: int, body: bytes, patience_seconds: float) -> bool:
        """Replace a job's body; return False if no server took it within ``patience_seconds``.

        Raises:
            BodyTooLarge: the server takes none of that size.
        """
        self.is_saving = True
        try:
            return self._send(self._arguments(batch, position, body), patience_seconds)
        finally:
            self.is_saving = False

    def _send(self, arguments: object, patience_seconds: float) -> bool:
        deadline = time.monotonic() + patience_seconds
        while True:
            try:
                self._pipeline.open()
                self._pipeline.call("checkpointJobs", arguments)
            except (EnqueueRejected, CallUnsendable) as error:
                raise BodyTooLarge(str(error)) from error
            except (CallError, ServerError) as error:
                if time.monotonic() >= deadline or self._child.stopping_now:
                    log.warning("a checkpoint could not be saved: %s", error)
                    return False
                time.sleep(self._connector.delay_seconds)
            else:
                return True

    def _arguments(self, batch: Batch, position: int, body: bytes) -> object:
        descriptor = batch.descriptors[position]
        checkpoint = PinLaterCheckpointJobRequest(
            jobDescriptor=descriptor, newBody=body, claimDescriptor=batch.claim or None
        )
        return _checkpoints_of(self._context, PinLaterCheckpointJobsRequest(queue_of(descriptor), [checkpoint]))
