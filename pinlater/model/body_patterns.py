"""Patterns that find jobs by their class and arguments, for the server's search of bodies (``body_regex``)."""

from __future__ import annotations

import json
import re

from pinlater.model.kept_mark import KEPT_MARK

_FIELD = re.compile(r"\s*([A-Za-z_]\w*)\s*=\s*(.+?)\s*", re.ASCII | re.DOTALL)
_PATTERN = re.compile(r"/(.+)/", re.DOTALL)
_COLON = r"\s*:\s*"


def class_pattern(name: str) -> str:
    """Return the pattern of the bodies of a job class, including those whose step results are stored elsewhere."""
    return f'"job"{_COLON}(?:{_string(name)}|{_string(name + KEPT_MARK)})'


def argument_pattern(text: str) -> str:
    """Return the pattern of the bodies with an argument.

    Args:
        text: ``user_id=42`` for a field with this value; ``/pattern/`` for a regular expression; any other text as it
            stands in the body.
    """
    pattern = _PATTERN.fullmatch(text)
    if pattern is not None:
        return pattern[1]
    field = _FIELD.fullmatch(text)
    if field is None:
        return _either(text)
    name, value = field[1], field[2]
    ways = re.escape(value) if value[0] == value[-1:] == '"' else f"(?:{re.escape(value)}|{_string(value)})"
    return rf'"{name}"{_COLON}{ways}\s*[,}}]'


def body_pattern(job: str, argument: str) -> str:
    """Return the pattern of the bodies of a class with an argument; empty values match any."""
    patterns = [pattern for pattern in (job and class_pattern(job), argument and argument_pattern(argument)) if pattern]
    if len(patterns) < 2:
        return patterns[0] if patterns else ""
    first, second = patterns
    return f"(?s:{first}.*(?:{second})|(?:{second}).*{first})"


def _string(text: str) -> str:
    """Return the pattern of a text as JSON, with or without its other letters escaped."""
    plain, ascii_only = json.dumps(text, ensure_ascii=False), json.dumps(text)
    ways = [re.escape(plain)] + ([re.escape(ascii_only)] if ascii_only != plain else [])
    return ways[0] if len(ways) == 1 else f"(?:{'|'.join(ways)})"


def _either(text: str) -> str:
    """Return the pattern of a text, as it is or within a JSON string."""
    ways = dict.fromkeys((text, json.dumps(text, ensure_ascii=False)[1:-1], json.dumps(text)[1:-1]))
    return "|".join(re.escape(way) for way in ways)
