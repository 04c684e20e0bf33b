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
        read: returns the record's value for the struct's, which is None if absent; None: the record's default.
        write: returns the struct's value for the record's; None: absent.
    """

    read: Callable[[Any], Any] = _same
    write: Callable[[Any], Any] = _same


RARE = Conversion(write=lambda value: value or None)
"""For fields that are not sent if they are 0, False or empty."""

ANSWERED = Conversion(write=lambda _: None)
"""For fields that only servers fill in, so they are never written from a record."""


class RecordMap(Generic[R]):
    """Converts structs to records, and records to structs.

    A field that a struct lacks gets the record's default, else 0 or empty. A record may end with more, with defaults.

    Args:
        struct: a class of ``messages``.
        record: a named tuple or dataclass.
        conversions: conversions of the fields whose values differ, by their names in the struct.
        order: names of the struct's fields in the order of the record, if the orders differ.
        is_strict: whether to refuse structs that lack a required field for which the record has no default.

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
        """Convert a struct to a record.

        Raises:
            ProtocolError: the struct is missing, or lacks a required field.
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
        """Convert the structs of a reply or field to records; see ``record``."""
        values = list(map(self._struct_values, found := present(structs)))
        if self._conversions or any(None in some for some in values):
            return list(map(self.record, found))
        return list(starmap(self.record_type, values))

    def records_by_name(self, structs: Any) -> dict[str, R]:
        """Convert a mapping of names to structs; see ``record``."""
        return {name: self.record(struct) for name, struct in present(structs).items()}

    def struct(self, record: R) -> Any:
        """Convert a record to a struct."""
        values = list(self._record_values(record))
        for _, place, _, write in self._conversions:
            values[place] = write(values[place])
        return self._make(*values)

    def structs(self, records: Iterable[R]) -> list[Any]:
        """Convert records to structs."""
        if self._conversions:
            return list(map(self.struct, records))
        return list(starmap(self._make, map(self._record_values, records)))

    @property
    def several(self) -> Conversion:
        """The conversion of a list of such structs that is sent even if it is empty."""
        return Conversion(lambda structs: self.records(structs or ()), self.structs)

    @property
    def rare(self) -> Conversion:
        """The conversion of a list of such structs that is not sent if it is empty; the records are in a tuple."""
        return Conversion(
            lambda structs: tuple(self.records(structs or ())), lambda records: self.structs(records) or None
        )


def _defaults(record: Any) -> dict[str, Any]:
    """Return the fields of a record with their defaults; ``MISSING`` for those without."""
    if not is_dataclass(record):
        return {name: record._field_defaults.get(name, MISSING) for name in record._fields}
    made = {field.name: field.default_factory() for field in fields(record) if field.default_factory is not MISSING}
    return {field.name: field.default for field in fields(record)} | made
