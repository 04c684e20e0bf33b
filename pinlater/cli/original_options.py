"""Translation of the original service's command lines, such as ``--mode create --queue q``."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import click

from pinlater.model.state import JobState

_OPTIONS = (
    "host",
    "port",
    "mode",
    "queue",
    "concurrency",
    "batch_size",
    "num_queries",
    "dequeue_success_percent",
    "job_descriptor",
    "priority",
    "job_state",
    "count_future_jobs",
)
_Given = dict[str, str]


def is_original(words: Sequence[str]) -> bool:
    """Tell whether a command line is one of the original tool: only these have ``--mode``."""
    return any(word.startswith("--") for word in words[:1]) and any(
        word.partition("=")[0] == "--mode" for word in words
    )


def translate(words: Sequence[str]) -> list[str]:
    """Translate a command line of the original tool.

    Raises:
        click.UsageError: an option is unknown, has no value or is missing, or the mode is unknown.
    """
    given = _read(words)
    mode = given["mode"]
    if mode not in _MODES:
        raise click.UsageError(f"--mode {mode} is not a mode of the original tool: {', '.join(_MODES)}.")
    server = ["--server", f"{given.get('host', 'localhost')}:{given.get('port', '9010')}"]
    return [*(server if {"host", "port"} & given.keys() else ()), *_MODES[mode](given)]


def _read(words: Sequence[str]) -> _Given:
    given: _Given = {}
    rest = iter(words)
    for word in rest:
        name, equals, value = word.removeprefix("--").partition("=")
        if not word.startswith("--") or name not in _OPTIONS:
            raise click.UsageError(
                f"{word} is not an option of the original tool, which --mode belongs to; without --mode, see "
                "pinlater --help."
            )
        if not equals:
            value = next(rest, "")
        if not value:
            raise click.UsageError(f"--{name} needs a value.")
        given[name] = value
    return given


def _needed(given: _Given, name: str) -> str:
    if name not in given:
        raise click.UsageError(f"--mode {given['mode']} needs --{name}.")
    return given[name]


def _passed_on(given: _Given, *names: str) -> list[str]:
    return [word for name in names if name in given for word in (f"--{name.replace('_', '-')}", given[name])]


def _load(given: _Given) -> list[str]:
    options = ("num_queries", "batch_size", "concurrency", "dequeue_success_percent", "priority")
    return ["load", given["mode"], _needed(given, "queue"), *_passed_on(given, *options)]


def _count(given: _Given) -> list[str]:
    number = given.get("job_state", "0")
    if number not in {str(state.value) for state in JobState}:
        states = ", ".join(f"{state.value} {state.name.lower()}" for state in JobState)
        raise click.UsageError(f"--job_state {number} is not a state; write one of {states}.")
    state = JobState(int(number)).name.lower().replace("_", "-")
    future = ["--future"] if given.get("count_future_jobs", "").lower() == "true" else []
    return ["count", _needed(given, "queue"), "--state", state, *_passed_on(given, "priority"), *future]


_MODES: dict[str, Callable[[_Given], list[str]]] = {
    "create": lambda given: ["create-queue", _needed(given, "queue")],
    "enqueue": _load,
    "dequeue": _load,
    "check_dequeue": lambda given: ["dequeue", _needed(given, "queue"), "--dry-run"],
    "lookup": lambda given: ["lookup", _needed(given, "job_descriptor"), "--body"],
    "get_job_count": _count,
    "get_queue_names": lambda _given: ["queues"],
}
"""Mode of the original tool -> translation of its options."""
