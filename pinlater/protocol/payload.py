"""How the structs of ``messages`` are declared in Python.

They are the classes that thriftpy2 would make from a Thrift file. Declared in Python, they save programs the time to
parse that file when they start, and type checkers see their fields.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, dataclass_transform

from thriftpy2.thrift import TType, gen_init

if TYPE_CHECKING:

    class Payload:
        """A struct."""

    class ErrorPayload(Exception):
        """A declared exception."""

else:
    from thriftpy2.thrift import TException as ErrorPayload  # noqa: F401 - for messages
    from thriftpy2.thrift import TPayload as Payload

Kind = TypeVar("Kind", bound=type)
WireType = int | tuple[Any, ...]
"""A scalar type, or thriftpy2's specification of a struct, a list, a set or a map."""


class Field(NamedTuple):
    """One field of a struct."""

    number: int
    wire_type: WireType
    default: Any
    required: bool


def field(number: int, wire_type: WireType, *, default: Any, required: bool = False) -> Any:
    """Declare a field: its id, its type on the wire, its value when absent, and whether it is required."""
    return Field(number, wire_type, default, required)


@dataclass_transform(field_specifiers=(field,))
def payload(kind: Kind) -> Kind:
    """Turn a class with declared fields into a struct that thriftpy2 reads and writes."""
    fields = {name: value for name, value in vars(kind).items() if isinstance(value, Field)}
    for name in fields:
        delattr(kind, name)
    return _filled(kind, fields)


def arguments_struct(method: str, arguments: dict[str, WireType]) -> type[Payload]:
    """Return the struct of a call's arguments."""
    fields = {name: field(number, kind, default=None) for number, (name, kind) in enumerate(arguments.items(), 1)}
    return _filled(type(f"{method}_args", (Payload,), {}), fields)


def result_struct(method: str, success: WireType | None, error: type) -> type[Payload]:
    """Return the struct of a call's result, with ``success`` unless it is void, and ``e``."""
    fields = {} if success is None else {"success": field(0, success, default=None)}
    fields["e"] = field(1, (TType.STRUCT, error), default=None)
    return _filled(type(f"{method}_result", (Payload,), {}), fields)


def _filled(kind: Kind, fields: dict[str, Field]) -> Kind:
    defaults = [(name, each.default) for name, each in fields.items()]
    setattr(kind, "thrift_spec", {each.number: _specification(name, each) for name, each in fields.items()})  # noqa: B010
    setattr(kind, "default_spec", defaults)  # noqa: B010 - thriftpy2's names

    def compile_and_initialize(self: Any, *values: Any, **named: Any) -> None:
        gen_init(kind, default_spec=defaults)
        vars(kind)["__init__"](self, *values, **named)

    # thriftpy2 generates and compiles the method. That waits until a class is first used: a program uses few of them.
    setattr(kind, "__init__", compile_and_initialize)  # noqa: B010 - type checkers use that of ``dataclass_transform``
    return kind


def _specification(name: str, declared: Field) -> tuple[Any, ...]:
    if isinstance(declared.wire_type, int):
        return declared.wire_type, name, declared.required
    wire_type, *element = declared.wire_type
    return wire_type, name, *element, declared.required
