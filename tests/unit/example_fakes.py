"""A job context without a worker, for the jobs of jobs_example."""

import logging

import msgspec

from pinlater import JobContext, JobInterrupted


class FakeContext(JobContext):
    """Keeps what the job saves; ``interrupt_after`` checkpoints the worker drains."""

    def __init__(self, *, attempt=1, interrupt_after=None, steps=None):
        self.descriptor = "q:s1:p1:42"
        self.queue = "q"
        self.attempt = attempt
        self.attempts_allowed = 5
        self.log = logging.LoggerAdapter(logging.getLogger("test"))
        self.checkpoints = 0
        self.interrupt_after = interrupt_after
        self.steps = {} if steps is None else steps
        self.ran = []

    @property
    def is_draining(self):
        return self.interrupt_after is not None and self.checkpoints >= self.interrupt_after

    def checkpoint(self, *, flush=False):
        self.checkpoints += 1
        if self.is_draining:
            raise JobInterrupted

    def step(self, name, function, /, *args, **kwargs):
        if name not in self.steps:
            self.ran.append(name)
            self.steps[name] = msgspec.json.decode(msgspec.json.encode(function(*args, **kwargs)))
        return self.steps[name]
