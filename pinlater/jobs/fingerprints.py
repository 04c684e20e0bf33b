"""Fingerprints of calls: by them, changed code notices that a result was recorded for another call than its own.

A fingerprint has six characters: two of the function's name, four of the arguments. Those of all uses of a step's name
are kept in one text, in the order of the uses, behind the name of the first use's function: ``resize/Ab3xQ9Zk01...``
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
"""Characters of a fingerprint: those of the function, and all."""
_UNKNOWN = "." * WIDTH
_MOST_NAME = 60
_MOST_ARGUMENT, _MOST_ARGUMENTS = 60, 200
encode_stable = msgspec.json.Encoder(order="deterministic").encode


def fingerprint(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    """Return the fingerprint of a call.

    Arguments that differ from attempt to attempt although they mean the same are left out: the job, and what has no
    form in JSON, such as connections and functions.
    """
    stable = [[_stable(value) for value in args], {name: _stable(value) for name, value in kwargs.items()}]
    return _of_name(name_of(function)) + characters(encode_stable(stable), WIDTH - FUNCTION_WIDTH)


def _stable(value: Any) -> Any:
    if isinstance(value, Job):  # its fields change while it runs, and with them what the next attempt begins with
        return None
    try:
        return msgspec.to_builtins(value, str_keys=True, order="deterministic", enc_hook=_without_form)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return None


def _without_form(_: object) -> None:
    """Stand in for what has no form in JSON."""


@lru_cache(1024)
def _of_name(name: str) -> str:
    return characters(name.encode(errors="replace"), FUNCTION_WIDTH)


def characters(data: bytes, number: int) -> str:
    """Return the first characters of a hash of ``data``."""
    return urlsafe_b64encode(blake2b(data, digest_size=6).digest()).decode()[:number]


class Fingerprints:
    """The fingerprints of a run's steps.

    Args:
        texts: where they are kept: name of the steps -> see above.
        prints: where they are kept if some results are outside of the body: name of the step -> its fingerprint; the
            texts then only have names of functions.
        outside: those of results outside of the body.
    """

    def __init__(self, texts: dict[str, str], prints: dict[str, str], outside: StepResults) -> None:
        self._texts = texts
        self._prints = prints
        self._outside = outside

    def record(self, key: str, function: Callable[..., Any], found: str) -> None:
        """Keep the fingerprint of a step that has finished."""
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
        """Return the fingerprint of a step; empty if none is known, as of steps of an older version."""
        name, number = use_of(key)
        cells = self._texts.get(name, "").partition("/")[2]
        found = cells[(number - 1) * WIDTH : number * WIDTH] or self._prints.get(key, "")
        found = found or self._outside.prints.get(key, "")
        return "" if found == _UNKNOWN else found

    def all_recorded(self, keys: Iterable[str]) -> dict[str, str]:
        """Return the fingerprints of steps, without those that are not known."""
        return {key: found for key in keys if (found := self.recorded(key))}

    def forget(self, moved: Iterable[str], all_keys: Iterable[str]) -> None:
        """Forget the fingerprints of steps whose results have moved out of the body; these are outside, too.

        Args:
            moved: names of these steps.
            all_keys: names of all steps of which the body had results.
        """
        moved = set(moved)
        rest, functions = self.all_recorded(key for key in all_keys if key not in moved), self.functions()
        self._texts.clear()
        self._prints.clear()
        self._prints.update(rest)
        for name in {use_of(key)[0] for key in rest} - self._outside.functions.keys():
            self._texts[name] = f"{functions.get(name, '')}/"

    def functions(self) -> dict[str, str]:
        """Return the names of functions that the body has, by the names of the steps."""
        return {name: text.partition("/")[0] for name, text in self._texts.copy().items()}

    def difference(self, key: str, function: Callable[..., Any], found: str) -> str:
        """Return in what a recorded call differs from the present one; empty if in nothing, as far as known."""
        recorded = self.recorded(key)
        if recorded in {"", found}:
            return ""
        head = (self._outside.functions | self.functions()).get(use_of(key)[0], "")
        text = difference(recorded, found, name_of(function), head)
        other = self._use_with(key, found)
        return f"{text}; this call was recorded as {other!r}" if other else text

    def _use_with(self, key: str, found: str) -> str:
        """Return the use of the step's name that has a fingerprint; empty if none."""
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
    """Return in what a recorded call differs from the present one, given their fingerprints.

    Args:
        recorded: fingerprint of the recorded one.
        found: that of the present one.
        name: of what is called now.
        head: name under which the recorded one is kept.
    """
    if recorded[:FUNCTION_WIDTH] == found[:FUNCTION_WIDTH]:
        return f"the recorded one is a call of {name} with other arguments"
    known = head if _of_name(head) == recorded[:FUNCTION_WIDTH] else "another function"
    return f"the recorded one is a call of {known}"


def _head_of(function: Callable[..., Any]) -> str:
    return name_of(function).replace("/", "")[:_MOST_NAME]


def call_text(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    """Return a call as people write it, shortened."""
    given = [shortened(value) for value in args] + [f"{name}={shortened(value)}" for name, value in kwargs.items()]
    text = ", ".join(given)
    return f"{name_of(function)}({text if len(text) <= _MOST_ARGUMENTS else text[:_MOST_ARGUMENTS] + '…'})"


def shortened(value: Any) -> str:
    """Return a value as Python writes it, or the beginning of that."""
    try:
        text = repr(value)
    except Exception as error:  # noqa: BLE001 - it is the job's own code
        text = f"<{type(value).__name__}: {type(error).__name__}>"
    return text if len(text) <= _MOST_ARGUMENT else text[:_MOST_ARGUMENT] + "…"
