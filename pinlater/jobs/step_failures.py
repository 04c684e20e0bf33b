"""The step in which an exception was raised, noted on the exception."""

from __future__ import annotations

import json

_NOTE = "in step "


def note_step(error: Exception, name: str) -> None:
    """Add a note to an exception that says in which step it was raised; of nested steps, the inner one comes first."""
    error.add_note(_NOTE + json.dumps(name, ensure_ascii=False))


def step_note(error: BaseException) -> str:
    """Return the note of the innermost step; empty if the exception was not raised in a step."""
    notes = getattr(error, "__notes__", None)
    found = (note for note in notes if isinstance(note, str) and note.startswith(_NOTE)) if notes else ()
    return next(iter(found), "")
