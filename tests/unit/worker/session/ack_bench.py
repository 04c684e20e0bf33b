"""An ack buffer on a pipeline that only takes notes."""

from pinlater.protocol.operations import Calls
from pinlater.worker.claim_table.snapshot import SUCCEEDED
from pinlater.worker.session.ack_buffer import AckBuffer
from tests.unit.worker.fakes import FakePipeline, batch_of, new_row


class Bench:
    def __init__(self):
        self.pipeline = FakePipeline()
        self.retries = []
        self.row = new_row()
        self.counted = []
        self.ack_buffer = AckBuffer(
            self.pipeline,
            Calls("me", is_plain=True),
            self.retries.append,
            lambda *event: self.counted.append(event),
        )

    @property
    def held(self):
        """The descriptors in the claim table: the keeper renews their claims."""
        return [job.descriptor for batch in self.row.snapshot().batches for job in batch.jobs]

    def batch(self, *descriptors, **options):
        return batch_of(*descriptors, row=self.row, **options)

    def succeed(self, batch, *positions):
        for position in positions:
            batch.area.states[position] = SUCCEEDED
            self.ack_buffer.succeeded(batch.descriptors[position].split(":")[0], (batch, position))


def acked(request):
    return [info.jobDescriptor for info in request.jobsSucceeded or ()]
