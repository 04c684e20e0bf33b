"""Prints measures of the code's shape: what a change has to touch, what is written twice, what goes in circles.

    python tools/shape.py [--json]

They say where to look, not what is right. Packages are folders; a cycle is a group of packages that import each other,
imports for types alone left out.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCES = ("pinlater", "supervisor/pinlater_supervisor")
_TEXT_ENDINGS = {".py", ".pyi", ".sql", ".lua", ".thrift"}
_WIRE = ("pinlater/wire", "pinlater/protocol")

_REPRESENTATIVES = {
    "files to touch for a field of an ack": r"\b(isFinal|is_final|final)\b",
    "files to touch for a call": r"\b(releaseClaims|release_claims)\b",
    "files to touch for an option of enqueue": r"\b(give_up_after|give-up-after)\b",
}
"""Measure -> what stands in each file that had to be touched for one of its kind."""


def source_files(endings: Iterable[str] = (".py",)) -> Iterator[Path]:
    """Yield the files of what ships, tests left out."""
    wanted = set(endings)
    for folder in SOURCES:
        yield from sorted(path for path in (ROOT / folder).rglob("*") if path.suffix in wanted)


def name_of(path: Path) -> str:
    """Return the dotted name of a module."""
    parts = list(path.relative_to(ROOT).with_suffix("").parts)
    if parts[0] == "supervisor":
        del parts[0]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def trees() -> dict[Path, ast.Module]:
    """Return the syntax tree of each module."""
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in source_files()}


def files_with(pattern: str) -> int:
    """Count the files in which a pattern stands."""
    search = re.compile(pattern).search
    return sum(search(path.read_text(encoding="utf-8")) is not None for path in source_files(_TEXT_ENDINGS))


def structs_outside_protocol(modules: dict[Path, ast.Module]) -> int:
    """Count the places outside the protocol's package where a struct of the wire is made."""
    return sum(
        isinstance(node, ast.Call) and _called(node.func).startswith("PinLater")
        for path, tree in modules.items()
        if not str(path.relative_to(ROOT)).startswith(_WIRE)
        for node in ast.walk(tree)
    )


def _called(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def forwarders(modules: dict[Path, ast.Module]) -> int:
    """Count the functions that do nothing but call another one with their own arguments."""
    return sum(
        _only_forwards(node)
        for tree in modules.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )


def _only_forwards(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    body = function.body[1:] if ast.get_docstring(function) else function.body
    if len(body) != 1 or not isinstance(body[0], ast.Return | ast.Expr) or body[0].value is None:
        return False
    call = body[0].value.value if isinstance(body[0].value, ast.Await) else body[0].value
    if not isinstance(call, ast.Call):
        return False
    named = {*_parameters(function), "self"}
    passed = [*call.args, *(keyword.value for keyword in call.keywords)]
    return all(isinstance(_unstarred(value), ast.Name) and _unstarred(value).id in named for value in passed)  # type: ignore[attr-defined]


def _parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    given = function.args
    for argument in (*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg):
        if argument is not None:
            yield argument.arg


def _unstarred(value: ast.expr) -> ast.expr:
    return value.value if isinstance(value, ast.Starred) else value


def package_cycles(modules: dict[Path, ast.Module]) -> list[list[str]]:
    """Return the groups of packages, at any depth, that import each other."""
    names = {name_of(path) for path in modules}
    edges: dict[str, set[str]] = defaultdict(set)
    for path, tree in modules.items():
        here = _package(path)
        for target in _imports(tree):
            module = target if target in names else target.rpartition(".")[0]
            if module in names:
                there = _package_of_name(module, modules)
                # A package and one inside of it are one room and its corner, not two that depend on each other.
                if not (f"{here}.".startswith(f"{there}.") or f"{there}.".startswith(f"{here}.")):
                    edges[here].add(there)
    return [sorted(group) for group in _components(edges) if len(group) > 1]


def _package(path: Path) -> str:
    return name_of(path.parent / "__init__.py")


def _package_of_name(module: str, modules: dict[Path, ast.Module]) -> str:
    is_package = any(name_of(path) == module and path.name == "__init__.py" for path in modules)
    return module if is_package else module.rpartition(".")[0]


def _imports(tree: ast.Module) -> Iterator[str]:
    skipped: set[ast.stmt] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            skipped.update(node.body)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node not in skipped:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import) and node not in skipped:
            yield from (alias.name for alias in node.names)


def _components(edges: dict[str, set[str]]) -> Iterator[set[str]]:
    """Yield groups of nodes that reach each other."""
    reach = {node: _reachable(node, edges) for node in edges}
    seen: set[str] = set()
    for node in edges:
        if node not in seen:
            group = {node} | {other for other in reach[node] if node in reach.get(other, ())}
            seen |= group
            yield group


def _reachable(start: str, edges: dict[str, set[str]]) -> set[str]:
    found: set[str] = set()
    waiting = [start]
    while waiting:
        for target in edges.get(waiting.pop(), ()):
            if target not in found:
                found.add(target)
                waiting.append(target)
    return found


def repeated_class_names(modules: dict[Path, ast.Module]) -> list[str]:
    """Return the names that more than one class has."""
    names = Counter(node.name for tree in modules.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    return sorted(name for name, number in names.items() if number > 1)


def measures() -> dict[str, int]:
    """Return all measures by name."""
    modules = trees()
    return {
        **{name: files_with(pattern) for name, pattern in _REPRESENTATIVES.items()},
        "wire structs made outside the protocol": structs_outside_protocol(modules),
        "functions that only pass their arguments on": forwarders(modules),
        "modules in pinlater/": len(list((ROOT / "pinlater").glob("*.py"))) - 1,
        "modules in pinlater/server/": len(list((ROOT / "pinlater/server").glob("*.py"))) - 1,
        "cycles between packages": len(package_cycles(modules)),
        "class names used more than once": len(repeated_class_names(modules)),
        "words in ARCHITECTURE.md": len((ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").split()),
        "lines of source": sum(len(path.read_text(encoding="utf-8").splitlines()) for path in source_files()),
        "modules of more than 400 lines": sum(
            len(path.read_text(encoding="utf-8").splitlines()) > 400 for path in source_files()
        ),
    }


def main() -> None:
    """Print them."""
    parser = argparse.ArgumentParser(description="Print measures of the code's shape.")
    parser.add_argument("--json", action="store_true", help="as one JSON object")
    found = measures()
    if parser.parse_args().json:
        print(json.dumps(found, indent=2))
        return
    width = max(map(len, found))
    for name, value in found.items():
        print(f"{name:<{width}}  {value:>6}")


if __name__ == "__main__":
    main()
