"""Docstrings and signatures of the code, as Markdown."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator


def prose(docstring: str) -> str:
    """Return a docstring as Markdown: literals in one pair of ticks, sections as lists, without its examples."""
    lines = without_examples(inspect.cleandoc(docstring).splitlines())
    text = re.sub(r"``([^`]+)``", r"`\1`", "\n".join(lines))
    for section in ("Attributes", "Args", "Returns", "Raises"):
        text = re.sub(rf"^{section}:\n((?:    .*\n?|\n)*)", as_list(section), text, flags=re.MULTILINE)
    return re.sub(r"\n{3,}", "\n\n", text).strip()


def without_examples(lines: list[str]) -> Iterator[str]:
    """Leave out a line ``::`` and the indented block behind it: the guides have examples that are run."""
    skips = False
    for line in lines:
        if skips and line and not line.startswith("    "):
            skips = False
        if not skips and line.strip() != "::":
            yield re.sub(r"::$", ".", line)
        skips = skips or line.endswith("::")


def as_list(section: str) -> Callable[[re.Match[str]], str]:
    """Return what makes a list of a docstring's section."""
    title = {"Args": "Arguments"}.get(section, section)

    def render(match: re.Match[str]) -> str:
        if section == "Returns":
            return f"{title}: {' '.join(match[1].split())}\n\n"
        items = re.split(r"\n(?=\S)", textwrap.dedent(match[1]).strip())
        told = [" ".join(item.split()) for item in items]
        return f"{title}:\n\n" + "\n".join("* " + re.sub(r"^([*\w, ]+): ", r"`\1`: ", item) for item in told) + "\n\n"

    return render


def signature(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """Return the arguments and the result of a function."""
    given = node.args
    plain = [*given.posonlyargs, *given.args]
    bare = [None] * (len(plain) - len(given.defaults))
    said = [argument(each, default) for each, default in zip(plain, [*bare, *given.defaults], strict=True)]
    if given.vararg or given.kwonlyargs:
        said.append("*" + argument(given.vararg) if given.vararg else "*")
    said += [argument(each, default) for each, default in zip(given.kwonlyargs, given.kw_defaults, strict=True)]
    said += ["**" + argument(given.kwarg)] if given.kwarg else []
    shown = ", ".join(each for each in said if each != "self")
    return f"({shown})" + (f" -> {ast.unparse(node.returns)}" if node.returns else "")


def argument(declared: ast.arg, default: ast.expr | None = None) -> str:
    """Return an argument with its type and its default."""
    typed = f"{declared.arg}: {ast.unparse(declared.annotation)}" if declared.annotation else declared.arg
    return f"{typed} = {ast.unparse(default)}" if default else typed
