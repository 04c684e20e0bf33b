"""Tells whether ``run`` itself makes a call of its context, or a task or thread that it has started."""

from __future__ import annotations

import sys
from types import FrameType

from pinlater.jobs.job import Job


def is_called_by_run(job: Job) -> bool:
    """Return whether ``run`` of a job is among the callers; it is not in its other tasks and threads."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - the documented way to one's caller
    while frame is not None:
        code = frame.f_code
        if code.co_name == "run" and code.co_argcount and frame.f_locals.get(code.co_varnames[0]) is job:
            return True
        frame = frame.f_back
    return False
