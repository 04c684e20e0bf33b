"""Structs <-> records that have the same fields in the same order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from itertools import starmap
from operator import attrgetter
from typing import Any, Generic, NamedTuple, TypeVar

from thriftpy2.thrift import TType

from pinlater.protocol.conversion.values import present

R = TypeVar("R")

_NONE: Mapping[str, Any] = {}
_EMPTY = {TType.STRING: "", TType.BINARY: b""}


def _same(value: Any) -> Any:
    return value


class Conversion(NamedTuple):
    """How the value of a field is converted.

    Attributes:
        read: makes the record's value of the struct's, which may be absent; None: the record's default.
        write: makes the struct's value of the record's; None: it is absent.
    """

    read: Callable[[Any], Any] = _same
    write: Callable[[Any], Any] = _same


RARE = Conversion(write=lambda value: value or None)
"""Nothing is sent of 0, False and what is empty."""

ANSWERED = Conversion(write=lambda _: None)
"""Only servers say it."""


class RecordMap(Generic[R]):
    """Makes records of structs, and structs of records.

    What a struct lacks is the record's default, else 0 or empty. A record may end with more fields, with defaults.

    Args:
        struct: a class of ``messages``.
        record: a named tuple or dataclass.
        conversions: of fields, by their names in the struct, whose values are not the same in both.
        order: names of the struct's fields in the order of the record, if that is another one.
        is_strict: whether structs without a required field, which has no default in the record, are refused.

    Attributes:
        record_type: the class of the records.
    """

    def __init__(
        self,
        struct: Any,
        record: type[R],
        conversions: Mapping[str, Conversion] = _NONE,
        *,
        order: Sequence[str] = (),
        is_strict: bool = True,
    ) -> None:
        specs, defaults = {spec[1]: spec for spec in struct.thrift_spec.values()}, _defaults(record)
        self.record_type = record
        names = list(order or specs)
        written = sorted(names, key=list(specs).index)
        is_head = written == list(specs)[: len(written)]
        self._make = struct if is_head else lambda *values: struct(**dict(zip(written, values, strict=True)))
        self._struct_values = attrgetter(*names)
        self._record_values = attrgetter(*(list(defaults)[names.index(name)] for name in written))
        self._absent = list(defaults.values())[: len(names)]
        missing = [place for place, default in enumerate(self._absent) if default is MISSING]
        for place in missing:
            self._absent[place] = _EMPTY.get(specs[names[place]][0], 0)
        self._required = [place for place in missing if is_strict and specs[names[place]][-1]]
        self._conversions = [(names.index(name), written.index(name), *both) for name, both in conversions.items()]

    def record(self, struct: Any) -> R:
        """Make a record.

        Raises:
            ProtocolError: there is no struct, or it lacks what it must have.
        """
        values = list(self._struct_values(present(struct)))
        for place in self._required if None in values else ():
            present(values[place])
        for place, _, read, _ in self._conversions:
            values[place] = read(values[place])
        if None in values:
            values = [other if value is None else value for value, other in zip(values, self._absent, strict=True)]
        return self.record_type(*values)

    def records(self, structs: Sequence[Any] | None) -> list[R]:
        """Make records of the structs in a reply, or in a field; see ``record``."""
        values = list(map(self._struct_values, found := present(structs)))
        if self._conversions or any(None in some for some in values):
            return list(map(self.record, found))
        return list(starmap(self.record_type, values))

    def records_by_name(self, structs: Any) -> dict[str, R]:
        """Make records of structs that have names; see ``record``."""
        return {name: self.record(struct) for name, struct in present(structs).items()}

    def struct(self, record: R) -> Any:
        """Make a struct."""
        values = list(self._record_values(record))
        for _, place, _, write in self._conversions:
            values[place] = write(values[place])
        return self._make(*values)

    def structs(self, records: Iterable[R]) -> list[Any]:
        """Make structs."""
        if self._conversions:
            return list(map(self.struct, records))
        return list(starmap(self._make, map(self._record_values, records)))

    @property
    def several(self) -> Conversion:
        """The conversion of a list of such structs, which is sent even if it is empty."""
        return Conversion(lambda structs: self.records(structs or ()), self.structs)

    @property
    def rare(self) -> Conversion:
        """The conversion of a list of such structs, which is not sent if it is empty; records are in a tuple."""
        return Conversion(
            lambda structs: tuple(self.records(structs or ())), lambda records: self.structs(records) or None
        )


def _defaults(record: Any) -> dict[str, Any]:
    """Return the fields of a record with their defaults; ``MISSING``: there is none."""
    if not is_dataclass(record):
        return {name: record._field_defaults.get(name, MISSING) for name in record._fields}
    made = {field.name: field.default_factory() for field in fields(record) if field.default_factory is not MISSING}
    return {field.name: field.default for field in fields(record)} | made
