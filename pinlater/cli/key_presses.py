"""Names of keys, from the bytes that a terminal sends."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator

_SEQUENCES = {
    "A": "up",
    "B": "down",
    "C": "right",
    "D": "left",
    "H": "home",
    "F": "end",
    "1~": "home",
    "4~": "end",
    "5~": "pageup",
    "6~": "pagedown",
    "7~": "home",
    "8~": "end",
}
_SINGLE = {"\x1b": "escape", "\r": "enter", "\n": "enter", "\x7f": "backspace", "\b": "backspace", "\x03": "^c"}
_PART = re.compile(r"\x1b[\[O]([0-9;]*[A-Za-z~])|(.)", re.DOTALL)


def key_names(data: bytes) -> Iterator[str]:
    """Yield the keys in one read from a terminal: characters as they are, other keys by name; skip unknown ones."""
    for sequence, letter in _PART.findall(codecs.decode(data, "utf-8", "ignore")):
        if letter:
            yield _SINGLE.get(letter, letter)
        elif sequence in _SEQUENCES:
            yield _SEQUENCES[sequence]
