"""Forms for bodies: one input for each field of a job, made from its class's JSON schema or from the job's values."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from pinlater.dashboard.forms import Form, RequestRefused
from pinlater.model.kept_mark import class_in

MOST_BODY = 200_000
"""Characters of a body in a form."""

_MOST_FIELDS = 200
_NO_JSON = (ValueError, RecursionError)
_CHANGED_BY_BROWSERS = re.compile("[\r\0]")
"""Browsers send line ends of other kinds than they were given, and pages have no NUL. JSON escapes both."""
_OPTIONAL = "?"
_KINDS = {"string": "text", "integer": "number", "number": "number", "boolean": "boolean"}


class BodyField(NamedTuple):
    """An input for one field of a job.

    Attributes:
        name: name of the field.
        kind: ``text``, ``number``, ``boolean`` or ``json``.
        value: what the input shows.
        is_required: whether the field cannot be left out, as it is otherwise if the input is empty.
        hint: its type, in the words of the schema; if an existing job lacks it, that and the default.
    """

    name: str
    kind: str
    value: str = ""
    is_required: bool = True
    hint: str = ""

    @property
    def sent(self) -> str:
        """What a form sends about the field beside its value; workers may report another schema, or none, by then."""
        return f"{self.kind}{'' if self.is_required else _OPTIONAL}:{self.name}"


def fields_of(schema: str, values: Mapping[str, Any] | None) -> list[BodyField] | None:
    """Return the inputs of a job; None if its fields are not known, are too many, or have names that no input can have.

    A field that an existing job does not have is shown empty, and left out again unless it is filled in.

    Args:
        schema: JSON schema of its class; empty if unknown.
        values: values of the job's fields; None for a new job, which begins with the defaults of its class.
    """
    declared, required = _properties(schema)
    names = [*declared, *(name for name in values or {} if name not in declared)]
    if (not declared and values is None) or len(names) > _MOST_FIELDS or not all(map(_is_name, names)):
        return None
    return [
        _field(name, declared.get(name), values, is_required=name in required or name not in declared) for name in names
    ]


def read_body(form: Form, job: str, fields: list[BodyField]) -> bytes:
    """Return the body that a form describes.

    Args:
        form: the submitted form.
        job: name of the job's class; empty for a body without one.
        fields: the inputs.

    Raises:
        RequestRefused: a value does not fit its field.
    """
    body: dict[str, Any] = {"job": job} if job else {}
    for field in fields:
        text = form.raw(f"field-{field.name}", MOST_BODY)
        if field.kind == "text":
            if text or field.is_required:
                body[field.name] = text.replace("\r\n", "\n")
        elif text.strip():
            body[field.name] = _value(field, text)
        elif field.is_required:
            raise RequestRefused(400, f"the field {field.name} has no value")
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def sent_fields(form: Form) -> list[BodyField]:
    """Return the inputs of a submitted form, as ``BodyField.sent`` describes them."""
    found = []
    for text in form.all("kind"):
        kind, _, name = text.partition(":")
        if name:
            found.append(BodyField(name, kind.removesuffix(_OPTIONAL), is_required=not kind.endswith(_OPTIONAL)))
    return found


def own_fields(body: bytes | None) -> tuple[str, dict[str, Any], dict[str, Any]] | None:
    """Return the class, the fields and PinLater's own fields of a body; None if it is not a JSON object."""
    try:
        found = json.loads(body or b"")
    except _NO_JSON:
        return None
    if not isinstance(found, dict):
        return None
    job = class_in(found.pop("job")) if isinstance(found.get("job"), str) else ""
    kept = {name: value for name, value in found.items() if name.startswith("$")}
    return job, {name: value for name, value in found.items() if name not in kept}, kept


def _field(
    name: str, declared: Mapping[str, Any] | None, values: Mapping[str, Any] | None, *, is_required: bool
) -> BodyField:
    if values is not None and name in values:
        value = values[name]
        is_left_out = value == "" and not is_required  # as an empty text, which means the default of the class
        kind = "json" if is_left_out else _kind_of(value)
        wanted = _kind_in(declared)
        if wanted == kind or declared is None:
            return BodyField(name, kind, _shown(value, kind), is_required, _hint(declared))
        return BodyField(name, "json", _shown(value, "json"), is_required, _hint(declared))
    kind, hint = _kind_in(declared), _hint(declared)
    default = (declared or {}).get("default")
    if values is None:
        return BodyField(name, kind, "" if default is None else _shown(default, kind), is_required, hint)
    absent = "not in this job"
    if "default" in (declared or {}):
        absent += f", by default {json.dumps(default, ensure_ascii=False)}"[:200]
    return BodyField(name, kind, is_required=False, hint=f"{hint}, {absent}" if hint else absent)


def is_sent_back(text: str) -> bool:
    """Return whether a browser sends a text as it was given, apart from CRLF for line feeds."""
    return not _CHANGED_BY_BROWSERS.search(text)


def _is_name(text: str) -> bool:
    return bool(text) and is_sent_back(text) and "\n" not in text


def _kind_of(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, str):
        return "text" if is_sent_back(value) else "json"
    return "number" if isinstance(value, int | float) else "json"


def _kind_in(declared: Mapping[str, Any] | None) -> str:
    kind = (declared or {}).get("type")
    return _KINDS.get(kind, "json") if isinstance(kind, str) else "json"


def _hint(declared: Mapping[str, Any] | None) -> str:
    """Return the type of a field, such as ``string, date-time`` or ``"a" | "b"``."""
    if not declared:
        return ""
    if isinstance(declared.get("enum"), list):
        return " | ".join(json.dumps(one) for one in declared["enum"])[:200]
    kinds = [one.get("type") or str(one.get("$ref", "")).rpartition("/")[2] for one in declared.get("anyOf") or ()]
    kind = declared.get("type") or str(declared.get("$ref", "")).rpartition("/")[2] or " or ".join(filter(None, kinds))
    return ", ".join(str(part) for part in (kind, declared.get("format")) if part)[:200]


def _shown(value: Any, kind: str) -> str:
    if kind == "text":
        return str(value)
    return json.dumps(value, ensure_ascii=False, indent=2 if isinstance(value, dict | list) and value else None)


def _value(field: BodyField, text: str) -> Any:
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except _NO_JSON as error:
        raise RequestRefused(400, f"the field {field.name} is not JSON: {error}; a text needs quotes") from None
    if field.kind != "json" and _kind_of(value) != field.kind:
        raise RequestRefused(400, f"the field {field.name} must be a {field.kind}")
    return value


def _refuse_constant(text: str) -> Any:
    raise ValueError(f"{text} is no JSON number")


def _properties(schema: str) -> tuple[dict[str, Mapping[str, Any]], set[str]]:
    """Return the fields that a schema declares, and the names of the required ones."""
    try:
        whole = json.loads(schema) if schema else {}
        defined = whole.get("$defs", {})
        kind = defined.get(str(whole.get("$ref", "")).rpartition("/")[2], whole)
        fields = {name: one for name, one in kind.get("properties", {}).items() if name != "job"}
        return fields, set(kind.get("required", ()))
    except (*_NO_JSON, AttributeError, TypeError):
        return {}, set()
