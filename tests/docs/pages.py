"""Markdown pages and the code blocks in them."""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROXIES = ("nginx", "caddy")
"""Languages of blocks that ``test_proxies.py`` runs."""

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

_FENCE = re.compile(r"^( *)```(\w*)\s*$")
_MARKER = re.compile(r"^\s*<!-- (not run|file): (.+) -->\s*$")
_FILE = re.compile(r"# (/?[\w./@-]+\.(?:py|conf|json|service|txt))$")


@dataclass(frozen=True)
class Block:
    """One code block.

    Attributes:
        page: its file.
        line: of its first line of code, 1 for the first of the page.
        language: that its fence names; empty for drawings and other text.
        code: what is in it.
        reason: why it cannot be run; empty if it is.
        file: name of the file that it shows; empty if it shows none.
    """

    page: Path
    line: int
    language: str
    code: str
    reason: str = ""
    file: str = ""

    @property
    def place(self):
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(page):
    """Return the blocks of a page in their order."""
    lines = page.read_text(encoding="utf-8").split("\n")
    found, start, indent, language = [], None, "", ""
    for number, line in enumerate(lines):
        fence = _FENCE.match(line)
        if fence and start is None:
            start, indent, language = number + 1, fence[1], fence[2]
        elif fence:
            code = "".join(text.removeprefix(indent) + "\n" for text in lines[start:number])
            found.append(Block(page, start + 1, language, code, **_said_of(lines, start - 2, code)))
            start = None
    assert start is None, f"{page}:{start}: the block is not closed"
    return found


def _said_of(lines, before, code):
    """Return the reason and the file of a block, from the marker above it or from its first line."""
    marker = _MARKER.match(lines[before]) if before >= 0 else None
    file = _FILE.match(code.partition("\n")[0])
    return {
        "reason": marker[2] if marker and marker[1] == "not run" else "",
        "file": marker[2] if marker and marker[1] == "file" else file[1] if file else "",
    }


def prose(page):
    """Return the text of a page without its blocks."""
    return re.sub(r"^( *)```.*?^\1```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
