"""Output of results: aligned tables, JSON, and bytes made safe for terminals."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import click

from pinlater.logs import utc_text
from pinlater.model.state import JobState

if TYPE_CHECKING:
    from pinlater.model.jobs import JobInfo
    from pinlater.model.progress import Progress

_BAR_WIDTH = 20
_GAP = "  "
_LONGEST_RESULT = 2000


def visible(text: str) -> str:
    """Return text on one line, with control characters escaped."""
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode("ascii") for letter in text
    )


def result_text(result: bytes) -> str:
    """Format the result of a job for people, without its end if it is long."""
    text = body_text(result)
    return text if len(text) <= _LONGEST_RESULT else f"{text[: _LONGEST_RESULT - 1]}…"


def body_text(body: bytes | None) -> str:
    """Format a body for people: UTF-8 as text, other bytes as hexadecimal escapes."""
    return visible((body or b"").decode("utf-8", "backslashreplace"))


def bytes_json(name: str, value: bytes | None) -> dict[str, str]:
    """Return bytes as the JSON field ``<name>`` if they are UTF-8, or else ``<name>_base64``; no field for None."""
    if value is None:
        return {}
    try:
        return {name: value.decode("utf-8")}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(value).decode("ascii")}


def moment(epoch_ms: int | None) -> str:
    """Format a moment in UTC, as in logs; ``-`` for None and 0."""
    if not epoch_ms:
        return "-"
    try:
        return utc_text(epoch_ms / 1000)
    except (ValueError, OverflowError, OSError):
        return f"{epoch_ms} ms"


def duration(seconds: float) -> str:
    """Format a duration in a suitable unit."""
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.1f} s"


def job_json(info: JobInfo) -> dict[str, Any]:
    """Return a job as JSON values; times are epoch milliseconds."""
    fields = info._asdict()
    body, result = fields.pop("body"), fields.pop("result")
    fields["state"] = info.state.name
    fields["is_retrying"] = info.is_retrying
    fields["failure_group"] = None if info.failure_group is None else group_json(info.failure_group)
    return fields | bytes_json("body", body) | bytes_json("result", result)


def group_json(group: int) -> str:
    """Return the id of a failure group as JSON value: a text, since many programs round numbers above 2**53."""
    return str(group)


def state_text(info: JobInfo) -> str:
    """Return the state of a job, whether it retries, and whether it was cancelled or is asked to stop."""
    if not info.is_cancelled:
        return "RETRYING" if info.is_retrying else info.state.name
    return "CANCELLED" if info.state is JobState.FAILED else f"{info.state.name} (asked to stop)"


def key_text(info: JobInfo) -> str:
    """Format the key of a job with the rule by which its jobs run; ``-`` if it has none."""
    if info.key is None:
        return "-"
    text, max_running, is_ordered, rate = info.key
    rule = "one at a time, in order" if is_ordered else f"{max_running} at once" if max_running else "in turns"
    return f"{visible(text)} ({rule}{'' if rate is None else f', at most {rate}'})"


def published_text(fields: Mapping[str, Any]) -> str:
    """Format the fields that a job has published: texts as they are, other values as JSON."""
    texts = (
        f"{name}={value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
        for name, value in fields.items()
    )
    return visible(", ".join(texts))


def progress_text(progress: Progress) -> str:
    """Format the progress of a job: bar, percentage and amounts as far as known, and the note."""
    fraction = progress.fraction
    if fraction is None:
        text = f"{progress.done:,.12g}"
    else:
        filled = int(fraction * _BAR_WIDTH)
        bar = "#" * filled + "-" * (_BAR_WIDTH - filled)
        text = f"[{bar}] {int(fraction * 100)}% ({progress.done:,.12g} of {progress.total:,.12g})"
    return f"{text}  {visible(progress.note)}".rstrip()


def left_out(shards: Iterable[str]) -> str:
    """Say that the jobs of these shards are left out."""
    names = sorted(shards)
    return (
        f"shard {names[0]} does not answer: its jobs are left out"
        if len(names) == 1
        else f"shards {', '.join(names)} do not answer: their jobs are left out"
    )


def some_jobs(number: int) -> str:
    """Format a number of jobs."""
    return "1 job" if number == 1 else f"{number} jobs"


def print_json(value: Any) -> None:
    """Print a JSON document on one line, in ASCII, so that it is safe for terminals; named tuples become objects."""
    click.echo(json.dumps(_named(value)))


def _named(value: Any) -> Any:
    """Return a value with the names of the fields of all named tuples in it; JSON would make them lists."""
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, Mapping):
        return {name: _named(each) for name, each in value.items()}
    return list(map(_named, value)) if isinstance(value, list | tuple) else value


def print_bytes(data: bytes) -> None:
    """Print bytes unchanged."""
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def print_fields(fields: Iterable[tuple[str, str]]) -> None:
    """Print names and values, one field a line."""
    fields = list(fields)
    width = max((len(name) for name, _ in fields), default=0)
    for name, value in fields:
        click.echo(f"{name.ljust(width)}{_GAP}{value}".rstrip())
