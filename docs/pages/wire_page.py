"""The page of what was added to the original Thrift contract."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pages.class_sections import PACKAGE
from pages.docstrings import prose
from pages.markdown import code, page, sentence, table
from pinlater.protocol.operations import OPERATIONS


def wire() -> str:
    """Return the page of what was added to the original Thrift contract."""
    source = (PACKAGE / "protocol" / "pinlater.thrift").read_text(encoding="utf-8")
    fields, structs = [], []
    for note, name, body in re.findall(
        r"((?:^//[^\n]*\n)*)^struct (\w+) \{\n(.*?)^\}", source, re.MULTILINE | re.DOTALL
    ):
        added = list(additions(body))
        if "// Addition" in note:
            structs.append(
                (code(name), sentence(spoken(note)), "<br>".join(f"`{each[0]}`: {each[1]}" for each in added))
            )
        else:
            fields += [(code(f"{name}.{each[0]}"), each[1], each[2]) for each in added if int(each[3]) >= 100]
    return page(
        "Additions to the wire contract",
        "The service speaks the Thrift contract of the original PinLater, framed, binary protocol. All additions are "
        "optional fields with ids from 100 up, and new methods: a client of the original never notices them, a server "
        "of the original skips them. The whole contract: [pinlater.thrift](../../pinlater/protocol/pinlater.thrift). "
        "How to use it: [other languages](../guides/other-languages.md).",
        "## Fields\n\n" + table(("field", "type", "meaning"), fields),
        "## Methods\n\nThose with an idempotency key take one in `RequestContext.idempotencyKey`.\n\n"
        + table(("method", "what it does", "takes", "returns", "key", "addition"), methods(source)),
        "## Their structs\n\n" + table(("struct", "what it is", "fields"), structs),
    )


def methods(source: str) -> Iterator[tuple[str, ...]]:
    """Yield a row for each method of the Thrift file: its types there, and what the table of operations says."""
    declared = re.findall(r"^  (\S+(?: \S+>)?) (\w+)\(1: RequestContext context(?:, ([^)]*))?\)", source, re.MULTILINE)
    types = {name: (re.findall(r"\d: (\S+)", arguments), returns) for returns, name, arguments in declared}
    for name, (takes, returns) in types.items():
        row = OPERATIONS[name]
        has_key, is_addition = "yes" if row.has_key else "", "" if row.is_original else "yes"
        what = (row.build.__doc__ or "").partition("\n")[0]
        yield code(name), prose(what), ", ".join(map(code, takes)), code(returns), has_key, is_addition


def additions(body: str) -> Iterator[tuple[str, str, str, str]]:
    """Yield name, type, meaning and id of the fields of a struct."""
    comment = ""
    for line in map(str.strip, body.splitlines()):
        declared = re.fullmatch(r"(\d+): (?:required|optional) (\S+) (\w+)(?: = .*)?,", line)
        if declared:
            yield declared[3], code(declared[2]), sentence(spoken(comment)) if comment else "", declared[1]
        comment = f"{comment}\n{line}" if line.startswith("//") else ""


def spoken(comment: str) -> str:
    """Return the text of a comment."""
    return (
        " ".join(line.strip().removeprefix("//").strip() for line in comment.splitlines())
        .strip()
        .removeprefix("Addition")
        .lstrip(".: ")
    )
