"""The Lua scripts: each is one file that starts with a comment about what it does.

Redis runs a script atomically, and the script goes by the shard's own clock, so each is one step of the contract.
"""

from __future__ import annotations

import hashlib
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

_FOLDER = Path(__file__).parent / "scripts"
_PARTS = re.compile(r"^-- parts: ([a-z_ ]+)$", re.MULTILINE)
_STANDALONE = re.compile(r"^-- standalone$", re.MULTILINE)


class Script(NamedTuple):
    """The text of a script, and its digest for ``EVALSHA``."""

    text: str
    sha: str


@cache
def scripts() -> dict[str, Script]:
    """Return all scripts by name."""
    return {path.stem: _assemble(path) for path in sorted(_FOLDER.glob("*.lua"))}


def _assemble(path: Path) -> Script:
    """Prepend the parts that a script lists, and unless it is standalone, those that all others share."""
    own = path.read_text(encoding="utf-8")
    parts = [] if _STANDALONE.search(own) else ["clock", "queue", "chunks"]
    for match in _PARTS.finditer(own):
        parts += match[1].split()
    texts = [(_FOLDER / "parts" / f"{part}.lua").read_text(encoding="utf-8") for part in parts]
    text = "".join([*texts, own])
    return Script(text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())
