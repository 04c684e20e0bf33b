"""Marks on the path of a call: which stage began when, at what processor time of the process, in which thread.

Functions are wrapped when the benchmark's own server starts (``benchmarks.marked_server``), so PinLater has no code for
this, and a server that is not measured pays nothing. A mark costs about a microsecond. It is written to a memory-mapped
file, which the benchmark reads while the server runs; all processes share the monotonic clock.
"""

from __future__ import annotations

import asyncio
import functools
import importlib
import inspect
import mmap
import struct
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

CAPACITY = 1_000_000
"""Maximum number of marks in a file; later ones are lost."""

_RECORD = struct.Struct("=qqqq")


class Mark(NamedTuple):
    """The beginning of a stage, in nanoseconds of the monotonic clock and of the process's processor time."""

    stage: str
    wall_ns: int
    cpu_ns: int
    thread: int


class Target(NamedTuple):
    """A function to be marked.

    Attributes:
        path: ``module:Class.function``.
        stage: stage that begins when the function is called; empty for none.
        then: stage that begins when it has returned; empty for none.
    """

    path: str
    stage: str
    then: str = ""


class Marks:
    """A file of marks.

    Args:
        path: path of the file.
        stages: all stages that can be marked.
        is_reader: whether another process writes the file; otherwise it is created empty.
    """

    def __init__(self, path: Path, stages: Sequence[str], *, is_reader: bool = False) -> None:
        self._stages = stages
        self._numbers = {stage: number for number, stage in enumerate(stages, 1)}
        if not is_reader:
            with path.open("wb") as file:
                file.truncate(CAPACITY * _RECORD.size)
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), CAPACITY * _RECORD.size)
        self._positions = count()
        self._read = 0

    def mark(self, stage: str) -> None:
        """Record that a stage begins now."""
        at = next(self._positions)
        if at < CAPACITY:
            numbers = self._numbers[stage], time.monotonic_ns(), time.process_time_ns(), threading.get_ident()
            _RECORD.pack_into(self._memory, at * _RECORD.size, *numbers)

    def read_new(self) -> list[Mark]:
        """Return the marks since the last call, in order of time."""
        found = []
        while self._read < CAPACITY:
            stage, wall_ns, cpu_ns, thread = _RECORD.unpack_from(self._memory, self._read * _RECORD.size)
            if not stage:
                break
            found.append(Mark(self._stages[stage - 1], wall_ns, cpu_ns, thread))
            self._read += 1
        return sorted(found, key=lambda mark: mark.wall_ns)

    @contextmanager
    def on(self, targets: Sequence[Target]) -> Iterator[None]:
        """Mark functions within the block."""
        found = [place for target in targets if (place := _find(target.path)) is not None]
        try:
            self.install(targets)
            yield
        finally:
            for owner, name, function in found:
                setattr(owner, name, function)

    def install(self, targets: Sequence[Target]) -> None:
        """Mark functions permanently; skip those that do not exist, whose time then counts for the stage before."""
        for target in targets:
            place = _find(target.path)
            if place is not None:
                owner, name, function = place
                setattr(owner, name, self._marked(function, target))

    def _marked(self, function: Callable[..., Any], target: Target) -> Callable[..., Any]:
        mark, stage, then = self.mark, target.stage, target.then

        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def wait(*args: Any, **named: Any) -> Any:
                if stage:
                    mark(stage)
                try:
                    return await function(*args, **named)
                finally:
                    if then:
                        mark(then)

            return wait

        @functools.wraps(function)
        def call(*args: Any, **named: Any) -> Any:
            if stage:
                mark(stage)
            result = function(*args, **named)
            if then and asyncio.isfuture(result):
                result.add_done_callback(lambda _: mark(then))  # before those that wait for it resume
            elif then:
                mark(then)
            return result

        return call


def missing(targets: Sequence[Target]) -> list[str]:
    """Return the paths of targets that no longer exist."""
    return [target.path for target in targets if _find(target.path) is None]


def _find(path: str) -> tuple[Any, str, Callable[..., Any]] | None:
    """Return the owner of a function, its name there, and the function; None if it does not exist."""
    module, _, dotted = path.partition(":")
    *owners, name = dotted.split(".")
    try:
        owner: Any = importlib.import_module(module)
        for part in owners:
            owner = getattr(owner, part)
        return owner, name, inspect.getattr_static(owner, name)
    except (ImportError, AttributeError):
        return None
