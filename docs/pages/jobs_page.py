"""The page of what those who write jobs use."""

from __future__ import annotations

import inspect
import re
from dataclasses import MISSING, Field, fields
from typing import Any

from pages.class_sections import described
from pages.docstrings import prose
from pages.markdown import code, page, sentence, table
from pinlater.jobs.options import JobOptions


def jobs() -> str:
    """Return the page of what those who write jobs use."""
    return page(
        "Jobs: classes, options, context",
        "What a module of jobs imports from `pinlater`. Times are in seconds unless a name says otherwise.",
        '## Options of a job class\n\nThey stand in the header: `class Mail(Job, queue="mail", attempts=5)`.',
        table(("option", "default", "meaning"), option_rows()),
        described("jobs/job", "Job"),
        described("jobs/job", "RawJob"),
        described("jobs/context", "JobContext", base=("jobs/step_context", "StepContext")),
        described("jobs/retrying", "retrying"),
        described("jobs/retrying", "timed"),
        described("jobs/saga", "Saga"),
        "## Backoffs",
        *(described("model/backoff", name, level=3, methods=False) for name in ("Constant", "Linear", "Exponential")),
        "## What a job may raise, and meet",
        *(
            described("errors", name, level=3, methods=False)
            for name in (
                "Retry",
                "Discard",
                "JobTimeout",
                "JobStalled",
                "JobExpired",
                "StepTimeout",
                "StepMismatch",
                "SagaUndone",
                "UndoFailed",
                "JobInterrupted",
                "JobSleeps",
                "JobCancelled",
                "ClaimLost",
                "JobFailed",
                "JobWasCancelled",
                "JobGone",
                "JoinTimeout",
                "EventTimeout",
                "EventInvalid",
                "BodyInvalid",
                "BodyTooLarge",
            )
        ),
    )


def option_rows() -> list[tuple[str, str, str]]:
    """Return the options of a job class, with their defaults and what the docstring says of each."""
    meanings = dict(re.findall(r"^\* `(\w+)`: (.*)$", prose(inspect.getdoc(JobOptions) or ""), re.MULTILINE))
    return [(code(each.name), default_of(each), sentence(meanings[each.name])) for each in fields(JobOptions)]


def default_of(option: Field[Any]) -> str:
    """Return the default value of an option."""
    if option.default_factory is not MISSING:
        return code(repr(option.default_factory()))
    return "from the class" if option.default is MISSING else code(repr(option.default))
