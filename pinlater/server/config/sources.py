"""Read settings from ``KEY=VALUE`` files, the environment and options.

The syntax of a file is a safe part of systemd's ``EnvironmentFile=``: one ``KEY=VALUE`` a line, comments on separate
lines after ``#`` or ``;``, values in single or double quotes if needed. A line that systemd would read differently (an
open quote, a backslash outside quotes) is refused. ``KEY : VALUE`` and comments after ``!``, as in the Java properties
files of the original service, are accepted as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from pinlater.errors import ConfigError

ENVIRONMENT_PREFIX = "PINLATER_"

_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SEPARATOR = re.compile(r"\s*[=:]\s*")
_ESCAPED = re.compile(r'\\(["\\`$])')


class Entry(NamedTuple):
    """One assignment, and its place for error messages."""

    key: str
    value: str
    place: str


def from_file(file: Path) -> Iterator[Entry]:
    """Read the assignments of a file.

    Raises:
        ConfigError: it cannot be read, or a line is not ``KEY=VALUE``.
    """
    try:
        content = file.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ConfigError(f"{file}: the settings cannot be read: {error.strerror}; check the path") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{file}: is not UTF-8 text; write KEY=VALUE lines") from None
    # Not splitlines(): it also cuts at form feeds and other characters that no editor counts as a line.
    for number, line in enumerate(content.split("\n"), start=1):
        stripped = line.strip()
        if stripped and stripped[0] not in "#;!":
            yield _entry(stripped, f"{file}:{number}")


def from_environment(environ: Mapping[str, str]) -> Iterator[Entry]:
    """Read the variables with our prefix; the key is the full name of the variable."""
    for name in sorted(environ):
        if name.startswith(ENVIRONMENT_PREFIX):
            yield Entry(name, environ[name].strip(), "environment")


def from_options(options: Mapping[str, str]) -> Iterator[Entry]:
    """Read the options of the command line."""
    for key, value in options.items():
        yield Entry(key, value.strip(), "option")


def _entry(line: str, place: str) -> Entry:
    key, *values = _SEPARATOR.split(line, maxsplit=1)
    if not values or not _KEY.fullmatch(key):
        hint = "leave out 'export'" if key.startswith("export ") else "write KEY=VALUE; comments start with #"
        raise ConfigError(f"{place}: {line[:60]!r} is not KEY=VALUE; {hint}")
    return Entry(key, _unquoted(values[0], f"{place}: {key}"), place)


def _unquoted(value: str, place: str) -> str:
    quote = value[:1]
    if quote not in ("'", '"'):
        if "\\" in value:
            raise ConfigError(f"{place}: contains a backslash; put the value in single quotes")
        return value
    inner = value[1:-1]
    bare = inner if quote == "'" else _ESCAPED.sub("", inner)
    if len(value) < 2 or value[-1] != quote or quote in bare or (quote == '"' and bare.endswith("\\")):
        raise ConfigError(f"{place}: the quote {quote} is not closed at the end of the line; add the closing quote")
    return inner if quote == "'" else _ESCAPED.sub(r"\1", inner)
