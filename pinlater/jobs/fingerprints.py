"""Fingerprints of calls, by which changed code detects that a result was recorded for a different call.

A fingerprint has six characters: two for the function's name, four for the arguments. Those of all uses of a step's
name are stored in one text, in the order of the uses, behind the name of the first use's function:
``resize/Ab3xQ9Zk01...``
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from hashlib import blake2b
from typing import Any

import msgspec

from pinlater.jobs.job import Job
from pinlater.jobs.name_counter import use_of
from pinlater.jobs.outside_steps import StepResults
from pinlater.jobs.step_functions import name_of

FUNCTION_WIDTH, WIDTH = 2, 6
"""Characters of a fingerprint: those for the function, and all of them."""
_UNKNOWN = "." * WIDTH
_MOST_NAME = 60
_MOST_ARGUMENT, _MOST_ARGUMENTS = 60, 200
encode_stable = msgspec.json.Encoder(order="deterministic").encode


def fingerprint(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    """Return the fingerprint of a call.

    Arguments that may differ between attempts although they mean the same are left out: the job, and what JSON cannot
    carry, such as connections and functions.
    """
    stable = [[stable_value(value) for value in args], {name: stable_value(value) for name, value in kwargs.items()}]
    return _of_name(name_of(function)) + characters(encode_stable(stable), WIDTH - FUNCTION_WIDTH)


def stable_value(value: Any) -> Any:
    """Return what to compare of a value: the same whenever it means the same; None if JSON cannot carry it."""
    if isinstance(value, Job):  # its fields change while it runs, and with them what the next attempt begins with
        return None
    try:
        return msgspec.to_builtins(value, str_keys=True, order="deterministic", enc_hook=_without_form)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return None


def _without_form(_: object) -> None:
    """Replace what JSON cannot carry by None."""


@lru_cache(1024)
def _of_name(name: str) -> str:
    return characters(name.encode(errors="replace"), FUNCTION_WIDTH)


def characters(data: bytes, number: int) -> str:
    """Return the first characters of a hash of ``data``."""
    return urlsafe_b64encode(blake2b(data, digest_size=6).digest()).decode()[:number]


class Fingerprints:
    """The fingerprints of a run's steps.

    Args:
        texts: name of a step, without the number of a use -> its text, see above.
        prints: name of a step -> its fingerprint; used if some results are outside the body, and then the texts have
            only the names of functions.
        outside: results outside the body, with their fingerprints.
    """

    def __init__(self, texts: dict[str, str], prints: dict[str, str], outside: StepResults) -> None:
        self._texts = texts
        self._prints = prints
        self._outside = outside

    def record(self, key: str, function: Callable[..., Any], found: str) -> None:
        """Record the fingerprint of a step that has finished."""
        name, number = use_of(key)
        if self._outside.steps:
            self._prints[key] = found
            if name not in self._texts and name not in self._outside.functions:
                self._texts[name] = f"{_head_of(function)}/"
            return
        head, _, cells = self._texts.get(name, f"{_head_of(function)}/").partition("/")
        cells = cells.ljust((number - 1) * WIDTH, ".")
        self._texts[name] = f"{head}/{cells[: (number - 1) * WIDTH]}{found}{cells[number * WIDTH :]}"

    def recorded(self, key: str) -> str:
        """Return the fingerprint of a step; empty if unknown, as for steps recorded by an older version."""
        name, number = use_of(key)
        cells = self._texts.get(name, "").partition("/")[2]
        found = cells[(number - 1) * WIDTH : number * WIDTH] or self._prints.get(key, "")
        found = found or self._outside.prints.get(key, "")
        return "" if found == _UNKNOWN else found

    def all_recorded(self, keys: Iterable[str]) -> dict[str, str]:
        """Return the known fingerprints of steps."""
        return {key: found for key in keys if (found := self.recorded(key))}

    def forget(self, moved: Iterable[str], all_keys: Iterable[str]) -> None:
        """Remove the fingerprints of steps whose results have moved out of the body; they have moved, too.

        Args:
            moved: names of these steps.
            all_keys: names of all steps that had results in the body.
        """
        moved = set(moved)
        rest, functions = self.all_recorded(key for key in all_keys if key not in moved), self.functions()
        self._texts.clear()
        self._prints.clear()
        self._prints.update(rest)
        for name in {use_of(key)[0] for key in rest} - self._outside.functions.keys():
            self._texts[name] = f"{functions.get(name, '')}/"

    def functions(self) -> dict[str, str]:
        """Return the function names in the body, by step name."""
        return {name: text.partition("/")[0] for name, text in self._texts.copy().items()}

    def difference(self, key: str, function: Callable[..., Any], found: str) -> str:
        """Return how a recorded call differs from the present one; empty if it does not, as far as known."""
        recorded = self.recorded(key)
        if recorded in {"", found}:
            return ""
        head = (self._outside.functions | self.functions()).get(use_of(key)[0], "")
        text = difference(recorded, found, name_of(function), head)
        other = self._use_with(key, found)
        return f"{text}; this call was recorded as {other!r}" if other else text

    def _use_with(self, key: str, found: str) -> str:
        """Return the use of a step's name that was recorded with the fingerprint ``found``; empty if there is none."""
        name = use_of(key)[0]
        for other, known in (self._outside.prints | self._prints).items():
            if known == found and use_of(other)[0] == name:
                return other
        cells = self._texts.get(name, "").partition("/")[2]
        for start in range(0, len(cells), WIDTH):
            if cells.startswith(found, start):
                return name if start == 0 else f"{name}#{start // WIDTH + 1}"
        return ""


def difference(recorded: str, found: str, name: str, head: str) -> str:
    """Return how a recorded call differs from the present one, given their fingerprints.

    Args:
        recorded: fingerprint of the recorded call.
        found: fingerprint of the present call.
        name: name of what is called now.
        head: name that is stored before the recorded fingerprint.
    """
    if recorded[:FUNCTION_WIDTH] == found[:FUNCTION_WIDTH]:
        return f"the recorded one is a call of {name} with other arguments"
    known = head if _of_name(head) == recorded[:FUNCTION_WIDTH] else "another function"
    return f"the recorded one is a call of {known}"


def _head_of(function: Callable[..., Any]) -> str:
    return name_of(function).replace("/", "")[:_MOST_NAME]


def call_text(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    """Return a call as it would stand in source code, shortened."""
    given = [shortened(value) for value in args] + [f"{name}={shortened(value)}" for name, value in kwargs.items()]
    text = ", ".join(given)
    return f"{name_of(function)}({text if len(text) <= _MOST_ARGUMENTS else text[:_MOST_ARGUMENTS] + '…'})"


def shortened(value: Any) -> str:
    """Return the ``repr`` of a value, or its beginning."""
    try:
        text = repr(value)
    except Exception as error:  # noqa: BLE001 - it is the job's own code
        text = f"<{type(value).__name__}: {type(error).__name__}>"
    return text if len(text) <= _MOST_ARGUMENT else text[:_MOST_ARGUMENT] + "…"
