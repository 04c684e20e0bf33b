"""Counts what some work makes Python and SQLite do: unlike times, counts are the same on every machine."""

import gc
import sqlite3
import sys
from pathlib import Path

_OURS = str(Path(__file__).parents[2] / "pinlater")


def functions_called(work):
    """Return how many functions of ours some work calls, constructors of named tuples and structs included."""
    count = 0

    def note(frame, event, _):
        nonlocal count
        if event == "call" and frame.f_code.co_filename.startswith((_OURS, "<")):
            count += 1

    before = sys.getprofile()
    gc.disable()  # it would call functions that belong to other tests
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
        gc.enable()
    return count


def instructions(connection: sqlite3.Connection, work):
    """Return how many instructions of SQLite's machine some work takes."""
    count = 0

    def note():
        nonlocal count
        count += 1
        return 0

    connection.set_progress_handler(note, 1)
    try:
        work()
    finally:
        connection.set_progress_handler(None, 0)
    return count
