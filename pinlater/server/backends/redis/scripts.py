"""The Lua scripts, each in a file of its own with a comment that says what it does.

A script runs whole, alone, and on the shard's own clock; so each is one step of the contract.
"""

from __future__ import annotations

import hashlib
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

_FOLDER = Path(__file__).parent / "scripts"
_WITH = re.compile(r"^-- with ([a-z ]+)$", re.MULTILINE)
_ALONE = re.compile(r"^-- alone$", re.MULTILINE)


class Script(NamedTuple):
    """A script as Redis gets it, and the name that Redis then knows it by."""

    text: str
    sha: str


@cache
def scripts() -> dict[str, Script]:
    """Return all scripts by name."""
    return {path.stem: _assemble(path) for path in sorted(_FOLDER.glob("*.lua"))}


def _assemble(path: Path) -> Script:
    """Put the parts that a script names in its head before it; all but those "alone" begin with a clock and a queue."""
    own = path.read_text(encoding="utf-8")
    parts = [] if _ALONE.search(own) else ["clock", "queue"]
    for match in _WITH.finditer(own):
        parts += match[1].split()
    texts = [(_FOLDER / "parts" / f"{part}.lua").read_text(encoding="utf-8") for part in parts]
    text = "".join([*texts, own])
    return Script(text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())
