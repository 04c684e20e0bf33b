"""Sections about classes and functions, made from their docstrings and signatures."""

from __future__ import annotations

import ast
from pathlib import Path

from pages.docstrings import prose, signature
from pages.markdown import code

PACKAGE = Path(__file__).parents[2] / "pinlater"


def read(module: str) -> ast.Module:
    """Return the syntax of a module of this project."""
    return ast.parse((PACKAGE / f"{module}.py").read_text(encoding="utf-8"))


def found(module: str, name: str) -> ast.ClassDef | ast.FunctionDef:
    """Return a class or function of a module."""
    for node in read(module).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == name:
            return node
    raise LookupError(f"{module} has no {name}")


def described(
    module: str, name: str, *, level: int = 2, methods: bool = True, base: tuple[str, str] | None = None
) -> str:
    """Return the section of a class or function: its docstring, then its public methods and properties.

    ``base`` is the module and name of a class above it, whose methods are shown as its own.
    """
    node = found(module, name)
    parts = [f"{'#' * level} {name}"]
    if isinstance(node, ast.FunctionDef):
        parts.append(code(name + signature(node)))
    parts.append(prose(ast.get_docstring(node) or ""))
    if isinstance(node, ast.ClassDef) and methods:
        bodies = [*node.body, *(found(*base).body if base else ())]
        members = [each for each in bodies if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]
        parts += [member(each, name, level + 1) for each in members if is_shown(each)]
    return "\n\n".join(parts)


def is_shown(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a method is for users: it has a docstring, and no underscore."""
    overload = any(isinstance(each, ast.Name) and each.id == "overload" for each in node.decorator_list)
    return not node.name.startswith("_") and not overload and ast.get_docstring(node) is not None


def member(node: ast.FunctionDef | ast.AsyncFunctionDef, owner: str, level: int) -> str:
    """Return the section of a method or property."""
    is_property = any(isinstance(each, ast.Name) and each.id == "property" for each in node.decorator_list)
    declared = f": {ast.unparse(node.returns)}" if is_property and node.returns else signature(node)
    heading = f"{'#' * level} {owner}.{node.name}"
    return "\n\n".join([heading, code(node.name + declared), prose(ast.get_docstring(node) or "")])
