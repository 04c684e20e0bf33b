"""Public names: signatures, fields, bases and codes, in a text that does not tell where something is defined."""

import dataclasses
import enum
import importlib
import inspect
import re
import typing

from tests.surface.places import ROOT

MODULES = (
    "pinlater",
    "pinlater.client",
    "pinlater.outbox",
    "pinlater.outbox.django",
    "pinlater.testing",
    "pinlater_supervisor",
    "jobs_example",
)
TRACING = ("traced",)
OURS = ("pinlater", "pinlater_supervisor", "jobs_example")
DUNDERS = (
    *("__call__", "__enter__", "__exit__", "__aenter__", "__aexit__", "__iter__", "__aiter__", "__next__"),
    *("__len__", "__bool__", "__contains__", "__getitem__", "__lt__", "__str__"),
)


def render():
    """Return all public names, each with what can be seen of it; classes that these lead to come last."""
    blocks, homes = [], {}
    seen = _Seen()
    for module, names in _lists():
        blocks.append(f"== {module}")
        for name, value in names:
            whole = f"{module}.{name}"
            home = homes.setdefault(id(value), whole) if callable(value) else whole
            blocks.append(describe(name, value, seen) if home == whole else f"{name}: see {home}")
    return "\n".join([*blocks, "== returned or held by these, exported nowhere", *_reached(seen, homes)]) + "\n"


def _lists():
    for module in MODULES:
        loaded = importlib.import_module(module)
        public = getattr(loaded, "__all__", None)
        if public is None:
            public = [name for name in vars(loaded) if not name.startswith("_") and name[0].isupper()]
        yield module, [(name, getattr(loaded, name)) for name in sorted(public)]
    errors = importlib.import_module("pinlater.errors")
    yield "pinlater.errors", sorted(item for item in vars(errors).items() if _is_of_errors(*item))
    tracing = importlib.import_module("pinlater.tracing")
    yield "pinlater.tracing", [(name, getattr(tracing, name)) for name in TRACING]


def _is_of_errors(name, value):
    if name.startswith("_"):
        return False
    is_error = isinstance(value, type) and issubclass(value, BaseException)
    return is_error or name.isupper() or (inspect.isfunction(value) and value.__module__.split(".")[0] in OURS)


def _reached(seen, homes):
    """Describe the classes that public ones return or hold, without being exported themselves."""
    found = {}
    while left := [kind for kind in seen.kinds if id(kind) not in homes]:
        for kind in left:
            homes[id(kind)] = kind.__name__
            found[kind.__name__] = describe(kind.__name__, kind, seen)
    return [found[name] for name in sorted(found)]


class _Seen:
    """Collects the classes of ours that results and fields name."""

    def __init__(self):
        self.kinds = []

    def note(self, value, scope):
        try:
            hints = typing.get_type_hints(value, globalns=scope)
        except Exception:  # such as names that are imported for type checkers alone
            return
        for each in hints.values() if isinstance(value, type) else [hints.get("return")]:
            self._note_type(each)

    def _note_type(self, kind):
        for inner in typing.get_args(kind):
            self._note_type(inner)
        if isinstance(kind, type) and not kind.__name__.startswith("_") and _is_ours(kind):
            self.kinds.append(kind)


def describe(name, value, seen):
    """Return what can be seen of one thing, on one line or several."""
    if isinstance(value, type):
        return "\n    ".join([f"class {name}{_bases(value)}", *_class_lines(value, seen)])
    if inspect.isroutine(value):
        return f"def {name}{signature(value)}"
    return f"{name} = {_text_of(value)}"


def _is_ours(thing):
    return thing.__module__.split(".")[0] in OURS


def _bases(kind):
    """Return the bases that a user may rely on: errors, and classes of others."""
    names = []
    for base in kind.__mro__[1:-1]:
        is_shown = issubclass(kind, BaseException) or not _is_ours(base)
        if is_shown and not base.__name__.startswith("_"):
            names.append(base.__name__)
    return f"({', '.join(names)})" if names else ""


def _class_lines(kind, seen):
    if issubclass(kind, enum.Enum):
        yield from (f"{member.name} = {member.value!r}" for member in kind)
    else:
        yield from _construction(kind, seen)
        yield from _attributes(kind)
    for name in sorted(dir(kind)):
        owner = next((base for base in kind.__mro__ if name in vars(base)), object)
        is_shown = name in DUNDERS or not name.startswith("_")
        if is_shown and _is_ours(owner) and not _is_field(kind, name):
            yield _member(name, vars(owner)[name], seen)


def _construction(kind, seen):
    fields = list(_fields(kind))
    if fields:
        seen.note(kind, vars(inspect.getmodule(kind)))
        yield from fields
    elif not getattr(kind, "_is_protocol", False) and any(
        "__init__" in vars(base) for base in filter(_is_ours, kind.__mro__)
    ):
        yield f"def __init__{signature(kind.__init__)}"


def _has_own_init(kind):
    is_protocol = getattr(kind, "_is_protocol", False)
    return not is_protocol and any("__init__" in vars(base) for base in kind.__mro__ if _is_ours(base))


def _attributes(kind):
    """Return the attributes that a class declares, or that its docstring tells of."""
    told = re.search(r"^Attributes:\n((?:    .*\n?|\n)*)", inspect.cleandoc(kind.__doc__ or ""), re.MULTILINE)
    names = dict.fromkeys(re.findall(r"^    (\w+):", told[1], re.MULTILINE) if told else (), "")
    for base in filter(_is_ours, kind.__mro__):
        names |= {name: type_text(each) for name, each in inspect.get_annotations(base).items()}
    for name, text in sorted(names.items()):
        if (
            not name.startswith("_")
            and not _is_field(kind, name)
            and not inspect.isdatadescriptor(getattr(kind, name, None))
        ):
            yield f"attribute {name}: {text}".rstrip(": ")


def _fields(kind):
    if dataclasses.is_dataclass(kind):
        for each in dataclasses.fields(kind):
            if not each.name.startswith("_"):
                factory = each.default_factory
                default = each.default if factory is dataclasses.MISSING else f"{factory.__name__}()"
                yield _field(each.name, each.type, default, dataclasses.MISSING)
    elif hasattr(kind, "__struct_fields__"):
        import msgspec

        for each in msgspec.structs.fields(kind):
            has_factory = each.default_factory is not msgspec.NODEFAULT
            default = f"{each.default_factory.__name__}()" if has_factory else each.default
            yield _field(each.name, _annotation_of(kind, each.name), default, msgspec.NODEFAULT)
    elif issubclass(kind, tuple) and hasattr(kind, "_fields"):
        for name in kind._fields:
            yield _field(name, _annotation_of(kind, name), kind._field_defaults.get(name, ...), ...)


def _is_field(kind, name):
    names = {each.name for each in dataclasses.fields(kind)} if dataclasses.is_dataclass(kind) else set()
    if issubclass(kind, enum.Enum):
        names = kind.__members__
    return name in {*names, *getattr(kind, "__struct_fields__", ()), *getattr(kind, "_fields", ())}


def _annotation_of(kind, name):
    for base in kind.__mro__:
        found = inspect.get_annotations(base)
        if name in found:
            return found[name]
    return "?"


def _field(name, kind, default, missing):
    return f"{name}: {type_text(kind)}" + ("" if default is missing else f" = {_text_of(default)}")


def _member(name, value, seen):
    if isinstance(value, staticmethod | classmethod):
        kind = "static" if isinstance(value, staticmethod) else "classmethod"
        return f"{kind} {name}{signature(value.__func__)}"
    if isinstance(value, property):
        seen.note(value.fget, value.fget.__globals__)
        result = inspect.get_annotations(value.fget).get("return", "?")
        return f"property {name}: {type_text(result)}"
    if inspect.isfunction(value):
        seen.note(value, value.__globals__)
        prefix = "async " if inspect.iscoroutinefunction(value) or inspect.isasyncgenfunction(value) else ""
        return f"{prefix}def {name}{signature(value)}"
    if inspect.ismemberdescriptor(value):
        return f"attribute {name}"
    return f"{name} = {_text_of(value)}"


# Texts


def signature(function):
    """Return a signature whose annotations name no modules; options that stand in a TypedDict are written out."""
    try:
        given = inspect.signature(function)
    except (ValueError, TypeError):
        return "(...)"
    parts, has_star = [], False
    for each in given.parameters.values():
        if each.kind is each.KEYWORD_ONLY and not has_star:
            parts.append("*")
        has_star = has_star or each.kind in {each.KEYWORD_ONLY, each.VAR_POSITIONAL}
        options = _unpacked(function, each)
        if options:
            parts += ([] if has_star else ["*"]) + [f"{name}: {type_text(kind)} = ?" for name, kind in options.items()]
            continue
        star = {each.VAR_POSITIONAL: "*", each.VAR_KEYWORD: "**"}.get(each.kind, "")
        text = star + each.name + ("" if each.annotation is each.empty else f": {type_text(each.annotation)}")
        parts.append(text + ("" if each.default is each.empty else f" = {_text_of(each.default)}"))
    result = "" if given.return_annotation is given.empty else f" -> {type_text(given.return_annotation)}"
    return f"({', '.join(parts)}){result}"


def _unpacked(function, parameter):
    """Return the options of ``**options: Unpack[Options]``."""
    if parameter.kind is not parameter.VAR_KEYWORD or "Unpack[" not in str(parameter.annotation):
        return {}
    scope = inspect.unwrap(function).__globals__
    name = re.search(r"Unpack\[(\w+)\]", type_text(parameter.annotation))[1]
    kind = scope[name]
    return {field: _annotation_of(kind, field) for base in kind.__mro__ for field in inspect.get_annotations(base)}


def type_text(annotation):
    """Return an annotation without the modules of the names in it."""
    if isinstance(annotation, typing.ForwardRef):
        annotation = annotation.__forward_arg__
    if isinstance(annotation, type) and not typing.get_args(annotation):
        return annotation.__qualname__
    return _without_modules(str(annotation).replace("ForwardRef(", "("))


def _text_of(value):
    if isinstance(value, str):
        return repr(value) if not value.endswith("()") else value
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_text_of(key)}: {_text_of(each)}" for key, each in value.items()) + "}"
    if callable(value):
        return getattr(value, "__qualname__", type(value).__name__)
    return _without_modules(re.sub(r" at 0x[0-9a-f]+", "", repr(value)))


def _without_modules(text):
    return re.sub(r"(?<![\w.'\"/:])(?:[A-Za-z_]\w*\.)+(?=[A-Za-z_])", "", text)


# Imports of the documents


def render_imports():
    """Return what readme, guides and examples import or name of the project; each must be there."""
    found = set()
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "jobs_example").rglob("*.py")]
    for page in pages:
        text = page.read_text(encoding="utf-8")
        imports = re.findall(r"^[ >]*from (pinlater[\w.]*) import (?:\(([^)]*)\)|([^\n(#]*))", text, re.MULTILINE)
        found |= {(module, name) for module, *names in imports for name in re.findall(r"\w+", " ".join(names))}
        found |= {(module, "") for module in re.findall(r"^\s*import (pinlater[\w.]*)", text, re.MULTILINE)}
        found |= set(re.findall(r"\b(pinlater(?:_supervisor)?(?:\.[a-z_]+)+):(\w+)", text))
    return "".join(f"{module} {name}".strip() + f"{_missing(module, name)}\n" for module, name in sorted(found))


def _missing(module, name):
    try:
        loaded = importlib.import_module(module)
    except ImportError:
        return "  MISSING"
    return "" if not name or hasattr(loaded, name) else "  MISSING"
