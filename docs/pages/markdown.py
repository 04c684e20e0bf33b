"""Pieces of Markdown pages."""

from __future__ import annotations

from collections.abc import Iterable

NOTE = "<!-- Made from the code by `make reference`; changes belong there. -->\n"


def page(title: str, intro: str, *parts: str) -> str:
    """Return a page of the reference."""
    return "\n\n".join([f"{NOTE}\n# {title}", intro, *(part.strip("\n") for part in parts)]) + "\n"


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """Return a table; bars within its cells are escaped."""
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def code(text: str) -> str:
    """Return a text in the type of code; nothing for nothing."""
    return f"`{text}`" if text else ""


def sentence(text: str) -> str:
    """Return a help text as a sentence."""
    text = text.strip()
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "]")) else ".")
