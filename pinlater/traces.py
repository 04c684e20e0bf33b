"""What all parts know of tracing, whether or not OpenTelemetry is there; ``pinlater.tracing`` does it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol, Self


class Sending(Protocol):
    """Surrounds one enqueue, of a job or of many."""

    @property
    def trace(self) -> Mapping[str, str] | None:
        """The trace context that the jobs carry; None: they carry none."""

    def __enter__(self) -> Self: ...

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None: ...

    def stored(self, queues: Collection[str], jobs: int, descriptor: str = "") -> None:
        """Note what was stored.

        Args:
            queues: where to.
            jobs: how many.
            descriptor: of the one, if it was enqueued by itself.
        """


class RunTrace(Protocol):
    """The trace of a run of a job."""

    @property
    def context(self) -> Mapping[str, str]:
        """The trace context of the run itself, as it travels."""

    def sending(self, queue: str) -> Sending:
        """Return what surrounds the enqueue of a follow-up job."""


class Untraced:
    """A ``Sending`` that makes no span.

    Args:
        trace: what the jobs carry all the same.
    """

    def __init__(self, trace: Mapping[str, str] | None = None) -> None:
        self.trace = trace

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def stored(self, queues: Collection[str], jobs: int, descriptor: str = "") -> None: ...
