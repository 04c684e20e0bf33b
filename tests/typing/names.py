"""What mypy knows of the names that a program imports; it checks this module, and nobody runs it."""

from __future__ import annotations

from pinlater import Exponental  # type: ignore[attr-defined]
from pinlater.client import JobHandel  # type: ignore[attr-defined]
from pinlater.errors import EnqueueRejected, QueueNotFound, UnknownError
from pinlater.testing import FakeContxt  # type: ignore[attr-defined]

MISSPELT = (Exponental, JobHandel, FakeContxt)
REFUSALS = (EnqueueRejected, QueueNotFound, UnknownError)
